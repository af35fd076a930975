"""The regions that blocks access, as TVM infers them."""

from __future__ import annotations

import textwrap

import pytest

from tilewright.arith.block_access import block_access_regions
from tilewright.ir import Block, BlockRealize, PrimFunc, pre_order_visit
from tilewright.script import from_source

HEAD = """
@T.prim_func(check_well_formed=False)
def f(A: T.Buffer((16, 16), "float32"), B: T.Buffer((16, 16), "float32"), C: T.Buffer((16,), "float32"), D: T.Buffer((16,), "int32"), n: T.int32):
    for i, k in T.grid(16, 16):
        with T.block("b"):
            vi, vk = T.axis.remap("SR", [i, k])
            T.reads()
            T.writes()
"""  # noqa: E501


def regions(body: str) -> tuple[list[str], list[str]]:
    func = from_source(HEAD + textwrap.indent(textwrap.dedent(body).strip("\n"), " " * 12))
    assert isinstance(func, PrimFunc)
    found: list[Block] = []

    def note(node: object) -> bool:
        if isinstance(node, BlockRealize) and node.block.name_hint == "b":
            found.append(node.block)
        return True

    pre_order_visit(func.body, note)
    access = block_access_regions(found[0], func.buffer_map.values())
    assert not access.opaque
    return [str(item) for item in access.reads], [str(item) for item in access.writes]


INIT = "with T.init():\n    C[vi] = 0.0\n"


@pytest.mark.parametrize(
    ("body", "reads", "writes"),
    [
        (INIT + "C[vi] = C[vi] + A[vi, vk] * B[vk, vi]", ["A[vi, vk]", "B[vk, vi]"], ["C[vi]"]),
        ("C[vi] = C[vi] + A[vi, vk]", ["C[vi]", "A[vi, vk]"], ["C[vi]"]),
        (INIT + "C[vi] = C[vi] + C[vi + 1] * B[vk, vi]", ["B[vk, vi]"], ["C[vi]"]),
        (
            "for j in range(4):\n    A[vi, j * 2 + 1] = B[vi, j] + B[vi, j + 3]",
            ["B[vi, 0:7]"],
            ["A[vi, 1:8]"],
        ),
        ("C[vi] = A[vi, 0] + A[vi, 5] + A[vi + 1, 2]", ["A[vi:vi + 2, 0:6]"], ["C[vi]"]),
        (
            'p = T.allocate([4], "float32", "local")\nL = T.Buffer((4,), data=p, scope="local")\n'
            "L[vk] = A[vi, vk]\nC[vi] = L[0]",
            ["A[vi, vk]"],
            ["C[vi]"],
        ),
        (
            "if vi < 3:\n    C[vi] = T.if_then_else(vi > 1, A[vi - 1, 0], T.float32(0))\n"
            "else:\n    C[vi] = T.Select(vi > 1, A[vi - 1, 0], B[vi, vi])",
            ["A[vi - 1, 0]", "B[vi, vi]"],
            ["C[vi]"],
        ),
        ("C[vi] = C[D[vi]]", ["C[D[vi]]", "D[vi]"], ["C[vi]"]),
        ("C[D[vi]] = A[vi, D[vi]]", ["A[vi, D[vi]]", "D[vi]"], ["C[D[vi]]"]),
        ("for j in range(4):\n    C[D[j]] = 1.0", ["D[0:4]"], ["C[0:16]"]),
        ("A[vi, T.Ramp(0, 1, 4)] = B[vi, T.Ramp(vi, 2, 4)]", ["B[vi, vi:vi + 7]"], ["A[vi, 0:4]"]),
        ("for j in range(n):\n    C[j] = A[vi, j]", ["A[vi, 0:n]"], ["C[0:n]"]),
        ("for j in range(n, n + 4):\n    C[j] = 1.0", [], ["C[n:n + 4]"]),
        (
            "for j, l in T.grid(4, 3):\n    C[j * 3 + l] = A[vi, 7 - j] + A[j // 2, l % 2]",
            ["A[T.min(vi, 0):T.min(vi, 0) + (T.max(vi, 1) - T.min(vi, 0) + 1), 0:8]"],
            ["C[0:12]"],
        ),
        ("E = T.alloc_buffer((4,))\nE[0] = C[vi]\nC[vi] = E[0]", ["C[vi]"], ["C[vi]"]),
        (
            "X = T.match_buffer(A[vi, 0:4], (4,))\nfor j in range(4):\n    X[j] = B[vi, j]",
            ["B[vi, 0:4]"],
            ["A[vi, 0:4]"],
        ),
        ("x = D[vi] + 1\nC[x] = 1.0", ["D[vi]"], ["C[D[vi] + 1]"]),
        (
            'for j in range(16):\n    with T.block("inner"):\n'
            "        vj = T.axis.spatial(16, j)\n        A[vi, vj] = B[vi, vj]",
            ["B[vi, 0:16]"],
            ["A[vi, 0:16]"],
        ),
        ('T.call_extern("int32", "f", A.access_ptr("r"), T.address_of(D[vi]))',
         ["A[0:16, 0:16]", "D[vi]"], []),
        ('T.call_extern("int32", "f", C.access_ptr("rw"))', ["C[0:16]"], ["C[0:16]"]),
    ],
)  # fmt: skip
def test_regions(body: str, reads: list[str], writes: list[str]) -> None:
    assert regions(body) == (reads, writes)
