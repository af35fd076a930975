"""Passes for GPUs: from loops bound to threads to kernels and the code that starts them."""
