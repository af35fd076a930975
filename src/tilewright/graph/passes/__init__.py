"""Passes over graphs, one a file; `pipeline.py` says in which order they run."""
