"""Instructions of AMD GPUs."""

from tilewright.intrin.rocm import AMDGPU_SDOT4_INTRIN as AMDGPU_SDOT4_INTRIN
