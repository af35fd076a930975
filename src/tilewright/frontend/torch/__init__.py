"""PyTorch's exported programs as graphs, and the backend of `torch.compile`."""

from tilewright.frontend.torch.importer import (
    import_exported as import_exported,
    import_module as import_module,
)
