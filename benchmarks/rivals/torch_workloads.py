"""The thirteen workloads in PyTorch."""

from tilewright.workloads.in_torch import make as make
