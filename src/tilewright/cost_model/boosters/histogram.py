"""Gradient-boosted trees in NumPy: quantised columns, histograms, trees that grow level by level.

A level of a tree costs two `bincount`s over all values. That is as fast as the libraries on the few
hundred samples that a task has, needs no installation and starts at once.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from tilewright.cost_model.boosters.base import BoosterConfig, Matrix, OnRound, Vector
from tilewright.cost_model.pack_sum import PackSum

Indices = npt.NDArray[np.int64]
Bins = npt.NDArray[np.uint8]  # there are as many as values in all rows: memory counts
Cells = npt.NDArray[np.int32]
MAX_BINS = 32
MAX_DEPTH = 5  # trees are complete, so each level costs twice the one before
_ROWS_AT_ONCE = 1024  # whose comparisons with all nodes stay in the caches
ROWS_PER_TREE = 512  # of the sample that splits are chosen on; values come from all rows


@dataclass(frozen=True)
class _Columns:
    """The columns that differ between rows, cut into bins: `value <= edges[b]` is bin `b` or less.

    Columns that put all rows into the same bins count once.
    """

    kept: Indices
    edges: tuple[Vector, ...]

    @staticmethod
    def of(rows: Matrix) -> tuple[_Columns, Bins]:
        kept: list[int] = []
        edges: list[Vector] = []
        bins: list[Bins] = []
        seen: set[bytes] = set()
        for column in range(rows.shape[1]):
            values = rows[:, column]
            cuts = _cuts(values)
            if not len(cuts):
                continue
            binned = np.searchsorted(cuts, values).astype(np.uint8)
            print_of = binned.tobytes()
            if print_of in seen:
                continue
            seen.add(print_of)
            kept.append(column)
            edges.append(cuts)
            bins.append(binned)
        all_bins = np.stack(bins, axis=1) if bins else np.zeros((len(rows), 0), np.uint8)
        return _Columns(np.array(kept, dtype=np.int64), tuple(edges)), all_bins


def _cuts(values: Matrix) -> Vector:
    """Thresholds between the values of a column, at most one fewer than there are bins."""
    values = values.astype(np.float64)
    distinct = np.unique(values)
    if len(distinct) > MAX_BINS:
        shares = np.linspace(0, 1, MAX_BINS + 1)[1:-1]
        distinct = np.unique(np.quantile(values, shares, method="nearest"))
    middle: Vector = (distinct[:-1] + distinct[1:]) / 2
    return middle


@dataclass
class _Tree:
    """A complete binary tree: inner nodes level by level, then a value for each leaf."""

    columns: Indices
    cuts: Indices  # rows whose bin is larger go right
    leaves: Vector


@dataclass(frozen=True)
class HistogramTrees:
    """Trained trees."""

    _columns: _Columns
    _trees: list[_Tree]
    _depth: int

    def predict(self, rows: Matrix) -> Vector:
        if not self._depth or not self._trees:
            return np.full(len(rows), float(sum(tree.leaves[0] for tree in self._trees)))
        columns, edges, leaves = self._tables
        total = np.zeros(len(rows))
        for first in range(0, len(rows), _ROWS_AT_ONCE):
            part = np.ascontiguousarray(rows[first : first + _ROWS_AT_ONCE].T, np.float32)
            # Nodes by trees by rows: does a row go right? All nodes are asked: that is faster than
            # to look up for each row which one it comes to.
            right = ~(part[columns] <= edges[:, :, None])
            node = right[0].astype(np.int64)
            for level in range(1, self._depth):
                begin = (1 << level) - 1
                node = node * 2 + _chosen(right[begin : 2 * begin + 1], node)
            flat = node + (np.arange(len(self._trees)) << self._depth)[:, None]
            total[first : first + _ROWS_AT_ONCE] = leaves.take(flat).sum(axis=0)
        return total

    @cached_property
    def _tables(self) -> tuple[Indices, npt.NDArray[np.float32], Vector]:
        """Columns and edges, nodes by trees; then the values of leaves, tree after tree."""
        columns = np.array([tree.columns for tree in self._trees]).T
        cuts = np.array([tree.cuts for tree in self._trees]).T
        edges = np.full(cuts.shape, np.inf)
        for place, own in enumerate(self._columns.edges):
            inside = (columns == place) & (cuts < len(own))
            edges[inside] = own[cuts[inside]]
        below = edges.astype(np.float32)
        # Values are of single precision: whatever exceeds an edge exceeds the number before it.
        below = np.where(below > edges, np.nextafter(below, np.float32(-np.inf)), below)
        leaves = np.concatenate([tree.leaves for tree in self._trees])
        return self._columns.kept[columns], below, leaves


def _chosen(nodes: npt.NDArray[np.bool_], which: Indices) -> npt.NDArray[np.bool_]:
    """For each place the one of some arrays that is asked for."""
    found: npt.NDArray[np.bool_] = nodes[0]
    for number in range(1, len(nodes)):
        found = np.where(which == number, nodes[number], found)
    return found


def train_histogram(data: PackSum, config: BoosterConfig, on_round: OnRound) -> HistogramTrees:
    """Grow trees in NumPy."""
    columns, bins = _Columns.of(data.rows)
    depth = min(config.max_depth, MAX_DEPTH) if len(columns.kept) else 0
    grower = _Grower(bins, config, depth)
    scores = np.zeros(len(data.rows))
    trees: list[_Tree] = []
    for number in range(config.num_boost_round):
        tree, leaf_of = grower.grow(*data.gradients(scores))
        scores = scores + tree.leaves[leaf_of]
        trees.append(tree)
        if not on_round(number, scores):
            break
    return HistogramTrees(columns, trees, depth)


class _Sample:
    """Rows to look for splits on: the cell of each value in the histograms, and the derivatives."""

    def __init__(self, cells: Cells, gradients: Vector, hessians: Vector) -> None:
        self._cells = cells
        num_columns = cells.shape[1]
        self._gradients = np.repeat(gradients, num_columns)
        self._hessians = np.repeat(hessians, num_columns)

    def histograms(self, node: Indices, shape: tuple[int, int, int]) -> tuple[Vector, Vector]:
        """Sums of both derivatives up to each bin, for each node and column."""
        size = shape[0] * shape[1] * shape[2]
        cells = (node[:, None] * (shape[1] * shape[2]) + self._cells).ravel()
        first, second = (
            np.bincount(cells, values, size).reshape(shape).cumsum(axis=2)
            for values in (self._gradients, self._hessians)
        )
        return first, second


class _Grower:
    """Grows one tree after another on the same rows."""

    def __init__(self, bins: Bins, config: BoosterConfig, depth: int) -> None:
        self._bins = bins
        self._depth = depth
        self._config = config
        self._all = np.arange(len(bins))
        self._num_columns = bins.shape[1]
        self._num_bins = int(bins.max(initial=0)) + 1
        columns = np.arange(self._num_columns, dtype=np.int32)
        self._cells: Cells = bins + columns * np.int32(self._num_bins)
        self._random = np.random.RandomState(config.seed)
        self._shrinkage = max(config.reg_lambda, 1e-12)  # nodes without rows have no weight

    def grow(self, gradients: Vector, hessians: Vector) -> tuple[_Tree, Indices]:
        """A tree, and the leaf that each row falls into."""
        node = np.zeros(len(self._bins), dtype=np.int64)
        columns: list[Indices] = []
        cuts: list[Indices] = []
        some = self._all
        if len(some) > ROWS_PER_TREE:
            some = self._random.choice(some, ROWS_PER_TREE, replace=False)
        sample = _Sample(self._cells[some], gradients[some], hessians[some])
        for level in range(self._depth):
            chosen, cut = self._best_splits(sample, node[some], 1 << level)
            columns.append(chosen)
            cuts.append(cut)
            node = node * 2 + (self._bins[self._all, chosen[node]] > cut[node])
        num_leaves = 1 << len(columns)
        total = np.bincount(node, gradients, num_leaves)
        weight = np.bincount(node, hessians, num_leaves)
        leaves = -self._config.eta * total / (weight + self._shrinkage)
        empty = np.zeros(0, dtype=np.int64)
        tree = _Tree(np.concatenate([empty, *columns]), np.concatenate([empty, *cuts]), leaves)
        return tree, node

    def _best_splits(
        self, sample: _Sample, node: Indices, num_nodes: int
    ) -> tuple[Indices, Indices]:
        """The best column and cut of each node; a cut past the last bin where nothing is gained."""
        config, shape = self._config, (num_nodes, self._num_columns, self._num_bins)
        left, left_weight = sample.histograms(node, shape)
        total, weight = left[:, :1, -1:], left_weight[:, :1, -1:]
        right, right_weight = total - left, np.maximum(weight - left_weight, 0.0)
        gain = (
            left**2 / (left_weight + self._shrinkage)
            + right**2 / (right_weight + self._shrinkage)
            - total**2 / (weight + self._shrinkage)
        )
        smallest = max(config.min_child_weight, 1e-9)
        gain[(left_weight < smallest) | (right_weight < smallest)] = -np.inf
        flat = gain.reshape(num_nodes, -1)
        best = flat.argmax(axis=1)
        gains = flat[np.arange(num_nodes), best] > config.gamma
        chosen, cut = np.divmod(best, self._num_bins)
        return chosen, np.where(gains, cut, self._num_bins)
