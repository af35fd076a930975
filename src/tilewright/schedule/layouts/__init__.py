"""Changes of the layout of a buffer, everywhere it is used."""
