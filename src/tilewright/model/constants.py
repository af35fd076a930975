"""Constants of a graph after its model was compiled: kernels have most of them in packed form."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from tilewright.errors import GraphError
from tilewright.graph.graph import Array, GraphValue


class KeptConstants(Mapping[GraphValue, Array]):
    """All constants by name and type; the numbers of those that are not kept are refused."""

    def __init__(self, values: Collection[GraphValue], kept: Mapping[GraphValue, Array]) -> None:
        self._values = dict.fromkeys(values)
        self._kept = dict(kept)

    def __getitem__(self, value: GraphValue) -> Array:
        if value in self._values and value not in self._kept:
            raise GraphError(
                f"the model has constant {value.name} in packed form only; take it from the graph "
                "that was compiled"
            )
        return self._kept[value]

    def __iter__(self) -> Iterator[GraphValue]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __contains__(self, value: object) -> bool:
        return value in self._values
