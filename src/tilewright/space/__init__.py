"""The space of programs a search may choose from."""
