"""Reports of a tuning run."""
