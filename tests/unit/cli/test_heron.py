"""`tilewright heron`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tilewright.runtime.devices import device


def write(**fields: object) -> None:
    given = {"out_name": "out", "cases": {"g": ["gemm", [64, 64, 64]]}, **fields}
    Path("quick_start.json").write_text(json.dumps(given), encoding="utf-8")


def test_the_space_is_printed_and_written(command: Any) -> None:
    write(in_dtype="float32", out_dtype="float32")
    lines = command(
        "heron", "-p", "dlboost", "-c", "quick_start.json", "--no-measure", "--show-space"
    ).lines
    assert lines[0] == (
        "knob_names: ['dense_global_pos', 'dense_unroll_pragma', 'dense_tileSpatial', "
        "'dense_vectorize', 'dense.global_tileAll']"
    )
    assert lines[7].startswith(
        "solver.vals: {'dense_global_pos': Var(dense_global_pos, 0, 3, 0), 'dense_unroll_pragma': "
    )
    assert lines[8] == "g: 56 variables, about 7.29e+09 solutions; out/g"
    assert sorted(path.name for path in Path("out/g").iterdir()) == [
        "constraints.py", "feasible.json", "records.txt", "schedule.py", "stat.txt",
    ]  # fmt: skip
    compile(Path("out/g/constraints.py").read_text(encoding="utf-8"), "constraints.py", "exec")


def test_contradictory_constraints(command: Any) -> None:
    write(constraints=["dense_vectorize == 1", "dense_vectorize <= 0"])
    err = command("heron", "-p", "dlboost", "-c", "quick_start.json", status=2).err
    name = "P#ST:dense,AX:None,PA:vectorize"
    assert err == (
        "error: case 'g' has no solution: these 2 constraints cannot hold together, any 1 of them "
        "can:\n"
        f"  {name} = 1    (from the user's constraint 'dense_vectorize == 1')\n"
        f"  {name} <= 0    (from the user's constraint 'dense_vectorize <= 0')\n"
        "limits among them: the user's constraint 'dense_vectorize <= 0'\n"
        "where\n"
        f"  {name} is from 0 to 1\n"
    )


def test_mistakes(command: Any) -> None:
    write()
    err = command("heron", "-p", "tpu", "-c", "quick_start.json", status=2).err
    assert err == "error: unknown platform of Heron 'tpu'; known: dlboost, tensorcore, vta\n"
    write(max_trail=1)
    err = command("heron", "-p", "dlboost", "-c", "quick_start.json", status=2).err
    assert err == (
        "error: quick_start.json has an unknown field 'max_trail'; did you mean 'max_trials'?\n"
    )


@pytest.mark.parametrize(
    ("platform", "fields", "message"),
    [
        (
            "vta",
            {"in_dtype": "float32", "out_dtype": "float32"},
            "platform 'vta' needs the in_dtype and out_dtype 'int8' and 'int32', got 'float32' and "
            "'float32'",
        ),
        (
            "tensorcore",
            {"in_dtype": "uint8", "out_dtype": "int32"},
            "platform 'tensorcore' needs the in_dtype and out_dtype 'float16' and 'float16' or "
            "'float16' and 'float32', got 'uint8' and 'int32'",
        ),
        (
            "dlboost",
            {"target_name": "cuda"},
            "platform 'dlboost' measures on targets of the kind 'llvm' or 'c', but 'target_name' "
            "is 'cuda'",
        ),
        (
            "dlboost",
            {"target_name": "lvm"},
            "'target_name': unknown target kind 'lvm'; did you mean 'llvm'?",
        ),
        (
            "vta",
            {"cases": {"g": ["gemm", [10**18, 16, 16]]}},
            "operator 'gemm': M must be at most 2147483647",
        ),
        (
            "vta",
            {"constraints": ["dense_cthread =="]},
            "the constraint 'dense_cthread ==' must be of the form NAME <= NUMBER, NAME >= NUMBER, "
            "NAME == NUMBER or NAME in NUMBER, NUMBER, ...",
        ),
        (
            "vta",
            {"constraints": [f"dense_cthread <= {10**20}"]},
            f"the constraint 'dense_cthread <= {10**20}' compares with a number beyond {1 << 62}",
        ),
        (
            "vta",
            {"out_name": "quick_start.json"},
            "cannot write quick_start.json/g, which follows from 'out_name', the name of the case "
            "and 'feasible_file_path': Not a directory",
        ),
        (
            "vta",
            {"feasible_file_path": "no/such.json"},
            "cannot write out/g/no/such.json, which follows from 'out_name', the name of the case "
            "and 'feasible_file_path': No such file or directory",
        ),
        ("dlboost", {"rules": ["mine"]}, "the rule 'mine' must be of the form package.module:name"),
    ],
)
def test_what_a_platform_does_not_take(
    platform: str, fields: dict[str, Any], message: str, command: Any
) -> None:
    write(**fields)
    err = command("heron", "-p", platform, "-c", "quick_start.json", status=2).err
    assert err == f"error: {message}\n"


@pytest.mark.parametrize(
    ("option", "message"),
    [
        (("--trials", "0"), "--trials 0: expected at least 1"),
        (("--seed", "-1"), "--seed -1: expected at least 0"),
    ],
)
def test_numbers_that_a_search_cannot_have(
    option: tuple[str, str], message: str, command: Any
) -> None:
    write()
    err = command("heron", "-p", "vta", "-c", "quick_start.json", *option, status=2).err
    assert err == f"error: {message}\n"


def test_tensor_cores_need_a_gpu(command: Any) -> None:
    if device("cuda").exist:
        return
    write(cases={"g": ["gemm", [16, 16, 16]]})
    err = command("heron", "-p", "tensorcore", "-c", "quick_start.json", status=2).err
    assert err.startswith("error: platform 'tensorcore' measures on an NVIDIA GPU: ")
    assert err.endswith("; --no-measure writes the space without one\n")


def test_a_target_that_is_refused_leaves_earlier_records_as_they_are(command: Any) -> None:
    write(target_name="llvm", cases={"g": ["gemm", [16, 16, 16]]})
    Path("out/g").mkdir(parents=True)
    Path("out/g/records.txt").write_text("earlier\n", encoding="utf-8")
    err = command("heron", "-p", "vta", "-c", "quick_start.json", status=2).err
    assert err == (
        "error: platform 'vta' measures on targets of the kind 'vta', but 'target_name' is 'llvm'\n"
    )
    assert Path("out/g/records.txt").read_text(encoding="utf-8") == "earlier\n"
    assert len(list(Path("out/g").iterdir())) == 1


RULE_OF_A_USER = """
from tilewright.heron.rules.user_defined import UserDefinedRule

said = UserDefinedRule(lambda template, stage: print("asked about", stage.name), lambda *_: None)
"""


def test_rules_lie_beside_the_configuration(command: Any) -> None:
    Path("sub").mkdir()
    Path("sub/rules_of_a_user.py").write_text(RULE_OF_A_USER, encoding="utf-8")
    write(cases={"g": ["gemm", [16, 16, 16]]}, rules=["rules_of_a_user:said"])
    Path("quick_start.json").rename("sub/quick_start.json")
    done = command("heron", "-p", "vta", "-c", "sub/quick_start.json", "--no-measure")
    assert "asked about dense" in done.out
    why = command("space", "why", "sub/quick_start.json", "--heron", "vta")
    assert "asked about dense" in why.out


def test_space_why_names_the_conflict_and_the_limit(command: Any) -> None:
    write(
        cases={"fits": ["gemm", [64, 64, 64]], "no": ["gemm", [64, 64, 64]]},
        constraints=["dense_tileStore == 1", "dense.local.acc_buffer_tileAll == 1"],
    )
    asked = ("space", "why", "quick_start.json", "--heron", "vta")
    assert command(*asked).lines[0].startswith("fits: 44 variables, 48 constraints, 3 solutions")
    write(
        cases={"large": ["gemm", [4096, 1024, 1024]]},
        constraints=["dense_tileStore == 1", "dense_cthread == 1"],
    )
    lines = command(*asked).lines
    assert lines[0].startswith("large: 44 variables, ")
    assert lines[0].endswith("these 9 constraints cannot hold together, any 8 of them can:")
    assert "  V#ST:None,AX:None,PA:inp_mem <= 2048    (from inp scratchpad: 2048 elements)" in lines
    assert "limits among them: inp scratchpad: 2048 elements" in lines
    (answer,) = json.loads(command(*asked, "--json").out)
    assert answer["limits"] == ["inp scratchpad: 2048 elements"]
    assert answer["solutions"] == 0
    assert {"inp scratchpad: 2048 elements"} <= {each["origin"] for each in answer["conflict"]}


@pytest.mark.slow
def test_the_best_of_an_earlier_run(command: Any) -> None:
    write(cases={"g": ["gemm", [16, 16, 16]]}, max_trials=2)
    asked = ("heron", "-p", "vta", "-c", "quick_start.json")
    command(*asked)
    rows = Path("out/g/records.txt").read_text(encoding="utf-8")
    best = command(*asked, "--tuned").lines[-1]
    assert best.startswith("g: best ")
    assert best.endswith("; 1 of 1 trial ran")
    assert Path("out/g/records.txt").read_text(encoding="utf-8") == rows


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "out/g/records.txt has no schedule that worked; tune without --tuned first\n"),
        ("[]", "line 1 of out/g/records.txt is no record with latency and variables\n"),
        ("{", "line 1 of out/g/records.txt is not JSON: "),
        (
            json.dumps({"latency": 1.0, "variables": {"a": 1}}),
            "out/g/records.txt is of another space: its best row is no solution of this case\n",
        ),
        (None, "cannot read the records out/g/records.txt: No such file or directory\n"),
    ],
)
def test_records_without_a_best(text: str | None, message: str, command: Any) -> None:
    write()
    if text is not None:
        Path("out/g").mkdir(parents=True)
        Path("out/g/records.txt").write_text(text, encoding="utf-8")
    err = command("heron", "-p", "vta", "-c", "quick_start.json", "--tuned", status=2).err
    assert err.startswith(f"error: {message}")
