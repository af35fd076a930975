"""What stands before or behind a convolution becomes part of it, and results stay."""

from __future__ import annotations

import numpy as np
import pytest

from tilewright.graph import Graph, parse_graph
from tilewright.graph.passes.fold_padding import fold_padding
from tilewright.graph.passes.fold_scales import fold_scales
from tilewright.model import compile_model

RNG = np.random.default_rng(3)


def numbers(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


def norm_of(channels: int, *, shifted: bool = True) -> dict[str, np.ndarray]:
    """The constants of a norm, called `g`, `b`, `m` and `v`."""
    made = {name: numbers(channels) for name in "gbm"}
    if not shifted:
        made["b"], made["m"] = np.zeros_like(made["b"]), np.zeros_like(made["m"])
    return {**made, "v": RNG.uniform(0.5, 2.0, channels).astype(np.float32)}


NORM = "g = constant(float32[4])\n    b = constant(float32[4])\n    m = constant(float32[4])\n    "
NORM += "v = constant(float32[4])\n"


def ops(graph: Graph) -> list[str]:
    return [node.op for node in graph.nodes]


def same_results(before: Graph, after: Graph, *inputs: np.ndarray) -> None:
    for wanted, got in zip(
        compile_model(before)(*inputs), compile_model(after)(*inputs), strict=True
    ):
        np.testing.assert_allclose(got, wanted, rtol=2e-5, atol=2e-5)


# --- norms --------------------------------------------------------------------------------------


@pytest.mark.parametrize(("groups", "filters"), [(1, 6), (2, 6), (4, 4)])
def test_a_norm_before_a_convolution(groups: int, filters: int) -> None:
    inner = 4 // groups
    text = f"""
def main(x: float32[2, 4, 5, 5]):
    w = constant(float32[{filters}, {inner}, 3, 3])
    {NORM}
    n = nn.batch_norm(x, g, b, m, v)
    y = nn.conv2d(n, w, groups={groups})
    return y
"""
    graph = parse_graph(text, {"w": numbers(filters, inner, 3, 3), **norm_of(4)})
    folded = fold_scales(graph)
    assert ops(folded) == ["nn.conv2d", "add"]
    # The norm alone, without passes, is what the folded one is compared with.
    x = numbers(2, 4, 5, 5)
    found = {value.name: array for value, array in graph.constants.items()}
    scale = found["g"] / np.sqrt(found["v"] + 1e-5)
    normed = (x - found["m"][:, None, None]) * scale[:, None, None] + found["b"][:, None, None]
    plain = parse_graph(
        f"""
def main(x: float32[2, 4, 5, 5]):
    w = constant(float32[{filters}, {inner}, 3, 3])
    y = nn.conv2d(x, w, groups={groups})
    return y
""",
        {"w": found["w"]},
    )
    (wanted,) = compile_model(plain)(normed.astype(np.float32))
    (got,) = compile_model(folded)(x)
    np.testing.assert_allclose(got, wanted, rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize(
    ("padding", "shifted", "expected"),
    [
        (0, True, ["nn.conv2d", "add"]),
        ("'VALID'", True, ["nn.conv2d", "add"]),
        (1, False, ["nn.conv2d", "add"]),
        (1, True, ["multiply", "add", "nn.conv2d"]),
        ("'SAME'", True, ["multiply", "add", "nn.conv2d"]),
        ([0, 0, 0, 1], True, ["multiply", "add", "nn.conv2d"]),
    ],
)
def test_padding_is_not_normed(padding: object, shifted: bool, expected: list[str]) -> None:
    text = f"""
def main(x: float32[1, 4, 5, 5]):
    w = constant(float32[6, 4, 3, 3])
    {NORM}
    n = nn.batch_norm(x, g, b, m, v)
    y = nn.conv2d(n, w, padding={padding})
    return y
"""
    graph = parse_graph(text, {"w": numbers(6, 4, 3, 3), **norm_of(4, shifted=shifted)})
    assert ops(fold_scales(graph)) == expected


def test_a_norm_that_others_read_stays() -> None:
    text = f"""
def main(x: float32[1, 4, 5, 5]):
    w = constant(float32[6, 4, 3, 3])
    {NORM}
    n = nn.batch_norm(x, g, b, m, v)
    y = nn.conv2d(n, w)
    r = nn.relu(n)
    return y, r
"""
    graph = parse_graph(text, {"w": numbers(6, 4, 3, 3), **norm_of(4)})
    assert ops(fold_scales(graph)) == ["multiply", "add", "nn.conv2d", "nn.relu"]


def test_norms_on_both_sides() -> None:
    """The one between two convolutions goes into the first of them."""
    text = f"""
def main(x: float32[1, 4, 5, 5]):
    w = constant(float32[4, 4, 3, 3])
    {NORM}
    n = nn.batch_norm(x, g, b, m, v)
    y = nn.conv2d(n, w)
    z = nn.batch_norm(y, g, b, m, v)
    u = nn.conv2d(z, w)
    return u
"""
    graph = parse_graph(text, {"w": numbers(4, 4, 3, 3), **norm_of(4)})
    folded = fold_scales(graph)
    assert ops(folded) == ["nn.conv2d", "add", "add", "nn.conv2d"]
    x = numbers(1, 4, 5, 5)
    constants = {value.name: array for value, array in graph.constants.items()}
    written_out = parse_graph(
        """
def main(x: float32[1, 4, 5, 5]):
    w = constant(float32[4, 4, 3, 3])
    s = constant(float32[4, 1, 1])
    t = constant(float32[4, 1, 1])
    a = multiply(x, s)
    n = add(a, t)
    y = nn.conv2d(n, w)
    c = multiply(y, s)
    z = add(c, t)
    u = nn.conv2d(z, w)
    return u
""",
        _as_product(constants),
    )
    same_results(written_out, folded, x)


def _as_product(found: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    scale = found["g"] / np.sqrt(found["v"] + 1e-5)
    shift = found["b"] - found["m"] * scale
    return {"w": found["w"], "s": scale.reshape(4, 1, 1), "t": shift.reshape(4, 1, 1)}


# --- padding ------------------------------------------------------------------------------------


@pytest.mark.parametrize("own", [0, [1, 0], [0, 1, 2, 3], "'VALID'"])
def test_zeros_become_padding(own: object) -> None:
    text = f"""
def main(x: float32[1, 3, 6, 5]):
    w = constant(float32[4, 3, 3, 3])
    p = nn.pad(x, pad_before=[0, 0, 1, 2], pad_after=[0, 0, 0, 1], pad_value=0.0)
    y = nn.conv2d(p, w, strides=2, padding={own})
    return y
"""
    graph = parse_graph(text, {"w": numbers(4, 3, 3, 3)})
    folded = fold_padding(graph)
    assert ops(folded) == ["nn.conv2d"]
    assert folded.nodes[0].outputs[0].type == graph.nodes[1].outputs[0].type
    x = numbers(1, 3, 6, 5)
    padded = np.pad(x, ((0, 0), (0, 0), (1, 0), (2, 1)))
    plain = parse_graph(
        f"""
def main(x: float32[1, 3, 7, 8]):
    w = constant(float32[4, 3, 3, 3])
    y = nn.conv2d(x, w, strides=2, padding={own})
    return y
""",
        {value.name: array for value, array in graph.constants.items()},
    )
    (wanted,) = compile_model(plain)(padded)
    (got,) = compile_model(folded)(x)
    np.testing.assert_allclose(got, wanted, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    ("pad", "padding"),
    [
        ("pad_before=[0, 0, 1, 1], pad_after=[0, 0, 1, 1], pad_value=1.0", 0),
        ("pad_before=[0, 1, 1, 1], pad_after=[0, 0, 1, 1], pad_value=0.0", 0),
        ("pad_before=[1, 0, 1, 1], pad_after=[0, 0, 1, 1], pad_value=0.0", 0),
        ("pad_before=[0, 0, 1, 1], pad_after=[0, 0, 1, 1], pad_value=0.0", "'SAME'"),
    ],
    ids=["ones", "channels", "images", "unwritten"],
)
def test_other_paddings_stay(pad: str, padding: object) -> None:
    channels = 4 if "[0, 1," in pad else 3
    text = f"""
def main(x: float32[1, 3, 6, 5]):
    w = constant(float32[4, {channels}, 3, 3])
    p = nn.pad(x, {pad})
    y = nn.conv2d(p, w, padding={padding})
    return y
"""
    assert ops(fold_padding(parse_graph(text))) == ["nn.pad", "nn.conv2d"]
