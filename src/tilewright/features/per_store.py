"""`PerStoreFeature`: a row of numbers for each buffer that a candidate writes."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from tilewright.errors import TuneError
from tilewright.features.base import FeatureExtractor, FeatureMatrix, Matrix, feature_extractors
from tilewright.features.columns import Layout, RowMaker, names
from tilewright.features.stores import StoreReader
from tilewright.ir import Block, IRModule, PrimFunc, nodes_of
from tilewright.nest.reading import Reading, read
from tilewright.records import MeasureCandidate
from tilewright.space.base import TaskContext


@feature_extractors.register("per-store-feature")
class PerStoreFeature(FeatureExtractor):
    """Features of loop nests and memory accesses, the last store of each buffer a row.

    Columns and their meaning are those of TVM: operations (0-15), loops of each kind (16-48),
    GPU threads (49-56), `buffers_per_store` times 18 columns on accessed buffers, a curve of
    arithmetic intensity, allocation and loop counts; `extract_workload` appends 8 flags.
    """

    def __init__(
        self,
        buffers_per_store: int = 5,
        arith_intensity_curve_num_samples: int = 10,
        cache_line_bytes: int = 64,
        extract_workload: bool = False,
    ) -> None:
        self.buffers_per_store = buffers_per_store
        self.arith_intensity_curve_num_samples = arith_intensity_curve_num_samples
        self.cache_line_bytes = cache_line_bytes
        for name, value in vars(self).items():
            if value < 1:
                raise TuneError(f"PerStoreFeature: {name} must be at least 1, got {value}")
        self.extract_workload = extract_workload

    @property
    def column_names(self) -> list[str]:
        """What each column holds."""
        own = names(self.buffers_per_store, self.arith_intensity_curve_num_samples)
        return own + [f"workload_{number}" for number in range(_WIDTH * self.extract_workload)]

    @property
    def feature_vector_length(self) -> int:
        """The number of columns."""
        return len(self.column_names)

    def extract_from(
        self, context: TaskContext, candidates: Sequence[MeasureCandidate]
    ) -> list[Matrix]:
        target = context.target
        is_gpu = target is not None and target.kind.name == "cuda"
        embedding: list[float] = []
        if self.extract_workload:
            mod = context.mod
            embedding = [0.0] * _WIDTH if mod is None else workload_embedding(mod)
        return [
            self.extract(candidate.sch.mod, is_gpu, embedding, candidate.reading_of)
            for candidate in candidates
        ]

    def extract(
        self,
        mod: IRModule,
        is_gpu: bool,
        embedding: Sequence[float] = (),
        reading_of: Callable[[PrimFunc], Reading] = read,
    ) -> Matrix:
        """The rows of one scheduled module."""
        layout = Layout(
            self.buffers_per_store,
            self.arith_intensity_curve_num_samples,
            self.cache_line_bytes,
            is_gpu,
        )
        rows = []
        for func in mod.functions.values():
            found = StoreReader(reading_of(func))
            maker = RowMaker(layout, found)
            last = {store.buffer: maker.row(store) for store in found.stores}
            rows += [[*row, *embedding] for row in last.values()]
        if not rows:
            return np.zeros((0, self.feature_vector_length)).view(FeatureMatrix)
        raw = np.array(rows, dtype=np.float64)
        scaled: Matrix = np.log2(np.abs(raw) + 1.0)
        return scaled.view(FeatureMatrix)


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
_WIDTH = len(_FLAGS)


def workload_embedding(mod: IRModule) -> list[float]:
    """Which known operators the blocks of a module are named after."""
    flags = [0.0] * _WIDTH
    for func in mod.functions.values():
        for block in nodes_of(func.body, Block):
            name = block.name_hint.lower()
            for place, words in enumerate(_FLAGS):
                if any(word in name for word in words):
                    flags[place] = 1.0
                    break
    return flags
