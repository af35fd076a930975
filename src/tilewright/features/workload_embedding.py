"""Tells the kind of workload that a module is from the names of its blocks."""

from __future__ import annotations

from tilewright.ir import Block, IRModule, nodes_of

# The first flag with a word that the name of a block contains is set for that block.
_FLAGS: tuple[tuple[str, ...], ...] = (
    ("softmax",),
    ("max", "min"),
    ("add",),
    ("batch_matmul",),
    ("matmul",),
    ("depthwiseconv2d",),
    ("conv2d_winograd",),
    ("conv2d",),
)
WIDTH = len(_FLAGS)


def workload_embedding(mod: IRModule) -> list[float]:
    """Which known operators the blocks of a module are named after."""
    flags = [0.0] * WIDTH
    for func in mod.functions.values():
        for block in nodes_of(func.body, Block):
            name = block.name_hint.lower()
            for place, words in enumerate(_FLAGS):
                if any(word in name for word in words):
                    flags[place] = 1.0
                    break
    return flags
