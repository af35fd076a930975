"""Custom rules for single operators, by family; importing this package registers them."""

from tilewright.space.tvm.custom import winograd as winograd, winograd_cuda as winograd_cuda
