"""Compiles a scheduled module to an artefact, in the worker of a builder."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import NamedTuple

import msgspec
import numpy as np

from tilewright import driver
from tilewright.errors import TilewrightError, TuneError
from tilewright.ir import IRModule
from tilewright.ir.json import load_json
from tilewright.ir.numpy_bridge import to_numpy
from tilewright.lowering.prepacking import separate_packing
from tilewright.measure.artifact import SUFFIX, write_artifact
from tilewright.measure.hooks import resolve_hook
from tilewright.measure.tolerance import Rounding, rounding_of
from tilewright.runtime import ndarray
from tilewright.runtime.module import Module
from tilewright.runtime.ndarray import NDArray
from tilewright.space.layout_free import has_bound_weights
from tilewright.support.machine_faults import not_written
from tilewright.target import Target

PERFORM = "tilewright.measure.build_task:perform"
PRELOAD = "tilewright.measure.build_task:preload"

Build = Callable[..., object]
Export = Callable[..., object]


class Parameter(msgspec.Struct, frozen=True, array_like=True):
    """A weight that the module is compiled with."""

    dtype: str
    shape: tuple[int, ...]
    data: bytes


class Scheduled(NamedTuple):
    """A scheduled module and the target to compile it for."""

    mod: IRModule
    target: Target
    params: Mapping[str, NDArray] | None = None


class BuildRequest(msgspec.Struct, frozen=True):
    """A candidate to compile; the artefact goes into a new folder below `folder`."""

    module: str
    target: dict[str, object]
    folder: str
    params: dict[str, Parameter] | None = None
    f_build: str | None = None
    f_export: str | None = None
    with_twins: str | None = None  # the module, and its functions in higher precision


_decoder = msgspec.msgpack.Decoder(BuildRequest)


def preload() -> None:
    """Load what compiling takes before the first candidate comes."""
    driver.warm_up()


def perform(payload: bytes) -> bytes:
    """The task: the path of the artefact."""
    request = _decoder.decode(payload)
    params = None
    if request.params is not None:
        params = {name: _array_of(parameter) for name, parameter in request.params.items()}
    twins = request.with_twins
    own_build = None if twins is None else partial(build_with_twins, twins)
    path = build_candidate(
        Scheduled(load_json(request.module), Target(request.target), params),
        request.folder,
        resolve_hook(request.f_build) if request.f_build else own_build,
        resolve_hook(request.f_export) if request.f_export else None,
    )
    return path.encode()


def build_candidate(
    given: Scheduled, folder: str, f_build: Build | None = None, f_export: Export | None = None
) -> str:
    """Compile with the hooks, or with ours where there are none; the path of the artefact."""
    compiled = (f_build or default_build)(given.mod, given.target, given.params)
    if f_export is not None:
        path = f_export(compiled)
        if not isinstance(path, str | Path):
            raise TuneError(f"f_export must return the path of the artefact, got {path!r}")
        return str(path)
    if not isinstance(compiled, Module):
        raise TuneError(
            f"f_build returned {type(compiled).__name__}; return what tilewright.build() makes, or "
            "give an f_export that knows how to write it"
        )
    return str(_written(compiled, rounding_of(given.mod), folder))


def _written(compiled: Module, rounding: Rounding, folder: str) -> Path:
    """The artefact in a folder of its own; that it cannot be written is no fault of a candidate."""
    own: str | None = None
    try:
        own = tempfile.mkdtemp(prefix="candidate-", dir=folder)
        path = Path(own) / f"candidate{SUFFIX}"
        write_artifact(path, compiled, rounding)
    except OSError as error:
        if own is not None:
            # Without opening the folder, as rmtree does: there may be too many open files already.
            with contextlib.suppress(OSError):
                (Path(own) / f"candidate{SUFFIX}").unlink(missing_ok=True)
                os.rmdir(own)
        raise not_written(error, own or folder) from error
    return path


def as_called(mod: IRModule) -> IRModule:
    """A program as a user calls it: weights are packed at each call, unless it binds them."""
    is_bound = any(map(has_bound_weights, mod.functions.values()))
    return separate_packing(mod) if is_bound else mod


def default_build(mod: IRModule, target: Target, params: Mapping[str, NDArray] | None) -> Module:
    """Compile for the target; the code is loaded where it runs, not here."""
    return driver.compile_only(mod, target, may_abort=True)


def build_with_twins(
    with_twins: str, mod: IRModule, target: Target, params: Mapping[str, NDArray] | None
) -> Module:
    """The same, with each function in higher precision beside it where the target has all of it."""
    with contextlib.suppress(TilewrightError):
        return default_build(load_json(with_twins), target, params)
    return default_build(mod, target, params)


def _array_of(parameter: Parameter) -> NDArray:
    values = np.frombuffer(parameter.data, to_numpy(parameter.dtype))
    return ndarray.array(values.reshape(parameter.shape))
