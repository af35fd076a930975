"""The tuning workloads and the operators of topi, as printed functions."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tilewright import te, topi
from tilewright.errors import TensorExpressionError
from tilewright.ir.structure import assert_structural_equal
from tilewright.ir.verify import verify_well_formed
from tilewright.script import from_source
from tilewright.testing import te_workload
from tilewright.testing.te_workload import CONFIGS, create_te_workload

GoldenCheck = Callable[[str, str], None]


@pytest.mark.parametrize("name", CONFIGS)
def test_workload(golden: GoldenCheck, name: str) -> None:
    texts = [str(create_te_workload(name, index)) for index in range(len(CONFIGS[name][1]))]
    golden(f"{name}.txt", "\n\n\n".join(texts) + "\n")


OTHERS: dict[str, Callable[[], tuple[te.Tensor, ...]]] = {
    "matmul": lambda: te_workload.matmul(8, 16, 32),
    "matmul_f16": lambda: te_workload.matmul(8, 16, 32, "float16", "float32"),
    "matmul_relu": lambda: te_workload.matmul_relu(8, 16, 32),
    "conv2d_nchw": lambda: te_workload.conv2d_nchw(1, 8, 8, 4, 6, 3, 3, 1, 1),
    "conv2d_nchw_bias_bn_relu": lambda: te_workload.conv2d_nchw_bias_bn_relu(
        1, 8, 8, 4, 6, 3, 3, 1, 1
    ),
    "max_pool2d_nchw": lambda: te_workload.max_pool2d_nchw(1, 8, 8, 4, 1),
}


@pytest.mark.parametrize("name", OTHERS)
def test_other_workloads(golden: GoldenCheck, name: str) -> None:
    golden(f"{name}.txt", str(te.create_prim_func(OTHERS[name]())) + "\n")


def _image() -> te.Tensor:
    return te.placeholder((1, 4, 8, 8), name="A")


OPERATORS: dict[str, Callable[[], list[te.Tensor]]] = {
    "topi_argmax": lambda: _apply(te.placeholder((4, 5), name="A"), topi.argmax),
    "topi_concatenate": lambda: _apply(
        te.placeholder((4, 3), name="A"), lambda a: topi.concatenate([a, a, a], 1)
    ),
    "topi_layer_norm": lambda: _layer_norm(),
    "topi_adaptive_pool": lambda: _apply(
        _image(), lambda a: topi.nn.adaptive_pool(a, [3, 3], "avg")
    ),
    "topi_pool2d_avg": lambda: _apply(
        _image(), lambda a: topi.nn.pool2d(a, 3, 2, 1, 1, "avg", count_include_pad=False)
    ),
    "topi_conv2d_im2col_nhwc": lambda: _conv(),
}


def _apply(a: te.Tensor, operator: Callable[[te.Tensor], te.Tensor]) -> list[te.Tensor]:
    return [a, operator(a)]


def _layer_norm() -> list[te.Tensor]:
    a = te.placeholder((4, 8), "float16", "A")
    gamma, beta = (te.placeholder((8,), "float16", name) for name in ("gamma", "beta"))
    return [a, gamma, beta, topi.nn.layer_norm(a, gamma, beta, [1])]


def _conv() -> list[te.Tensor]:
    a, w = te.placeholder((1, 8, 8, 4), name="A"), te.placeholder((3, 3, 4, 6), name="W")
    return [a, w, topi.nn.conv2d_im2col_nhwc(a, w, 2, 1)]


@pytest.mark.parametrize("name", OPERATORS)
def test_operators(golden: GoldenCheck, name: str) -> None:
    golden(f"{name}.txt", str(te.create_prim_func(OPERATORS[name]())) + "\n")


@pytest.mark.parametrize("name", CONFIGS)
def test_workloads_are_well_formed_and_parse_back(name: str) -> None:
    func = create_te_workload(name, 0)
    verify_well_formed(func)
    assert_structural_equal(from_source(str(func)), func)


def test_unknown_workloads() -> None:
    with pytest.raises(TensorExpressionError) as error:
        create_te_workload("GEMM", 0)
    assert str(error.value) == "unknown workload 'GEMM'; did you mean 'GMM'?"
    with pytest.raises(TensorExpressionError) as error:
        create_te_workload("GMM", 4)
    assert str(error.value) == "workload GMM has 4 shapes, there is no shape 4"
