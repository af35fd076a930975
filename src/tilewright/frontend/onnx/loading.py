"""Files of ONNX, read safely.

External data is mapped by ourselves: its path must stay inside the folder of the model, without
links, and its size must be what the tensor says, before anything is allocated.
"""

from __future__ import annotations

import math
import os
import stat
from pathlib import Path
from typing import IO, Any

import numpy as np

from tilewright.errors import GraphError, IRError
from tilewright.graph.graph import Array
from tilewright.ir.numpy_bridge import from_numpy


def load_model(source: str | Path | bytes | Any) -> tuple[Any, Path | None]:
    """The model of a file or of bytes, its external data not yet read, and its folder."""
    onnx = _onnx()
    if isinstance(source, onnx.ModelProto):
        source = bytes(source.SerializeToString())
    if not isinstance(source, (str, Path, bytes)):
        kind = type(source).__name__
        raise GraphError(f"expected a path, the bytes of a model or an onnx.ModelProto, got {kind}")
    what = "the bytes" if isinstance(source, bytes) else str(source)
    try:
        if isinstance(source, bytes):
            model, folder = onnx.load_model_from_string(source), None
        else:
            path = Path(source)
            model, folder = onnx.load(str(path), load_external_data=False), path.resolve().parent
    except FileNotFoundError:
        raise GraphError(f"there is no file {what}") from None
    except Exception as error:  # protobuf's errors have no common class
        raise GraphError(f"{what} cannot be read as an ONNX model: {error}") from error
    if not model.HasField("graph"):
        raise GraphError(f"{what} cannot be read as an ONNX model: it has no graph of operators")
    if not model.opset_import:
        why = "it does not say which version of ONNX's operators it uses"
        raise GraphError(f"{what} cannot be read as an ONNX model: {why}")
    for entry in model.opset_import:
        if isinstance(entry.domain, bytes) or not 0 < entry.version < 1 << 31:
            raise GraphError(
                f"{what} asks for operators {entry.domain!r} of version {entry.version}, which "
                "cannot exist"
            )
    for body in (model.graph, *model.functions):
        _check_text(body, what)
    _check_functions(model)
    return model, folder


def _check_text(body: Any, what: str) -> None:
    """Refuse names that are not text, which protobuf hands out as bytes."""
    words = [body.name]
    for named in ("input", "output", "initializer"):
        words += [getattr(one, "name", one) for one in getattr(body, named, ())]
    for node in body.node:
        words += [node.name, node.op_type, node.domain, *node.input, *node.output]
        for attribute in node.attribute:
            words.append(attribute.name)
            for inner in (attribute.g, *attribute.graphs):
                _check_text(inner, what)
    if any(isinstance(word, bytes) for word in words):
        raise GraphError(f"{what} cannot be read as an ONNX model: a name in it is not text")


def _check_functions(model: Any) -> None:
    """Refuse functions of the model that call themselves, which nothing could inline."""
    bodies = {(f.domain, f.name): f for f in model.functions}
    done: set[tuple[str, str]] = set()

    def visit(key: tuple[str, str], path: tuple[tuple[str, str], ...]) -> None:
        if key in path:
            raise GraphError(f"function {key[1]} of the model calls itself")
        if key in bodies and key not in done:
            for node in bodies[key].node:
                visit((node.domain, node.op_type), (*path, key))
            done.add(key)

    for key in bodies:
        visit(key, ())


def _onnx() -> Any:
    try:
        import onnx
    except ImportError:
        raise GraphError(
            "reading ONNX models needs the package onnx: pip install 'tilewright[onnx]'"
        ) from None
    return onnx


def tensor_of(proto: Any, folder: Path | None) -> Array:
    """The numbers of a tensor, wherever they are."""
    from onnx import TensorProto, numpy_helper

    if proto.data_type not in TensorProto.DataType.values():
        raise GraphError(
            f"tensor {proto.name} has elements of type number {proto.data_type}, which is not known"
        )
    if min(proto.dims, default=0) < 0:
        raise GraphError(f"tensor {proto.name} is damaged: its shape is {list(proto.dims)}")
    if proto.data_location != TensorProto.EXTERNAL:
        try:
            return np.asarray(numpy_helper.to_array(proto))
        except Exception as error:  # of NumPy, of protobuf, and of onnx's own
            raise GraphError(f"tensor {proto.name} is damaged: {error}") from error
    return _external(proto, folder)


def checked_dtype(element: int, what: str) -> str:
    """The name of an element type, if we know it."""
    from onnx import TensorProto, helper

    try:
        return str(from_numpy(helper.tensor_dtype_to_np_dtype(element)))
    except (IRError, KeyError, TypeError, ValueError):
        names = {number: name.lower() for name, number in TensorProto.DataType.items()}
        name = names.get(element, f"number {element}")
        raise GraphError(f"{what} has elements of type {name}, which is not supported") from None


def _external(proto: Any, folder: Path | None) -> Array:
    from onnx import helper

    if folder is None:
        raise GraphError(f"tensor {proto.name} has external data, but the model has no folder")
    entries = {entry.key: entry.value for entry in proto.external_data}
    dtype = np.dtype(helper.tensor_dtype_to_np_dtype(proto.data_type))
    shape = tuple(int(extent) for extent in proto.dims)
    count = math.prod(shape) * dtype.itemsize
    place = entries.get("location", "")
    try:
        offset, length = int(entries.get("offset", 0)), int(entries.get("length", count))
    except ValueError as error:
        raise GraphError(f"tensor {proto.name}: its place in {place} is damaged") from error
    with _opened(folder, place, proto.name) as file:
        if length != count:
            raise GraphError(
                f"tensor {proto.name} has {length} bytes of {place}, "
                f"its shape and type want {count}"
            )
        size = os.fstat(file.fileno()).st_size
        if min(shape, default=0) < 0 or offset < 0 or offset + count > size:
            raise GraphError(
                f"tensor {proto.name} needs {count} bytes at {offset} of {place}, which has {size}"
            )
        if count == 0:
            return np.empty(shape, dtype)
        return np.memmap(file, dtype, "r", offset, shape)


def _opened(folder: Path, place: str, name: str) -> IO[bytes]:
    """The file of external data; nothing outside of the model's folder, and no links."""
    parts = Path(place).parts
    if not parts or Path(place).is_absolute() or ".." in parts:
        raise GraphError(f"tensor {name}: {place!r} is not inside the folder of the model")
    path = folder
    for part in parts:
        path = path / part
        _check_no_link(path, place, name)
    if not path.is_file():
        raise GraphError(f"tensor {name}: {place} is not a file")
    try:
        # Should it have become a link meanwhile, it is not followed.
        return os.fdopen(os.open(path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0)), "rb")
    except OSError as error:
        raise GraphError(f"tensor {name}: {place} cannot be read: {error.strerror}") from error


def _check_no_link(path: Path, place: str, name: str) -> None:
    try:
        found = os.lstat(path)
    except (OSError, ValueError):
        raise GraphError(f"tensor {name}: its data file {place} is missing") from None
    is_hard_link = stat.S_ISREG(found.st_mode) and found.st_nlink > 1
    if stat.S_ISLNK(found.st_mode) or is_hard_link:
        raise GraphError(f"tensor {name}: {place} is a link, which is not followed")
