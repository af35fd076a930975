"""Where search, measuring and the database are wired together."""
