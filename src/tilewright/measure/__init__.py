"""Building and running candidates in worker processes."""
