"""Mutators, one file each."""
