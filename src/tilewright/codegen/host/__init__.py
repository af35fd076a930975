"""Relocatable objects for CPUs: loading them into this process, linking and exporting them."""
