"""Post-processors, one file each."""
