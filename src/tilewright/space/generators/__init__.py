"""Space generators, one file each."""
