"""GPU kernels: limits, threads, shared memory, and vectors of a candidate."""
