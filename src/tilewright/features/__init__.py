"""Candidates as numbers."""
