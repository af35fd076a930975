"""Arrays that callers give a model on a GPU: of any library, checked in words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tilewright.errors import ArgumentError
from tilewright.model.arguments import given_inputs, given_outputs
from tilewright.model.program import ModelProgram, ValueInfo
from tilewright.runtime.devices import Device
from tilewright.runtime.dlpack import TensorView, row_major_strides
from tilewright.runtime.tensor_view import view_of


def input_views(
    program: ModelProgram, device: Device, inputs: Sequence[Any], named: Mapping[str, Any]
) -> list[TensorView]:
    """The inputs in the order of the model, where they lie."""
    given = given_inputs(program, inputs, named)
    pairs = zip(program.inputs, given, strict=True)
    return [_view(f"input {info.name}", info, array, device) for info, array in pairs]


def output_views(program: ModelProgram, device: Device, out: Sequence[Any]) -> list[TensorView]:
    """The arrays that outputs are to be in."""
    pairs = zip(program.outputs, given_outputs(program, out), strict=True)
    views = [_view(f"output {info.name}", info, array, device) for info, array in pairs]
    for info, view in zip(program.outputs, views, strict=True):
        if view.readonly:
            raise ArgumentError(f"output {info.name}: the array cannot be written to")
    return views


def _view(what: str, info: ValueInfo, given: Any, device: Device) -> TensorView:
    view, here = view_of(given), str(device)
    if view is None:
        raise ArgumentError(f"{what}: expected {info.type}, got {type(given).__name__}")
    if view.device != here:
        raise ArgumentError(
            f"{what}: the array is on {view.device}, expected it on {here}; "
            "tilewright.nd.array(x, tilewright.cuda()) copies it"
        )
    if tuple(view.shape) != info.shape or view.dtype != info.dtype:
        raise ArgumentError(f"{what}: expected {info.type}, got {view.dtype}{list(view.shape)}")
    alignment = device.api.alignment
    if not _is_compact(view) or view.address % alignment:
        raise ArgumentError(
            f"{what}: expected a row-major array without gaps that begins at a multiple of "
            f"{alignment} bytes; pass a contiguous copy"
        )
    return view


def _is_compact(view: TensorView) -> bool:
    wanted = row_major_strides(view.shape)
    strides = zip(view.shape, view.strides, wanted, strict=True)
    return all(extent == 1 or given == want for extent, given, want in strides)
