"""Models that commands work on: files of ONNX, saved models, functions that return a model."""

from __future__ import annotations

import re
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from tilewright.cli.programs import NamedValue, open_text
from tilewright.errors import GraphError
from tilewright.frontend import sources
from tilewright.frontend.partial import PartialImportWarning
from tilewright.graph import Graph
from tilewright.model import CompiledModel, RunnableModel, load
from tilewright.model.tasks import simplified
from tilewright.target import Target

SAVED, LIBRARY = ".twm", ".so"


@dataclass(frozen=True)
class ModelOptions:
    """Sizes that a model leaves open, the layout inside of it, and how it may compute."""

    dims: Mapping[str, int] = field(default_factory=dict)
    shapes: Mapping[str, Sequence[int]] = field(default_factory=dict)
    layout: str | None = None
    winograd: bool = True

    @property
    def given(self) -> list[str]:
        """The options that were given, as they are written."""
        written = {
            "--dim": self.dims,
            "--shape": self.shapes,
            "--layout": self.layout,
            "--no-winograd": not self.winograd,
        }
        return [name for name, value in written.items() if value]

    @property
    def of_compiler(self) -> dict[str, Any]:
        """The options that `compile_model` has, too."""
        return {"layout": self.layout, "winograd": self.winograd}


@dataclass(frozen=True, eq=False)
class Model:
    """A model that is to be compiled."""

    name: str
    named: NamedValue
    options: ModelOptions

    @property
    def graph(self) -> Graph:
        """As it was imported."""
        return self._imported[0]

    @property
    def unsupported(self) -> str:
        """The operators that others compute, in words."""
        return self._imported[1]

    @cached_property
    def _imported(self) -> tuple[Graph, str]:
        source = self.named.path if self.named.is_model_file else self.named.value
        options = self.options
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("ignore")
            warnings.simplefilter("always", PartialImportWarning)
            try:
                graph = sources.load_graph(
                    source, dims=options.dims, shapes=options.shapes, partial=True
                )
            except GraphError as error:
                raise GraphError(_in_words_of_commands(str(error))) from error
        return graph, "; ".join(str(warning.message) for warning in caught)

    def simple(self, target: Target) -> Graph:
        """Ready for kernels."""
        return simplified(self.graph, self.options.layout, target)

    @property
    def path(self) -> Path | None:
        """The file, if it is one of ONNX."""
        return self.named.path if self.named.is_model_file else None

    @property
    def torch_module(self) -> Any:
        """The module of PyTorch that it was made of, if so."""
        value = self.named.value
        found = value[0] if isinstance(value, tuple) and value else value
        return found if sources.is_torch_module(found) else None

    @property
    def torch_inputs(self) -> tuple[Any, ...]:
        """What that module was traced with."""
        value = self.named.value
        inputs = value[1] if isinstance(value, tuple) else None
        return sources.example_inputs(self.torch_module, inputs, self.options.shapes)


def _in_words_of_commands(message: str) -> str:
    """A message of the importer with options of the command line instead of arguments."""
    message = re.sub(r"dims=\{'(.+?)': 1\}", r"--dim \1=1", message)
    message = re.sub(r"shapes=\{'(.+?)': \[\.\.\.\]\}", r"--shape \1=AxBxC", message)
    message = re.sub(r"\bshapes says \[(.*?)\]", r"--shape says \1", message)
    message = message.replace("(module, inputs), or their shapes", "(module, inputs), or --shape")
    return message.partition("; pass allow_nan=True")[0]


def is_model(named: NamedValue) -> bool:
    """True unless it is a program."""
    return named.is_model_file or sources.is_model(named.value)


def is_saved(named: NamedValue) -> bool:
    """True for a compiled model that was saved."""
    return named.path is not None and named.path.suffix == SAVED


def model_of(named: NamedValue, options: ModelOptions) -> Model:
    """The model that a text named."""
    if not is_model(named):
        raise GraphError(
            f"{named.text} is not a model; write FILE.onnx, FILE{SAVED}, or FILE.py:NAME of a "
            "function that returns a Graph, a torch.nn.Module with its inputs, or a program of "
            "torch.export"
        )
    if named.is_model_file and named.path is not None and not named.path.is_file():
        raise GraphError(f"there is no file {named.path}")
    if is_saved(named):
        raise GraphError(f"{named.text} is compiled already; give the model that it was made of")
    name = named.name or (named.path.stem if named.path is not None else named.text)
    return Model(name, named, options)


def load_model(text: str, options: ModelOptions) -> Model:
    """The model that a text stands for."""
    return model_of(open_text(text), options)


def parse_options(
    dims: Sequence[str] | None,
    shapes: Sequence[str] | None,
    layout: str | None,
    winograd: bool = True,
) -> ModelOptions:
    """`batch=1` and `x=1x3x224x224` as numbers."""
    return ModelOptions(
        {
            name: int(size)
            for name, size in (_pair(text, "--dim", "batch=1") for text in dims or ())
        },
        {
            name: [int(extent) for extent in size.split("x")]
            for name, size in (_pair(text, "--shape", "x=1x3x224x224") for text in shapes or ())
        },
        layout,
        winograd,
    )


def _pair(text: str, option: str, example: str) -> tuple[str, str]:
    name, equals, size = text.rpartition("=")
    parts = size.split("x") if option == "--shape" else [size]
    if not equals or not name or not all(part.isdecimal() for part in parts):
        raise GraphError(f"{option} {text}: expected a name and a size, such as {example}")
    return name, size


# --- compiled models in files ------------------------------------------------------------------


def check_writable(path: Path) -> None:
    """Refuse a place where nothing can be saved before time is spent."""
    if not path.parent.is_dir():
        raise GraphError(f"there is no directory {path.parent}; create it first")
    if path.is_dir():
        raise GraphError(f"{path} is a directory; name a file")
    if path.suffix not in (SAVED, LIBRARY):  # other commands would not know what it is
        raise GraphError(f"{path} is no name for a model; end it in {SAVED}, or {LIBRARY} for C")


def save(model: CompiledModel, path: Path) -> None:
    """Write a model: as a file of ours, or as a library for C with its header."""
    if path.suffix == LIBRARY:
        model.export_library(path)
    else:
        model.save(path)


def load_saved(path: Path) -> RunnableModel:
    """Read a compiled model."""
    if not path.is_file():
        raise GraphError(f"there is no file {path}")
    return load(path)
