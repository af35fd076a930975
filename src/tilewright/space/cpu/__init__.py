"""Schedule rules for CPUs: kernels as an expert would write them."""
