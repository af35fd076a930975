"""From lowered programs to instructions of the accelerator VTA, which a simulator runs."""
