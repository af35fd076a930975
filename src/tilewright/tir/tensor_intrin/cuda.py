"""Matrix instructions of NVIDIA GPUs, and what makes more of their kind, as TVM's users call it."""

from tilewright.intrin.cuda import *  # noqa: F403 - it holds these names and nothing else
