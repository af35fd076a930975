"""The operator registry."""

from __future__ import annotations

import pytest

from tilewright.errors import RegistryError
from tilewright.ir import CallEffect, Op, all_ops, op_by_script_name, register_op, register_op_attr


def test_builtin_operators_say_what_they_are() -> None:
    exp = Op.get("tir.exp")
    assert (exp.num_inputs, exp.effect, exp.script_name) == (1, CallEffect.PURE, "exp")
    assert exp.vectorizable
    assert repr(exp) == "Op(tir.exp)"
    assert op_by_script_name("exp") is exp
    assert op_by_script_name("no_such_operator") is None
    assert Op.get("tir.call_extern").effect is CallEffect.UPDATE_STATE
    assert Op.get("tir.call_extern").dtype_first
    assert not Op.get("tir.reinterpret").vectorizable
    assert Op.get("tir.ret").effect is CallEffect.CONTROL_JUMP


def test_script_names_are_unique() -> None:
    spellings = [op.script_name for op in all_ops()]
    assert len(spellings) == len(set(spellings))


def test_users_add_operators_and_attributes() -> None:
    op = register_op("tir.test_my_op", 2, CallEffect.READ_STATE)
    assert Op.get("tir.test_my_op") is op is op_by_script_name("test_my_op")
    register_op_attr("tir.test_my_op", "cost", 3)
    assert op.attrs["cost"] == 3
    register_op_attr("tir.test_new_op", "cost", 1)
    assert Op.get("tir.test_new_op").num_inputs is None
    assert "cost" not in Op.get("tir.exp").attrs


def test_mistakes() -> None:
    with pytest.raises(RegistryError) as caught:
        register_op("tir.exp")
    assert str(caught.value) == "operator 'tir.exp' is already registered"
    with pytest.raises(RegistryError) as caught:
        Op.get("tir.nope")
    assert str(caught.value) == (
        "operator 'tir.nope' is not registered; see tilewright.ir.register_op"
    )
