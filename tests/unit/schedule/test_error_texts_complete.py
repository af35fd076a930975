"""No refusal of a schedule without a test of its text.

The tables of `test_error_texts_*` pin whole texts. All other errors are named here with the test
file that pins them, in which every fixed piece of the text must stand.
"""

from __future__ import annotations

import ast
import importlib
import pkgutil
import re
import runpy
import string
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

import tilewright.schedule
from tilewright.schedule.errors import PrimitiveError
from tilewright.testing.refusals import error_name

HERE = Path(__file__).parent
TABLES = ("test_error_texts_moves.py", "test_error_texts_rewrites.py")

# A group of names shares its module: "module: Class Class".
PINNED_ELSEWHERE = {
    "test_allocated_buffers.py": (
        "layouts.allocated_buffer: NotAllocated",
        "primitives.storage_align: AxisOutOfRange BadAlignment AlignmentNotPositive",
        "primitives.unsafe_set_dtype: NotADtype",
    ),
    "test_blockize.py": (
        "primitives.blockize: BlockGivenTwice CannotDivide NoBlocks NotAroundOneBlock NotSiblings",
        "primitives.blockize: LengthFromOutside JoinedReduction",
    ),
    "test_cache_index_inplace.py": (
        "primitives.cache_index: NegativeThreshold NestedBlocks",
        "primitives.cache_inplace: NotUpdatedInPlace",
    ),
    "test_cache_read_write.py": (
        "caches.stage: BadStorageScope BufferIndexOutOfRange MatchedBufferScope",
        "caches.stage: SeveralWriters",
        "primitives.cache_read: NoReaderToCache",
        "primitives.cache_write: PartialWrite WriterReadsItsBuffer",
    ),
    "test_compose.py": ("primitives.compute_root: NotAStage ProducersInTheWay",),
    "test_compute_at.py": (
        "state.flags: NotStagePipeline",
        "moves.compute_at: IndexOutOfRange IsOutputBlock LoopAroundBlock NeighboursOutsideLoop",
        "moves.compute_at: NothingToComputeFor UnknownIterations",
        "moves.relocate: StatementAroundBlock",
        "moves.reverse_compute_at: IterationsLost ProducerLeavesGaps ReductionCutByLoop",
    ),
    "test_copy_at.py": (
        "primitives.copy_at: LoopNotAround ReadAfterWritten ReadsOldValues WritesWithGaps",
        "primitives.copy_at: WrittenAfterRead",
    ),
    "test_declared_access.py": (
        "primitives.declared_access: NoSuchRegion UnknownSide WrongBounds",
    ),
    "test_decompose_padding.py": ("primitives.decompose_padding: NotAPadding NotCompleteBlock",),
    "test_decompose_reduction.py": (
        "conditions.checks: LoopNotAboveBlock NotReductionBlock",
        "primitives.decompose_reduction: ReductionLoopOutside RunsRepeatedly",
    ),
    "test_fuse_reorder.py": (
        "primitives.fuse: ExtentDependsOnLoop NotNested NothingToFuse",
        "primitives.reorder: BlockNotReorderable LoopGivenTwice NotOneChain",
        "primitives.reorder: OuterDependsOnInner",
    ),
    "test_getters.py": (
        "core: ExpiredHandle ForeignHandle",
        "primitives.get_blocks: BlockNotFound RootHasNoNeighbours SeveralBlocksFound",
        "primitives.get_blocks: UnknownFunction",
    ),
    "test_inline.py": (
        "primitives.compute_inline: HasInit IndicesNotPlain NotOneStore OpaqueAccess",
        "primitives.compute_inline: ValueUsesOtherIterator",
        "primitives.reverse_compute_inline: HasPredicate IndicesNotBijective NotCovered",
        "primitives.reverse_compute_inline: NotOneProducer ProducerNotComplete UnlikeLoads",
        "conditions.races: WrittenByAll",
    ),
    "test_loop_kind_annotate.py": (
        "conditions.checks: NotCompactDataflow",
        "primitives.annotate: BadAnnotationValue NoSuchAnnotation",
        "primitives.loop_kind: IteratorNotParallel UnknownThreadAxis",
    ),
    "test_loop_partition.py": (
        "primitives.loop_partition: MixedIterators",
        "primitives.loop_partition: NothingLeft OuterReduction RangeNotConstant",
        "primitives.loop_partition: SeveralInferredParts",
    ),
    "test_merge.py": (
        "primitives.merge: DifferentDepth DifferentExtents NestsDependOnEachOther",
        "primitives.merge: NestsNotSiblings StatementsBetween TooFewLoops",
    ),
    "test_pad_einsum.py": (
        "primitives.pad_einsum: BindingNotTrivial BufferNotAllocated CannotPadProducer",
        "primitives.pad_einsum: NotAnEinsum WrongPadding",
    ),
    "test_shift_operand.py": (
        "primitives.shift_operand: CannotShift MadeUnderTheSameLoop NotASumOfProducts",
        "primitives.shift_operand: OnlyAPart",
    ),
    "test_widen_accumulator.py": ("primitives.widen_accumulator: NotAnAccumulation NotWider",),
    "test_winograd.py": (
        "primitives.winograd: ConvolutionNotAlone NoWholeTiles NotAPlainConvolution",
    ),
    "test_regressions.py": (
        "primitives.loop_kind: IterationsShareResult",
        "primitives.reindex: ReadsMoreThanItsPart",
        "primitives.reorder: ReductionOutOfOrder ReductionRepeated",
        "conditions.races: ReadOutsideParallelLoop",
        "moves.reverse_compute_at: ConsumersRunBefore",
    ),
    "test_reindex.py": (
        "regions.buffer_access: MayLieOutside NotAccessedInOneWay ReadAndWritten",
        "primitives.reindex: IteratorNotFromZero SkipsIterations",
        "primitives.reindex_cache: ElementsCollide NegativeIndex NotASinglePoint",
        "primitives.reindex_cache: OtherIterators UnderCondition WrongNumberOfIndices",
    ),
    "test_rfactor.py": (
        "conditions.checks: NotOneBlock",
        "primitives.rfactor: ExtentOfOtherLoops FactorAxisOutOfRange LoopNotSerial NotFirstBlock",
        "primitives.rfactor: NotReductionLoop PartNeverInitialized",
        "primitives.rfactor: UnknownReducer",
    ),
    "test_rolling_buffer.py": ("primitives.rolling_buffer: NoCommonLoop NoSuchWrite NothingRolls",),
    "test_sampling.py": (
        "primitives.sample_categorical: DecisionOutOfRange LengthsDiffer NoProbabilities",
        "primitives.sample_perfect_tile: BadLimit BadPartition BadTileRequest",
        "primitives.sample_perfect_tile: LimitNeedsTwoParts",
    ),
    "test_small_loop_steps.py": (
        "primitives.add_unit_loop: NoLoopAroundRoot",
        "primitives.reorder_block_iter_var: NotAPermutation RootHasNoIterators",
    ),
    "test_stale_names.py": (
        "conditions.checks: NamesLoopsAround",
        "moves.compute_at: DecidesIterations",
        "primitives.reverse_compute_inline: UsedBetweenBlocks",
    ),
    "test_split.py": (
        "conditions.checks: LoopDoesNotStartAtZero LoopHasAnnotations",
        "core: NotANumber",
        "primitives.split: FactorNotPositive NoFactors ProductTooSmall",
        "primitives.split: SeveralInferredFactors",
    ),
    "test_tensorize.py": ("primitives.tensorize: DoesNotMatch OperandNotContiguous",),
    "test_trace.py": ("primitives.sample_perfect_tile: DecisionOfWrongLength",),
    "test_transform_block_layout.py": (
        "primitives.transform_block_layout: BindingsNotPlain IteratorsHaveOrder",
        "primitives.transform_block_layout: LoopRunsOverPart MixedIterator NoLoops NotAlone",
        "primitives.transform_block_layout: NotBijective WrongArity",
    ),
    "test_transform_layout.py": (
        "layouts.layout: BufferIsView LayoutCannotFollow",
        "primitives.set_axis_separator: BadSeparators",
        "primitives.transform_layout: BadPadValue BufferHasStrides IntroducesPadding",
        "primitives.transform_layout: WrongRank",
    ),
}


def expand(group: str) -> Iterator[str]:
    """The full names of a group."""
    module, names = group.split(":")
    return (f"{module}.{name}" for name in names.split())


PINS = [
    (file, name)
    for file, groups in PINNED_ELSEWHERE.items()
    for group in groups
    for name in expand(group)
]


def below(error: type[PrimitiveError]) -> Iterator[type[PrimitiveError]]:
    for subclass in error.__subclasses__():
        yield subclass
        yield from below(subclass)


@cache
def known_errors() -> dict[str, type[PrimitiveError]]:
    """All errors that the schedule package defines; tests may define others."""
    package = tilewright.schedule
    for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
        importlib.import_module(module.name)
    inside = (e for e in below(PrimitiveError) if e.__module__.startswith(package.__name__))
    return {error_name(error): error for error in inside}


@cache
def strings_in(file: str) -> str:
    """All string constants of a test, those that are regular expressions without escapes."""
    nodes = ast.walk(ast.parse((HERE / file).read_text(encoding="utf-8")))
    texts = [n.value for n in nodes if isinstance(n, ast.Constant) and isinstance(n.value, str)]
    return "\n".join(re.sub(r"\\(.)", r"\1", text) for text in texts)


def fixed_pieces(template: str) -> list[str]:
    return [piece for piece, *_ in string.Formatter().parse(template) if piece.strip()]


def test_every_error_has_a_pinned_text() -> None:
    in_tables = {
        case.error for file in TABLES for case in runpy.run_path(str(HERE / file))["CASES"]
    }
    elsewhere = [name for _, name in PINS]
    assert sorted({*in_tables, *elsewhere}) == sorted(known_errors())
    assert not in_tables.intersection(elsewhere)
    assert len(elsewhere) == len(set(elsewhere))


@pytest.mark.parametrize(("file", "name"), PINS, ids=[name for _, name in PINS])
def test_text_stands_in_its_test(file: str, name: str) -> None:
    error = known_errors()[name]
    pieces = [*fixed_pieces(error.reason), *fixed_pieces(error.remedy)]
    assert pieces
    assert [piece for piece in pieces if piece.strip() not in strings_in(file)] == []
