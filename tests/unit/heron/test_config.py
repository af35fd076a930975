"""Configuration files: Heron's fields and defaults, and mistakes in them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tilewright.errors import TuneError
from tilewright.heron.config import HeronCase, HeronConfig, config_of, read_config

CASES = {"gemm_64": ["gemm", [64, 64, 64]]}


def test_defaults_are_herons() -> None:
    config = config_of({"cases": CASES})
    assert config == HeronConfig({"gemm_64": HeronCase("gemm", (64, 64, 64), 1)})
    wanted = {
        "measure_time_per_round": 32,
        "pop_num": 200,
        "iter_walks": 5,
        "history_topk": 32,
        "select_num": 100,
        "crossover_key_ratio": 0.2,
        "parallel": True,
        "parallel_num": 16,
        "use_cost_model": True,
        "loss_type": "reg",
        "feature_type": "itervar",
        "temperature": 0.6,
        "feasible_file_path": "feasible.json",
        "runner_number": 3,
        "runner_timeout": 50,
        "build_timeout": 50,
    }
    assert {name: getattr(config, name) for name in wanted} == wanted
    assert config.settings().pop_num == 200
    assert config.settings().epsilon == 0.6


def test_all_fields_can_be_given() -> None:
    config = config_of(
        {
            "cases": {"a": ["bmm", [2, 8, 8, 8], 12]},
            "opt_method": "SA",
            "max_trials": 5,
            "runner_timeout": 7.5,
            "constraints": ["dense_vectorize == 1"],
        }
    )
    assert config.cases["a"] == HeronCase("bmm", (2, 8, 8, 8), 12)
    assert (config.method, config.max_trials, config.runner_timeout) == ("SA", 5, 7.5)
    assert config.constraints == ("dense_vectorize == 1",)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        (
            {},
            "x.json has no field 'cases', an object such as "
            + json.dumps({"gemm_64": ["gemm", [64, 64, 64]]}),
        ),
        ({"max_trial": 3}, "x.json has an unknown field 'max_trial'; did you mean 'max_trials'?"),
        ({"max_trials": "32"}, "x.json: 'max_trials' must be a whole number, got '32'"),
        ({"max_trials": True}, "x.json: 'max_trials' must be a whole number, got True"),
        ({"max_trials": 0}, "x.json: 'max_trials' must be at least 1, got 0"),
        ({"parallel": 1}, "x.json: 'parallel' must be true or false, got 1"),
        ({"temperature": "hot"}, "x.json: 'temperature' must be a number, got 'hot'"),
        ({"temperature": 0}, "x.json: 'temperature' must be positive, got 0"),
        ({"out_name": None}, "x.json: 'out_name' must be a text, got None"),
        ({"crossover_key_ratio": 2}, "crossover_key_ratio is a share, so from 0 to 1, got 2"),
        ({"loss_type": "rank"}, "x.json: 'loss_type' must be one of reg, got 'rank'"),
        (
            {"method": "CMA"},
            "x.json: 'method' must be one of CGA, CRAND, DESCENT, GA, IDEA, RCGA, SA, SDGA, SRGA, "
            "got 'CMA'",
        ),
        ({"rules": "mine"}, "x.json: 'rules' must be a list of texts, got 'mine'"),
        ({"cases": {}}, "x.json: 'cases' must be an object with at least one case, got {}"),
        (
            {"cases": {"a": ["gemm", [64, "64"]]}},
            "x.json: case 'a' must be [operator, [sizes]] or [operator, [sizes], count], got "
            "['gemm', [64, '64']]",
        ),
        (
            {"cases": {"../a": ["gemm", [64, 64, 64]]}},
            "x.json: case '../a' must have the name of a folder, without '/'",
        ),
        (
            {"cases": {"": ["gemm", [64, 64, 64]]}},
            "x.json: case '' must have the name of a folder, without '/'",
        ),
        (
            {"cases": {"..": ["gemm", [64, 64, 64]]}},
            "x.json: case '..' must have the name of a folder, without '/'",
        ),
        (
            {"cases": {"a": ["gemm", [64, 64, 64], 0]}},
            "x.json: the count of case 'a' must be at least 1, got 0",
        ),
        ({"temperature": float("nan")}, "x.json: 'temperature' must be finite, got nan"),
        ({"build_timeout": float("inf")}, "x.json: 'build_timeout' must be finite, got inf"),
        ({"runner_timeout": -1}, "x.json: 'runner_timeout' must be positive, got -1"),
        ({"device_id": -1}, "x.json: 'device_id' must be at least 0, got -1"),
        ({"out_name": ""}, "x.json: 'out_name' must not be empty"),
        ({"out_name": "a\0"}, "x.json: 'out_name' must be a path, got 'a\\x00'"),
        ({"out_name": "\ud800"}, "x.json: 'out_name' must be a path, got '\\ud800'"),
        (
            {"cases": {"\ud800": ["gemm", [64, 64, 64]]}},
            "x.json: case '\\ud800' must have the name of a folder, without '/'",
        ),
        (
            {"method": "CGA", "opt_method": "GA"},
            "x.json: 'opt_method' and 'method' are one field, give one of them",
        ),
        ({"pop_num": 10**12}, "x.json: 'pop_num' must be at most 1000000"),
        ({"runner_number": 10**30}, "x.json: 'runner_number' must be at most 1000000"),
        ({"runner_timeout": 10**400}, "x.json: 'runner_timeout' must be at most 1e+09"),
        (
            {"in_dtype": "float99"},
            "x.json: 'in_dtype': dtype 'float99': float comes in 8, 16, 32, 64 bits",
        ),
    ],
)
def test_mistakes(fields: dict[str, Any], message: str) -> None:
    given = fields if "cases" in fields or not fields else {"cases": CASES, **fields}
    with pytest.raises(TuneError) as error:
        config_of(given, "x.json")
    assert str(error.value) == message


def test_files(tmp_path: Path) -> None:
    path = tmp_path / "quick_start.json"
    with pytest.raises(TuneError) as error:
        read_config(path)
    assert str(error.value) == f"cannot read the configuration {path}: No such file or directory"
    path.write_text("{", encoding="utf-8")
    with pytest.raises(TuneError, match=r"is not JSON: Expecting property name"):
        read_config(path)
    path.write_text("[]", encoding="utf-8")
    with pytest.raises(TuneError) as error:
        read_config(path)
    assert str(error.value) == f"{path} must be an object of fields, got list"
    path.write_text('{"max_trials": 1, "cases": {}, "max_trials": 2}', encoding="utf-8")
    with pytest.raises(TuneError) as error:
        read_config(path)
    assert str(error.value) == f"{path} has 'max_trials' twice in one object"
    path.write_text("[" * 100_000, encoding="utf-8")
    with pytest.raises(TuneError) as error:
        read_config(path)
    assert str(error.value) == f"{path} has too many lists or objects inside each other"
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(TuneError) as error:
        read_config(path)
    assert str(error.value) == f"{path} is not JSON: it is no text in UTF-8"
    text = json.dumps({"cases": CASES, "max_trials": 7})
    for encoding in ("utf-8", "utf-8-sig"):
        path.write_text(text, encoding=encoding)
        assert read_config(path).max_trials == 7
