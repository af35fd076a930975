"""Quantized networks, made of plain ones by onnxruntime's quantizer with random calibration inputs.

    python benchmarks/models/quantized.py FOLDER [--scheme SCHEME ...] MODEL.onnx ...

writes NAME_SCHEME.onnx into FOLDER. Schemes: `qdq` (uint8 data, int8 weights for each channel, as
QuantizeLinear and DequantizeLinear around float operators), `qdq_s8` (int8 data), `qoperator`
(QLinearConv and its like), `dynamic` (MatMulInteger, scales found while the model runs).
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnxruntime import quantization
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType

SAMPLES = 2


@dataclass(frozen=True)
class Scheme:
    """How a network is quantized; dynamic schemes look at no inputs."""

    format: QuantFormat | None
    data: QuantType = QuantType.QUInt8


SCHEMES = {
    "qdq": Scheme(QuantFormat.QDQ),
    "qdq_s8": Scheme(QuantFormat.QDQ, QuantType.QInt8),
    "qoperator": Scheme(QuantFormat.QOperator),
    "dynamic": Scheme(None),
}


def random_inputs(model: Any, seed: int) -> dict[str, Any]:
    """Random numbers for all inputs; integers are taken for numbers of words."""
    random = np.random.default_rng(seed)
    constants = {tensor.name for tensor in model.graph.initializer}
    inputs = {}
    for given in model.graph.input:
        kind = given.type.tensor_type
        if given.name in constants:
            continue
        shape = [dim.dim_value for dim in kind.shape.dim]
        dtype = onnx.helper.tensor_dtype_to_np_dtype(kind.elem_type)
        is_float = np.issubdtype(dtype, np.floating)
        made = random.standard_normal(shape) if is_float else random.integers(0, 1000, shape)
        inputs[given.name] = made.astype(dtype)
    return inputs


class RandomReader(CalibrationDataReader):  # type: ignore[misc]  # onnxruntime has no types
    """Hands a few random inputs to the quantizer."""

    def __init__(self, model: Any) -> None:
        self._inputs: Iterator[Any] = iter([random_inputs(model, seed) for seed in range(SAMPLES)])

    def get_next(self) -> Any:
        """The inputs of the next run, None at the end."""
        return next(self._inputs, None)


def quantize(source: Path, target: Path, scheme: Scheme) -> None:
    """Write the quantized form of a network."""
    with tempfile.TemporaryDirectory() as folder:
        prepared = Path(folder) / "prepared.onnx"
        quantization.quant_pre_process(str(source), str(prepared), skip_symbolic_shape=True)
        if scheme.format is None:
            quantization.quantize_dynamic(str(prepared), str(target))
            return
        quantization.quantize_static(
            str(prepared),
            str(target),
            RandomReader(onnx.load(str(prepared))),
            quant_format=scheme.format,
            per_channel=True,
            activation_type=scheme.data,
            weight_type=QuantType.QInt8,
        )


def main() -> None:
    """Quantize networks."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("models", nargs="+", type=Path)
    parser.add_argument("--scheme", nargs="+", default=["qdq"], choices=list(SCHEMES))
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    for source in options.models:
        for name in options.scheme:
            target = options.folder / f"{source.stem}_{name}.onnx"
            quantize(source, target, SCHEMES[name])
            print(target)


if __name__ == "__main__":
    main()
