"""The accelerator VTA: its instructions as bits, and a simulator that runs and times them."""
