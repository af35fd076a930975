"""Index maps: how the indices of one layout follow from those of another.

    IndexMap.from_func(lambda i, j: [i // 4, j, i % 4])

takes a matrix to blocks of four rows. Maps apply to indices, ranges, shapes and NumPy arrays, and
can be inverted; where a map pads, `non_surjective_inverse` also tells which new elements are
padding.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Sequence
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from tilewright import ir
from tilewright.arith.analyzer import Analyzer
from tilewright.arith.iter_map import IterMapLevel, IterMapResult, PaddedMark
from tilewright.arith.iter_map_detect import IterMapInverse, detect_iter_map
from tilewright.arith.iter_map_padding import rest_of
from tilewright.arith.numpy_eval import evaluate_on_arrays
from tilewright.arith.region import eval_set, to_range
from tilewright.errors import ArithError, IRError
from tilewright.ir.json import register_node_class


class _AxisSeparator:
    """The marker `IndexMap.AXIS_SEPARATOR`."""

    def __repr__(self) -> str:
        return "IndexMap.AXIS_SEPARATOR"


class IndexMap(ir.Node, frozen=True):
    """`initial_indices -> final_indices`, with an inverse if its author gave one."""

    child_fields: ClassVar[tuple[str, ...]] = ("final_indices",)
    AXIS_SEPARATOR: ClassVar[_AxisSeparator] = _AxisSeparator()

    initial_indices: tuple[ir.Var, ...]
    final_indices: tuple[ir.PrimExpr, ...]
    inverse_index_map: IndexMap | None = None

    # --- construction ---

    @staticmethod
    def from_func(
        mapping_function: Callable[..., object],
        ndim: int | None = None,
        inverse_index_map: Callable[..., object] | IndexMap | None = None,
        *,
        index_dtype: str = "int64",
    ) -> IndexMap:
        """The map that a Python function of the indices describes.

        `ndim` says how many indices a `*args` parameter stands for; parameters after it are the
        last indices.
        """
        index_map, separators = IndexMap.from_func_with_separators(
            mapping_function, ndim, inverse_index_map, index_dtype=index_dtype
        )
        if separators:
            raise ArithError(
                "the function returns IndexMap.AXIS_SEPARATOR; use from_func_with_separators"
            )
        return index_map

    @staticmethod
    def from_func_with_separators(
        mapping_function: Callable[..., object],
        ndim: int | None = None,
        inverse_index_map: Callable[..., object] | IndexMap | None = None,
        *,
        index_dtype: str = "int64",
    ) -> tuple[IndexMap, list[int]]:
        """As `from_func`, with the positions at which AXIS_SEPARATOR stood in the result."""
        dtype = ir.DType(index_dtype)
        leading, named = _parameter_names(mapping_function, ndim)
        leading_vars = [ir.Var(name, dtype) for name in leading]
        named_vars = {name: ir.Var(name, dtype) for name in named}
        initial = (*leading_vars, *named_vars.values())
        result = mapping_function(*leading_vars, **named_vars)
        items = list(result) if isinstance(result, (list, tuple, Iterator)) else [result]
        final: list[ir.PrimExpr] = []
        separators: list[int] = []
        for item in items:
            if item is IndexMap.AXIS_SEPARATOR:
                separators.append(len(final))
            else:
                final.append(_index_expr(item, dtype))
        inverse = inverse_index_map
        if inverse is not None and not isinstance(inverse, IndexMap):
            inverse = IndexMap.from_func(inverse, ndim=len(final), index_dtype=index_dtype)
        return IndexMap(initial, tuple(final), inverse), separators

    # --- application ---

    def map_indices(
        self, indices: Sequence[ir.ExprLike], analyzer: Analyzer | None = None
    ) -> list[ir.PrimExpr]:
        """The new indices of the element at `indices`, simplified."""
        self._check_rank("indices", len(indices))
        nodes = [ir.convert(index) for index in indices]
        symbolic = [node.dtype for node in nodes if not isinstance(node, ir.IntImm)]
        adapted = self.with_dtype(symbolic[0]) if symbolic else self
        dtype = adapted._dtype
        nodes = [ir.const(n.value, dtype) if isinstance(n, ir.IntImm) else n for n in nodes]
        mapping = dict(zip(adapted.initial_indices, nodes, strict=True))
        simplify = (analyzer or Analyzer()).simplify
        return [simplify(ir.substitute(index, mapping)) for index in adapted.final_indices]

    def map_ranges(
        self, ranges: Sequence[ir.Range], analyzer: Analyzer | None = None
    ) -> list[ir.Range]:
        """The ranges of the new indices; an outer box where the map is not exact."""
        self._check_rank("ranges", len(ranges))
        adapted = self.with_dtype(ranges[0].min.dtype) if ranges else self
        domains = dict(zip(adapted.initial_indices, ranges, strict=True))
        found = detect_iter_map(
            adapted.final_indices, domains, ir.TRUE, IterMapLevel.NO_CHECK, False
        )
        checker = analyzer or Analyzer()
        if not found.errors:
            exact = _ranges_of(found, checker)
            if exact is not None:
                return exact
        return [to_range(eval_set(i, domains, checker), checker) for i in adapted.final_indices]

    def map_shape(
        self, shape: Sequence[ir.ExprLike], analyzer: Analyzer | None = None
    ) -> list[ir.PrimExpr]:
        """The shape of the new layout."""
        self._check_rank("dimensions", len(shape))
        ranges = _ranges_from_shape(shape, self._dtype)
        simplify = (analyzer or Analyzer()).simplify
        return [simplify(r.min + r.extent) for r in self.map_ranges(ranges, analyzer)]

    def map_ndarray(self, array: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """The array in the new layout; elements that the map does not reach are zero."""
        self._check_rank("dimensions", array.ndim)
        shape = []
        for extent in self.map_shape(list(array.shape)):
            if not isinstance(extent, ir.IntImm):
                raise ArithError(f"the shape of the new layout is not constant: {extent}")
            shape.append(extent.value)
        result = np.zeros(shape, array.dtype)
        grid: list[npt.NDArray[Any]] = list(np.indices(array.shape))
        values = dict(zip(self.initial_indices, grid, strict=True))
        where = tuple(
            np.broadcast_to(evaluate_on_arrays(index, values), array.shape)
            for index in self.final_indices
        )
        result[where] = array
        return result

    # --- inversion ---

    def inverse(self, shape: Sequence[ir.ExprLike | ir.Range]) -> IndexMap:
        """The inverse of a map that is a bijection on `shape`."""
        if self.inverse_index_map is not None:
            return self.inverse_index_map
        found = self._detect(shape, IterMapLevel.BIJECTIVE)
        return self._inverted(found, self._output_vars(), self._input_ranges(shape))[0]

    def non_surjective_inverse(
        self, shape: Sequence[ir.ExprLike | ir.Range]
    ) -> tuple[IndexMap, ir.PrimExpr]:
        """The inverse of a map that may pad, and the condition on the new indices for padding."""
        ranges = self._input_ranges(shape)
        if self.inverse_index_map is not None:
            return self.inverse_index_map, ir.FALSE
        found = self._detect(shape, IterMapLevel.NO_CHECK)
        outputs = self._output_vars()
        inverse, solved = self._inverted(found, outputs, ranges)
        analyzer = Analyzer()
        for var, domain in zip(outputs, self.map_ranges(ranges), strict=True):
            analyzer.bind(var, domain)
        predicate = ir.FALSE
        for padded in found.padding:
            condition = _is_padding(padded, solved.value_of[padded.mark])
            if isinstance(padded.divisor, ir.IntImm):
                condition = analyzer.simplify(condition)
            predicate = ir.logical_or(predicate, condition)
        return inverse, predicate

    def _detect(
        self, shape: Sequence[ir.ExprLike | ir.Range], level: IterMapLevel
    ) -> IterMapResult:
        domains = dict(zip(self.initial_indices, self._input_ranges(shape), strict=True))
        found = detect_iter_map(self.final_indices, domains, ir.TRUE, level, False)
        if found.errors:
            raise ArithError(f"{self} has no inverse on this shape: {'; '.join(found.errors)}")
        return found

    def _inverted(
        self, found: IterMapResult, outputs: Sequence[ir.Var], ranges: Sequence[ir.Range]
    ) -> tuple[IndexMap, IterMapInverse]:
        solved = IterMapInverse(found.indices, outputs)
        final = []
        for var, domain in zip(self.initial_indices, ranges, strict=True):
            value = solved.variables.get(var)
            if value is None:
                if not (isinstance(domain.extent, ir.IntImm) and domain.extent.value == 1):
                    raise ArithError(f"{self} has no inverse: it loses the index {var.name}")
                value = domain.min
            final.append(value)
        return IndexMap(tuple(outputs), tuple(final)), solved

    # --- comparison and text ---

    def is_equivalent_to(self, other: IndexMap) -> bool:
        """True when both maps send all indices to the same place."""
        if len(self.initial_indices) != len(other.initial_indices):
            return False
        if len(self.final_indices) != len(other.final_indices):
            return False
        analyzer = Analyzer()
        theirs = other.map_indices(self.initial_indices, analyzer)
        return all(map(analyzer.can_prove_equal, self.final_indices, theirs))

    def with_dtype(self, dtype: str) -> IndexMap:
        """The same map on indices of another integer type."""
        target = ir.DType(dtype)
        if target is self._dtype:
            return self
        fresh = {var: ir.Var(var.name, target) for var in self.initial_indices}
        source = self._dtype
        own = {
            ir.Var: lambda var: fresh.get(var, var),
            ir.IntImm: lambda n: ir.const(n.value, target) if n.dtype is source else n,
        }
        inverse = self.inverse_index_map
        return IndexMap(
            tuple(fresh.values()),
            tuple(ir.rewrite(index, own) for index in self.final_indices),
            None if inverse is None else inverse.with_dtype(dtype),
        )

    def __str__(self) -> str:
        names = ", ".join(var.name for var in self.initial_indices)
        body = "".join(f"{index}, " for index in self._untyped().final_indices).rstrip(" ")
        return f"lambda {names}: ({body})"

    def _untyped(self) -> IndexMap:
        """The map with constants that print without a type: it is chosen where the map applies."""
        try:
            return self.with_dtype("int32")
        except IRError:  # a constant that needs more bits
            return self

    # --- helpers ---

    @property
    def _dtype(self) -> ir.DType:
        return self.initial_indices[0].dtype if self.initial_indices else ir.DType("int64")

    def _check_rank(self, what: str, given: int) -> None:
        if given != len(self.initial_indices):
            raise ArithError(
                f"{self} takes {len(self.initial_indices)} {what}, but {given} were given"
            )

    def _input_ranges(self, shape: Sequence[ir.ExprLike | ir.Range]) -> list[ir.Range]:
        self._check_rank("dimensions", len(shape))
        return _ranges_from_shape(shape, self._dtype)

    def _output_vars(self) -> list[ir.Var]:
        return [ir.Var(f"axis{i}", self._dtype) for i in range(len(self.final_indices))]


register_node_class(IndexMap)


def _parameter_names(
    function: Callable[..., object], ndim: int | None
) -> tuple[list[str], list[str]]:
    """The names of the indices given by position, and of those given by name."""
    kinds: dict[object, list[str]] = {}
    for parameter in inspect.signature(function).parameters.values():
        kinds.setdefault(parameter.kind, []).append(parameter.name)
    of = inspect.Parameter
    leading = [*kinds.get(of.POSITIONAL_ONLY, ()), *kinds.get(of.POSITIONAL_OR_KEYWORD, ())]
    variadic = kinds.get(of.VAR_POSITIONAL, [])
    named = kinds.get(of.KEYWORD_ONLY, [])
    if of.VAR_KEYWORD in kinds:
        raise ArithError(f"the function takes **{kinds[of.VAR_KEYWORD][0]}: name every index")
    if variadic and ndim is None:
        raise ArithError(f"the function takes *{variadic[0]}: ndim must say how many indices")
    given = len(leading) + len(named)
    missing = 0 if ndim is None else ndim - given
    if missing < 0 or (missing > 0 and not variadic):
        raise ArithError(f"the function takes {given} indices, but ndim is {ndim}")
    return [*leading, *(f"{variadic[0]}_{i}" for i in range(missing) if variadic)], named


def _index_expr(item: object, dtype: ir.DType) -> ir.PrimExpr:
    if isinstance(item, int) and not isinstance(item, bool):
        return ir.const(item, dtype)
    try:
        found = ir.convert(item)
    except ValueError:
        found = None
    if found is None or isinstance(found, ir.StringImm):
        raise ArithError(f"an index map must return indices or AXIS_SEPARATOR, not {item!r}")
    return found


def _ranges_from_shape(shape: Sequence[ir.ExprLike | ir.Range], dtype: ir.DType) -> list[ir.Range]:
    ranges = []
    for extent in shape:
        if isinstance(extent, ir.Range):
            ranges.append(extent)
        elif isinstance(extent, ir.PrimExpr) and not isinstance(extent, ir.IntImm):
            ranges.append(ir.Range(ir.const(0, extent.dtype), extent))
        else:
            ranges.append(ir.Range(ir.const(0, dtype), ir.const(int(extent), dtype)))  # type: ignore[arg-type]
    return ranges


def _ranges_of(found: IterMapResult, analyzer: Analyzer) -> list[ir.Range] | None:
    """The ranges of the outputs of an iterator map; None where an output runs backwards."""
    ranges = []
    for total in found.indices:
        if not total.args:
            ranges.append(ir.Range(total.base, ir.const(1, total.dtype)))
            continue
        (split,) = total.args
        if not analyzer.can_prove(split.scale > 0):
            return None
        extent = analyzer.simplify(ir.multiply(split.extent, split.scale))
        ranges.append(ir.Range(total.base, extent))
    return ranges


def _is_padding(padded: PaddedMark, value: ir.PrimExpr) -> ir.PrimExpr:
    """The condition that a value of a padded iterator is not a real one."""
    divisor = padded.divisor
    block, within = ir.floordiv(value, divisor), ir.floormod(value, divisor)
    condition = ir.FALSE
    if padded.left_pad:
        condition = ir.logical_and(ir.equal(block, 0), ir.less(within, padded.left_pad))
    used = ir.add(padded.extent, padded.left_pad)
    last, rest = ir.floordiv(used, divisor), ir.floormod(used, divisor)
    has_rest = ir.not_equal(rest_of(used, divisor), 0)
    in_last = ir.logical_and(has_rest, ir.equal(block, last))
    return ir.logical_or(condition, ir.logical_and(in_last, ir.less_equal(rest, within)))
