"""Schedule rules around tensor instructions."""
