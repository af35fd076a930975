"""The thirteen workloads in PyTorch."""

from tilewright.testing.torch_workload import make as make
