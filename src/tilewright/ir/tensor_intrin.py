"""Tensor instructions: what they compute, in TensorIR, and how they are issued.

The description is a small program that `tensorize` looks for; the implementation is what it puts
there. Both take the same buffers; strides and offsets of the implementation may be variables.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from tilewright.errors import RegistryError
from tilewright.ir import nodes as ir
from tilewright.ir.function import PrimFunc
from tilewright.ir.patterns import walk
from tilewright.support.suggestions import did_you_mean
from tilewright.target import isa

Maker = Callable[[], tuple[PrimFunc, PrimFunc]]
ValueRanges = Mapping[str, tuple[float, float]]


@dataclass(frozen=True)
class Computes:
    """What an instruction is good for, so that it is found without being made.

    `kind` is "sum", "pack", "fill" and the like; `dtype` is that of its input, or of what it sets;
    extents it does not have are 1.
    """

    kind: str
    dtype: str
    lanes: int
    depth: int = 1
    rows: int = 1
    scope: str = "global"  # where its result is


@dataclass(frozen=True, eq=False)
class TensorIntrin:
    """A tensor instruction.

    `features` are the extensions (by their names in LLVM) that a machine needs to issue it; where
    one is missing, `build` runs the description instead. `value_ranges` says, by the name of a
    parameter of the description, for which values both agree, if not for all.
    """

    name: str
    desc: PrimFunc
    impl: PrimFunc
    features: frozenset[str] = frozenset()
    value_ranges: ValueRanges = field(default_factory=dict)

    @staticmethod
    def register(
        name: str,
        desc: PrimFunc,
        impl: PrimFunc,
        override: bool = False,
        *,
        features: Iterable[str] = (),
        value_ranges: ValueRanges | None = None,
    ) -> TensorIntrin:
        """Make an instruction known to `tensorize`.

        Both functions must agree on their buffers and, where this machine can run them, on the
        numbers that they compute.
        """
        _check_name(name, override)
        needed = _checked_features(name, features)
        intrin = TensorIntrin(name, desc, impl, needed, dict(value_ranges or {}))
        _check(intrin)
        for check in _numeric_checks:
            difference = check(intrin)
            if difference is not None:
                raise RegistryError(
                    f"tensor intrinsic {name!r} does not compute what its description says: "
                    f"{difference}; one that is exact for some values only says so with "
                    "value_ranges={parameter: (lowest, highest)}"
                )
        _registry[name] = intrin
        return intrin

    @staticmethod
    def register_maker(
        name: str,
        make: Maker,
        override: bool = False,
        *,
        features: Iterable[str] = (),
        value_ranges: ValueRanges | None = None,
        computes: Computes | None = None,
    ) -> None:
        """Register an instruction whose (description, implementation) is made when first needed.

        Its numbers are not checked; `tilewright.intrin.agreement.disagreement` does it in a test.
        """
        _check_name(name, override)
        needed = _checked_features(name, features)
        _registry[name] = _Unmade(make, needed, dict(value_ranges or {}))
        if computes is not None:
            _by_purpose.setdefault((computes.kind, computes.dtype), {})[name] = computes

    @staticmethod
    def get(name: str, allow_missing: bool = False) -> TensorIntrin | None:
        """The instruction with that name; None if it is missing and may be."""
        found = _registry.get(name)
        if isinstance(found, _Unmade):
            desc, impl = found.make()
            made = TensorIntrin(name, desc, impl, found.features, found.value_ranges)
            _check(made)
            _registry[name] = made
            return made
        if found is None and not allow_missing:
            hint = did_you_mean(name, _registry)
            raise RegistryError(
                f"no tensor intrinsic is called {name!r}{hint}; the built-in ones come with "
                "`import tilewright.intrin`, others with TensorIntrin.register"
            )
        return found


@dataclass(frozen=True)
class _Unmade:
    """What is known of an instruction before it is made."""

    make: Maker
    features: frozenset[str]
    value_ranges: ValueRanges


def _checked_features(name: str, features: Iterable[str]) -> frozenset[str]:
    if isinstance(features, str):
        raise RegistryError(
            f"tensor intrinsic {name!r}: features is a collection of names; write "
            f"features=[{features!r}]"
        )
    needed = frozenset(features)
    for feature in sorted(needed):
        isa.check_feature(feature, f"tensor intrinsic {name!r}")
    return needed


_registry: dict[str, TensorIntrin | _Unmade] = {}
_by_purpose: dict[tuple[str, str], dict[str, Computes]] = {}  # by kind and data type

# Says how an implementation disagrees with its description, or None. Nothing can be run from here:
# what builds programs installs its check.
NumericCheck = Callable[[TensorIntrin], str | None]
_numeric_checks: list[NumericCheck] = []


def install_numeric_check(check: NumericCheck) -> None:
    """Let `check` try every instruction that is registered from now on."""
    _numeric_checks[:] = [check]


def all_tensor_intrins() -> list[str]:
    """The names of all registered instructions, in order of registration."""
    return list(_registry)


def intrins_for(
    kind: str, dtype: str, features: frozenset[str] | None = None
) -> Iterator[tuple[str, Computes]]:
    """The instructions of a kind for a data type, in the order of registration.

    With `features`, only those that a machine with these extensions can issue.
    """
    for name, computes in _by_purpose.get((kind, dtype), {}).items():
        if features is None or features_of_intrin(name) <= features:
            yield name, computes


def is_made(name: str) -> bool:
    """True if the instruction has been made already, so that asking for it costs nothing."""
    return isinstance(_registry.get(name), TensorIntrin)


def features_of_intrin(name: str) -> frozenset[str]:
    """The extensions that an instruction needs, known without making it."""
    found = _registry.get(name)
    return frozenset() if found is None else found.features


def root_block_of(func: PrimFunc) -> ir.Block:
    """The root block of a description or implementation."""
    assert isinstance(func.body, ir.BlockRealize)
    return func.body.block


def description_nest(desc: PrimFunc) -> tuple[list[ir.For], ir.BlockRealize]:
    """The loops of a description, outermost first, and the one block inside them."""
    loops: list[ir.For] = []
    body = root_block_of(desc).body
    while isinstance(body, ir.For):
        loops.append(body)
        body = body.body
    if not isinstance(body, ir.BlockRealize):
        raise RegistryError(
            f"the description {desc.name!r} is not a nest of loops around one block"
        )
    return loops, body


def parameters(func: PrimFunc) -> list[ir.Buffer]:
    """The buffers that a description or implementation takes."""
    return [func.buffer_map[param] for param in func.params]


def _check_name(name: str, override: bool) -> None:
    if not override and name in _registry:
        raise RegistryError(
            f"the tensor intrinsic {name!r} is registered already; pass override=True to replace it"
        )


def _check(intrin: TensorIntrin) -> None:
    for role, func in (("description", intrin.desc), ("implementation", intrin.impl)):
        _check_form(f"the {role} of tensor intrinsic {intrin.name!r}", func)
    desc, impl = parameters(intrin.desc), parameters(intrin.impl)
    if len(desc) != len(impl):
        raise RegistryError(
            f"tensor intrinsic {intrin.name!r}: the description takes {len(desc)} buffers, the "
            f"implementation {len(impl)}"
        )
    for position, (wanted, given) in enumerate(zip(desc, impl, strict=True)):
        expected, found = _signature(wanted), _signature(given)
        if expected != found:
            raise RegistryError(
                f"tensor intrinsic {intrin.name!r}: parameter {position} is {expected} in the "
                f"description and {found} in the implementation"
            )
    _check_ranges(intrin)
    nodes = walk(root_block_of(intrin.desc).body)
    used = {node.buffer for node in nodes if isinstance(node, (ir.BufferLoad, ir.BufferStore))}
    for buffer in desc:
        if buffer not in used:
            raise RegistryError(
                f"tensor intrinsic {intrin.name!r}: the description never accesses its parameter "
                f"{buffer.name!r}, so nothing could be found to stand for it"
            )


def _check_ranges(intrin: TensorIntrin) -> None:
    by_name = {buffer.name: buffer for buffer in parameters(intrin.desc)}
    for name, (low, high) in intrin.value_ranges.items():
        if name not in by_name:
            raise RegistryError(
                f"tensor intrinsic {intrin.name!r}: value_ranges names {name!r}, which is not a "
                f"parameter of the description{did_you_mean(name, by_name)}"
            )
        dtype = by_name[name].dtype
        if not ir.min_value_of(dtype) <= low <= high <= ir.max_value_of(dtype):
            raise RegistryError(
                f"tensor intrinsic {intrin.name!r}: value_ranges says {name!r} is from {low} to "
                f"{high}, which is not a range of {dtype!s}"
            )


def _check_form(what: str, func: PrimFunc) -> None:
    for param in func.params:
        if param not in func.buffer_map:
            raise RegistryError(f"{what} takes the scalar {param.name!r}; all must be buffers")
    body = func.body
    if not isinstance(body, ir.BlockRealize) or body.block.iter_vars:
        raise RegistryError(f"the body of {what} is not a root block without iterators")


def _signature(buffer: ir.Buffer) -> str:
    """Element type, constant shape and scope, in which both functions must agree."""
    shape = ", ".join(str(e.value) if isinstance(e, ir.IntImm) else "?" for e in buffer.shape)
    return f"{buffer.dtype!s}[{shape}] in scope {buffer.scope!r}"
