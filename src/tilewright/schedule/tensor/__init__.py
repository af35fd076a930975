"""Matching and tiling for tensor instructions."""
