"""Kernels of whole tiles for Hopper's tensor cores: bulk copies, `wgmma`, warps with roles.

A schedule writes such a kernel as plain loops (`tile_form.py`). How threads share the work is
decided here: one warp group fetches, others multiply (`roles.py`).
"""
