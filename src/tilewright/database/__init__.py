"""Databases of tuning records."""
