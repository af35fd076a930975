"""IR in JSON that somebody else wrote: it is read as it was saved, or refused with one error."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from typing import Any

import pytest

from tilewright.database.stored_record import reading_row, usable_module
from tilewright.errors import IRError, StoredDataError
from tilewright.ir import Add, For, ForKind, PrimExpr, Stmt, Var, const, no_op
from tilewright.ir.json import load_json, save_json
from tilewright.ir.script_forms import builds
from tilewright.ir.structure import structural_equal, structural_hash
from tilewright.testing.conformance.database import matmul
from tilewright.testing.corruption import damaged_documents, damaged_texts


def shared_sums(levels: int) -> str:
    """A sum of the same sum twice, again and again: small as a file, 2**levels written out."""
    nodes = [["Var", "x", "int32", None], *(["Add", at, at] for at in range(levels))]
    return document(nodes)


def document(nodes: list[Any], root: Any = None) -> str:
    place = len(nodes) - 1 if root is None else root
    return json.dumps({"tilewright": 1, "root": place, "nodes": nodes})


def test_what_is_shared_is_counted_as_often_as_it_is_used() -> None:
    assert load_json(shared_sums(10)).dtype == "int32"
    with pytest.raises(IRError) as caught:
        load_json(shared_sums(60))
    assert str(caught.value) == (
        "the saved IR is damaged: it shares so much that it stands for more than 1,000,000 nodes"
    )


def test_nesting_is_bounded() -> None:
    nodes = [["Var", "x", "int32", None], *(["Not", at] for at in range(100_000))]
    with pytest.raises(IRError) as caught:
        load_json(document(nodes))
    assert str(caught.value) == ("the saved IR is damaged: nodes are nested more than 2,000 deep")
    with pytest.raises(IRError, match=r"^not a JSON document: nested too deeply$"):
        load_json("[" * 100_000)


def sum_of(terms: int) -> PrimExpr:
    total: PrimExpr = Var("x")
    for _ in range(terms):
        total = Add(total, Var("y"))
    return total


def test_a_long_sum_is_saved_read_hashed_and_printed() -> None:
    total = sum_of(1_500)
    again = load_json(save_json(total))
    assert structural_equal(total, again, map_free_vars=True)
    assert structural_hash(total) == structural_hash(again)
    assert str(again) == str(total)


def test_what_is_nested_too_deeply_is_told_to_whoever_saves_or_compares_it() -> None:
    body: Stmt = no_op()
    for _ in range(20_000):
        body = For(Var("i"), const(0), const(1), ForKind.SERIAL, body)
    for act, what in ((save_json, "save"), (structural_hash, "compare"), (str, "print")):
        with pytest.raises(IRError, match=f"^the program to {what} is nested too deeply"):
            act(body)


def test_printing_a_sum_looks_at_one_term_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else it takes time that grows with the square of the number of terms."""
    looked_at: list[int] = []

    def counted(build: Any, node: Any) -> bool:
        looked_at.append(_length(node))
        return builds(build, node)

    monkeypatch.setattr("tilewright.ir.script_forms.builds", counted)
    str(sum_of(500))
    assert looked_at == [1] * 500


def _length(node: Any) -> int:
    length = 0
    while isinstance(node, Add):
        node, length = node.a, length + 1
    return length


@pytest.mark.parametrize(
    ("node", "message"),
    [
        (["Var", 3, "int32", None], "name of node 0 (Var) is 3"),
        (["Var", "x", "int32", 0], "0 is not the position of an earlier node"),
        (["Var", "x", "int32", -1], "-1 is not the position of an earlier node"),
        (["Var", "x", "int32", True], "True is not the position of an earlier node"),
        (["IntImm", "int32", 1.5], "value of node 0 (IntImm) is 1.5"),
        (["IntImm", "int32", "1"], "value of node 0 (IntImm) is '1'"),
        (["StringImm", ["a"]], "value of node 0 (StringImm) is ['a']"),
        (["PrimFunc", [], None, {"map": []}, {"map": []}, "void"], "body of node 0 (PrimFunc) is"),
        (["IRModule", {"map": [["main", 3]]}, {"map": []}], "functions of node 0 (IRModule) is"),
        (["IRModule", [], {"map": []}], "functions of node 0 (IRModule) is []"),
        (["IRModule", {"map": [[{"map": []}, 1]]}, {"map": []}], "TypeError"),
        (["IRModule", {"nope": 1}, {"map": []}], "KeyError('nope')"),
        ([["x"]], "TypeError"),
        ({"a": 1}, "KeyError(0)"),
        ("Var", "it has a node of unknown class 'V'"),
        (7, "TypeError"),
    ],
)  # fmt: skip
def test_fields_are_of_their_types(node: Any, message: str) -> None:
    with pytest.raises(IRError) as caught:
        load_json(document([node]))
    assert str(caught.value).startswith(f"the saved IR is damaged: {message}")


def outcomes(texts: Iterator[str | bytes]) -> Iterator[Any]:
    """What reading gives, where it gives something; the only error is an `IRError`."""
    for text in texts:
        try:
            yield load_json(text)
        except IRError:
            continue


def use(node: Any) -> None:
    """What a database and its listings do with a program that was read."""
    try:
        with reading_row("workloads", 1):
            usable_module(node)
    except StoredDataError:
        return
    structural_hash(node)
    str(node)


def test_changed_bytes_of_ir(attack_seeds: list[int]) -> None:
    text = save_json(matmul(4, 4, 4)).encode()
    for seed in attack_seeds:
        for node in outcomes(damaged_texts(text, random.Random(seed), 100)):
            use(node)


def test_changed_values_of_ir(attack_seeds: list[int]) -> None:
    content = json.loads(save_json(matmul(4, 4, 4)))
    for seed in attack_seeds:
        documents = damaged_documents(content, random.Random(seed), 100)
        for node in outcomes(json.dumps(each) for each in documents):
            use(node)
