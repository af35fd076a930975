"""CUDA C++ for GPUs of NVIDIA."""
