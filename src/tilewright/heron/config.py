"""Heron's configuration files: their fields, defaults and mistakes in them."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from tilewright.errors import TilewrightError, TuneError
from tilewright.ir.dtype import DType
from tilewright.search.constrained import ConstrainedSettings, constrained_strategies
from tilewright.support.suggestions import did_you_mean


@dataclass(frozen=True)
class HeronCase:
    """An operator by name, its sizes, and how often a model has it."""

    operator: str
    shape: tuple[int, ...]
    count: int = 1


@dataclass(frozen=True)
class HeronConfig:
    """All fields, under Heron's names and with its defaults."""

    cases: Mapping[str, HeronCase]
    out_name: str = "heron"
    method: str = "CGA"
    max_trials: int = 1000
    runner_number: int = 3
    runner_repeat: int = 2
    runner_timeout: float = 50
    build_timeout: float = 50
    in_dtype: str | None = None  # None: what the platform is for
    out_dtype: str | None = None
    measure_time_per_round: int = 32
    pop_num: int = 200
    iter_walks: int = 5
    history_topk: int = 32
    select_num: int = 100
    crossover_key_ratio: float = 0.2
    parallel: bool = True
    parallel_num: int = 16
    use_cost_model: bool = True
    loss_type: str = "reg"
    feature_type: str = "itervar"
    temperature: float = 0.6
    feasible_file_path: str = "feasible.json"
    target_name: str | None = None  # None: that of the platform
    device_id: int = 0
    verbose: bool = False
    # Ours: rules as "module:object", and demands on variables, such as "dense_vectorize == 1".
    rules: tuple[str, ...] = field(default=())
    constraints: tuple[str, ...] = field(default=())

    def settings(self) -> ConstrainedSettings:
        """The part that search strategies look at."""
        shared = {each.name for each in fields(self)} & {*ConstrainedSettings.names()}
        return ConstrainedSettings(**{name: getattr(self, name) for name in shared})


_SAME = {"opt_method": "method"}  # what an attribute of Heron's is called in its files
_TYPES: Mapping[str, tuple[type, ...]] = {
    "int": (int,),
    "float": (int, float),
    "str": (str,),
    "bool": (bool,),
}
_WORDS = {"int": "a whole number", "float": "a number", "str": "a text", "bool": "true or false"}
_FIXED = {"loss_type": ("reg",), "feature_type": ("itervar",)}
_AT_LEAST_ONE = (
    "max_trials", "runner_number", "runner_repeat", "measure_time_per_round", "pop_num",
    "iter_walks", "history_topk", "select_num", "parallel_num",
)  # fmt: skip
_POSITIVE = ("runner_timeout", "build_timeout", "temperature")
_MOST = 1_000_000  # of any whole number: what is beyond takes forever, or does not fit
_LONGEST = 1e9  # of any other


def read_config(path: Path) -> HeronConfig:
    """The configuration in a file."""
    try:
        text = path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise TuneError(f"cannot read the configuration {path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise TuneError(f"{path} is not JSON: it is no text in UTF-8") from error
    try:
        found = json.loads(text, object_pairs_hook=lambda pairs: _object(pairs, path))
    except TuneError:
        raise
    except ValueError as error:
        raise TuneError(f"{path} is not JSON: {error}") from error
    except RecursionError as error:
        raise TuneError(f"{path} has too many lists or objects inside each other") from error
    return config_of(found, str(path))


def _object(pairs: Sequence[tuple[str, Any]], path: Path) -> dict[str, Any]:
    """An object that has each name once."""
    found: dict[str, Any] = {}
    for name, value in pairs:
        if name in found:
            raise TuneError(f"{path} has {name!r} twice in one object")
        found[name] = value
    return found


def config_of(found: object, where: str = "the configuration") -> HeronConfig:
    """A configuration from plain values."""
    if not isinstance(found, dict):
        raise TuneError(f"{where} must be an object of fields, got {type(found).__name__}")
    named = _named(found, where)
    known = {each.name: str(each.type) for each in fields(HeronConfig)}
    for name in named:
        if name not in known:
            raise TuneError(f"{where} has an unknown field {name!r}{did_you_mean(name, known)}")
    if "cases" not in named:
        raise TuneError(f"{where} has no field 'cases', an object such as "
                        '{"gemm_64": ["gemm", [64, 64, 64]]}')  # fmt: skip
    values = {name: _checked(name, known[name], value, where) for name, value in named.items()}
    config = HeronConfig(**values)
    _check_ranges(config, where)
    return config


def _named(found: Mapping[Any, Any], where: str) -> dict[str, Any]:
    """Fields under one name each."""
    for other, name in _SAME.items():
        if other in found and name in found:
            raise TuneError(f"{where}: {other!r} and {name!r} are one field, give one of them")
    return {_SAME.get(str(name), str(name)): value for name, value in found.items()}


def _checked(name: str, kind: str, value: Any, where: str) -> Any:
    """The value of a field, if it is of the right type."""
    if name == "cases":
        return _cases(value, where)
    if name in ("rules", "constraints"):
        return _texts(name, value, where)
    simple = kind.split(" ")[0]
    is_right = isinstance(value, _TYPES[simple]) and (simple == "bool" or value is not True)
    if not is_right or (simple != "bool" and isinstance(value, bool)):
        raise TuneError(f"{where}: {name!r} must be {_WORDS[simple]}, got {value!r}")
    return value


def _texts(name: str, value: Any, where: str) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
        raise TuneError(f"{where}: {name!r} must be a list of texts, got {value!r}")
    return tuple(value)


def _cases(value: Any, where: str) -> dict[str, HeronCase]:
    if not isinstance(value, dict) or not value:
        raise TuneError(f"{where}: 'cases' must be an object with at least one case, got {value!r}")
    return {name: _case(name, found, where) for name, found in value.items()}


def _case(name: str, found: Any, where: str) -> HeronCase:
    is_right = (
        isinstance(found, list)
        and len(found) in (2, 3)
        and isinstance(found[0], str)
        and isinstance(found[1], list)
        and all(_is_whole(each) for each in (*found[1], *found[2:]))
    )
    if not is_right:
        raise TuneError(
            f"{where}: case {name!r} must be [operator, [sizes]] or [operator, [sizes], count], "
            f"got {found!r}"
        )
    if name in (".", "..") or not {"/", "\\"}.isdisjoint(name) or not _is_path(name):
        raise TuneError(f"{where}: case {name!r} must have the name of a folder, without '/'")
    if min(found[2:], default=1) < 1:
        raise TuneError(f"{where}: the count of case {name!r} must be at least 1, got {found[2]}")
    return HeronCase(found[0], tuple(found[1]), *found[2:])


def _is_whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_path(text: str) -> bool:
    """True for what the name of a file can be."""
    try:
        os.fsencode(text)
    except UnicodeEncodeError:
        return False
    return bool(text) and "\0" not in text


def _check_ranges(config: HeronConfig, where: str) -> None:
    for name in _AT_LEAST_ONE:
        _check_whole(name, getattr(config, name), 1, where)
    for name in _POSITIVE:
        value = getattr(config, name)
        if not 0 < value < math.inf:
            word = "finite" if value > 0 or math.isnan(value) else "positive"
            raise TuneError(f"{where}: {name!r} must be {word}, got {value}")
        if value > _LONGEST:
            raise TuneError(f"{where}: {name!r} must be at most {_LONGEST:g}")
    _check_whole("device_id", config.device_id, 0, where)
    for name in ("out_name", "feasible_file_path"):
        if not getattr(config, name):
            raise TuneError(f"{where}: {name!r} must not be empty")
        if not _is_path(getattr(config, name)):
            raise TuneError(f"{where}: {name!r} must be a path, got {getattr(config, name)!r}")
    for name in ("in_dtype", "out_dtype"):
        _check_dtype(name, getattr(config, name), where)
    for name, allowed in _FIXED.items():
        _check_choice(name, getattr(config, name), allowed, where)
    methods = [each.upper() for each in constrained_strategies]
    _check_choice("method", config.method.upper(), methods, where)
    config.settings()


def _check_whole(name: str, value: int, least: int, where: str) -> None:
    if value < least:
        raise TuneError(f"{where}: {name!r} must be at least {least}, got {value}")
    if value > _MOST:
        raise TuneError(f"{where}: {name!r} must be at most {_MOST}")


def _check_dtype(name: str, value: str | None, where: str) -> None:
    try:
        if value is not None:
            DType(value)
    except TilewrightError as error:
        raise TuneError(f"{where}: {name!r}: {error}") from error


def _check_choice(name: str, value: str, allowed: Sequence[str], where: str) -> None:
    if value not in allowed:
        raise TuneError(f"{where}: {name!r} must be one of {', '.join(allowed)}, got {value!r}")
