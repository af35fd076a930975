"""Rules and checks for the accelerator VTA."""
