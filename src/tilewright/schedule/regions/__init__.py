"""Regions of buffers that blocks touch, and the domains of iterators that these need."""
