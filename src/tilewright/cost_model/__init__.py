"""Models that score candidates before they are measured."""
