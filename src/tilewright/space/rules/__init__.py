"""Schedule rules, one file each."""
