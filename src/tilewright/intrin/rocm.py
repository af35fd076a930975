"""The name of the tensor instruction of AMD GPUs, as TVM's tests import it."""

from tilewright.intrin.dot_product_common import AMDGPU_SDOT4_INTRIN as AMDGPU_SDOT4_INTRIN
