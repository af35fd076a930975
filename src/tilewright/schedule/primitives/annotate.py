"""`annotate` and `unannotate`: notes on blocks and loops for later steps."""

from __future__ import annotations

from typing import Any

from tilewright.ir import PrimExpr, replace
from tilewright.schedule.core import ScheduleCore
from tilewright.schedule.errors import PrimitiveError
from tilewright.schedule.state import BlockRV, LoopRV, ScheduleState, StmtSRef
from tilewright.schedule.trace.instruction import Primitive, given, register_primitive


class NoSuchAnnotation(PrimitiveError):
    reason = "{place!r} has no annotation {key!r}; it has {known}"


class BadAnnotationValue(PrimitiveError):
    reason = "the annotation {key!r} cannot hold {value!r}"
    remedy = "use a string, a number, a list or a dict of them"


def annotate(state: ScheduleState, place: StmtSRef, key: str, value: object) -> None:
    """Add an annotation; one that is there already stays as it is, as in TVM."""
    stmt = place.stmt
    assert stmt is not None
    if key not in stmt.annotations:
        _set_annotations(state, place, {**stmt.annotations, key: value})


class _OnAnnotation(Primitive[None]):
    moves_blocks = False
    block_or_loop: BlockRV | LoopRV = given()
    ann_key: str


@register_primitive
class Unannotate(_OnAnnotation):
    """Remove an annotation."""

    def run(self, sch: ScheduleCore) -> None:
        state, place, key = sch.state, sch.get_sref(self.block_or_loop), self.ann_key
        stmt = place.stmt
        assert stmt is not None
        if key not in stmt.annotations:
            known = ", ".join(map(repr, stmt.annotations)) or "none"
            raise NoSuchAnnotation(place=place, key=key, known=known)
        _set_annotations(state, place, {k: v for k, v in stmt.annotations.items() if k != key})


def _set_annotations(state: ScheduleState, place: StmtSRef, annotations: dict[str, object]) -> None:
    assert place.stmt is not None
    state.replace(place, replace(place.stmt, annotations=annotations))


def _plain(sch: ScheduleCore, key: str, value: object) -> object:
    """An annotation value with sampled integers replaced by what they stand for."""
    if isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, PrimExpr):
        return sch.int_of(value) if value.dtype.is_integral else value
    if isinstance(value, (list, tuple)):
        return [_plain(sch, key, item) for item in value]
    if isinstance(value, dict):
        return {name: _plain(sch, key, item) for name, item in value.items()}
    raise BadAnnotationValue(key=key, value=value)


@register_primitive
class Annotate(_OnAnnotation):
    ann_val: Any = given()

    def run(self, sch: ScheduleCore) -> None:
        value = _plain(sch, self.ann_key, self.ann_val)
        annotate(sch.state, sch.get_sref(self.block_or_loop), self.ann_key, value)
