"""Default members of a space for each kind of target: rules, post-processors, mutators.

All three follow from one word, the kind of the target (`kind_of_target`). The lists are data: names
of registered members and their options; members are made when a task asks for them.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

# Members register themselves when they are imported.
import tilewright.space.mutators
import tilewright.space.postprocs
import tilewright.space.rules
import tilewright.space.tvm.winograd  # noqa: F401
from tilewright.errors import TuneError
from tilewright.ir.tensor_intrin import TensorIntrin
from tilewright.space import base
from tilewright.space.tvm.tensor_core_fragments import wmma_group
from tilewright.support.suggestions import did_you_mean
from tilewright.target import Target

logger = logging.getLogger(__name__)

FROM_TARGET = "from-target"


@dataclass(frozen=True)
class MemberSpec:
    """A member by its registered name, and the options it is made with."""

    name: str
    options: Mapping[str, Any] = field(default_factory=dict)


def _spec(name: str, **options: object) -> MemberSpec:
    return MemberSpec(name, MappingProxyType(options))


# --- which lists a target takes -----------------------------------------------------------------

# The first of these whose feature an LLVM target has; the instructions of each need that feature.
_LLVM_KINDS = (
    ("vnni", "avx512vnni"),
    ("avx512", "avx512bw"),
    ("dotprod", "dotprod"),
    ("asimd", "neon"),
)
_TENSOR_CORE_ARCH = 75
_MMA_ARCH = 80  # that has `mma` of 16x8x16 and `cp.async`


def kind_of_target(target: Target) -> str:
    """The word that stands for the default lists of a target."""
    match target.kind.name:
        case "llvm":
            features = target.features
            return next((kind for kind, feature in _LLVM_KINDS if feature in features), "llvm")
        case "cuda":
            return "cuda-tensorcore" if _arch_of(target) >= _TENSOR_CORE_ARCH else "cuda"
        case kind:  # a CPU backend of somebody else's gets what every CPU can do
            return "c" if target.is_cpu else kind


def kind_of_default_space(target: Target) -> str:
    """The same for a space that need not be TVM's."""
    is_mma = target.kind.name == "cuda" and _arch_of(target) >= _MMA_ARCH
    return "cuda-mma" if is_mma else kind_of_target(target)


def _arch_of(target: Target) -> int:
    digits = "".join(c for c in str(target.attrs.get("arch", "")) if c.isdigit())
    return int(digits or 0)


# --- schedule rules -----------------------------------------------------------------------------


def _cpu_tiling(max_innermost_factor: int) -> dict[str, object]:
    return {
        "structure": "SSRSRS",
        "max_innermost_factor": max_innermost_factor,
        "reuse_write": {"req": "may", "levels": [1, 2], "scope": "global"},
    }


def _with_intrin(name: str, max_innermost_factor: int = 64) -> MemberSpec:
    options = _cpu_tiling(max_innermost_factor)
    return _spec("MultiLevelTilingWithIntrin", intrin_name=name, **options)


_CUSTOM = _spec("ApplyCustomRule")
_CONSTANTS = _spec("InlineConstantScalars")
_COMPUTE_LOCATION = _spec("RandomComputeLocation")
_AUTO_INLINE_CPU = _spec(
    "AutoInline",
    into_producer=False,
    into_consumer=True,
    inline_const_tensor=True,
    disallow_if_then_else=True,
    require_injective=True,
    require_ordered=True,
    disallow_op=["tir.exp"],
)
_AUTO_INLINE_GPU = _spec(
    "AutoInline",
    into_producer=True,
    into_consumer=True,
    inline_const_tensor=True,
    disallow_if_then_else=False,
    require_injective=False,
    require_ordered=False,
    disallow_op=[],
)
_TILING_CPU = _spec("MultiLevelTiling", **_cpu_tiling(64))
_CPU_HEAD = (_CUSTOM, _CONSTANTS, _AUTO_INLINE_CPU)
_CPU_RFACTOR = _spec("AddRFactor", max_jobs_per_core=16, max_innermost_factor=64)


def _annotations(jobs: int, lanes: int, steps: Sequence[int]) -> MemberSpec:
    return _spec(
        "ParallelizeVectorizeUnroll",
        max_jobs_per_core=jobs,
        max_vectorize_extent=lanes,
        unroll_max_steps=list(steps),
        unroll_explicit=True,
    )


_CPU_TAIL = (_TILING_CPU, _annotations(16, 64, (0, 16, 64, 512)), _COMPUTE_LOCATION)


def _x86(intrin: str) -> tuple[MemberSpec, ...]:
    return (*_CPU_HEAD, _CPU_RFACTOR, _with_intrin(intrin), *_CPU_TAIL)


def _arm(*intrins: str) -> tuple[MemberSpec, ...]:
    rfactor = _spec("AddRFactor", max_jobs_per_core=8, max_innermost_factor=32)
    tiling = _spec("MultiLevelTiling", **_cpu_tiling(32))
    steps = _annotations(8, 32, (0, 8, 32, 256))
    around = (_with_intrin(name, 32) for name in intrins)
    return (*_CPU_HEAD, rfactor, *around, tiling, steps, _COMPUTE_LOCATION)


_CUDA = (
    _spec(
        "MultiLevelTiling",
        structure="SSSRRSRS",
        tile_binds=["blockIdx.x", "vthread.x", "threadIdx.x"],
        max_innermost_factor=64,
        vector_load_lens=[1, 2, 3, 4, 8, 16],
        reuse_read={"req": "must", "levels": [4], "scope": "shared"},
        reuse_write={"req": "must", "levels": [3], "scope": "local"},
    ),
    _CONSTANTS,
    _AUTO_INLINE_GPU,
    _spec("CrossThreadReduction", thread_extents=[4, 8, 16, 32, 64, 128, 256, 512]),
    _annotations(-1, -1, (0, 16, 64, 512, 1024)),
    _spec("AutoBind", max_threadblocks=256, thread_extents=[32, 64, 128, 256, 512, 1024]),
)


WMMA_GROUPS = tuple(
    MappingProxyType(wmma_group(in_dtype, out_dtype, trans_b))
    for in_dtype, out_dtype in (("f16", "f32"), ("f16", "f16"), ("s8", "s32"))
    for trans_b in (False, True)
)
_TENSOR_CORE = _spec(
    "MultiLevelTilingTensorCore",
    intrin_groups=list(WMMA_GROUPS),
    structure="SSSRRSRS",
    tile_binds=["blockIdx.y", "blockIdx.x", "threadIdx.y"],
    max_innermost_factor=4,
    vector_load_lens=[1, 2, 3, 4, 8, 16],
    reuse_read={"req": "must", "levels": [4], "scope": "shared.dyn"},
    reuse_write={"req": "must", "levels": [2], "scope": "shared.dyn"},
    use_software_pipeline=False,
)


def _mma_group(out_dtype: str, trans_b: bool) -> Mapping[str, str]:
    """The instructions that do the same for float16 through `ldmatrix` and `mma`."""
    trans = "_trans" if trans_b else ""
    return MappingProxyType(
        {
            "init": f"mma_fill_16x16_{out_dtype}",
            "load_a": "mma.ldmatrix_16x16_a_dyn",
            "load_b": f"mma.ldmatrix_16x16_b{trans}_dyn",
            "compute": f"mma_f16f16{out_dtype}{trans}",
            "store": f"mma_store_16x16_{out_dtype}_shared_dyn_",
        }
    )


MMA_GROUPS = tuple(_mma_group(out, trans) for out in ("f32", "f16") for trans in (False, True))
# Rows in shared memory are copied by `cp.async` and free of bank conflicts.
_MMA = MemberSpec(
    "MultiLevelTilingTensorCore",
    {
        **_TENSOR_CORE.options,
        "intrin_groups": [*MMA_GROUPS, *(g for g in WMMA_GROUPS if "_s8" in g["load_a"])],
        "use_software_pipeline": True,
        "permuted_layout": True,
    },
)
_WIDE_VECTOR = _spec(
    "MultiLevelTilingWideVector",
    structure="SRSRS",
    vector_length_in_bits=1024,
    max_innermost_factor=128,
    reuse_write={"req": "may", "levels": [1, 2], "scope": "global"},
)


_SIGNS = ("s8s8", "u8s8", "s8u8", "u8u8")
# Instructions that multiply short vectors, in the order in which they are preferred. Those of other
# processors, and those that saturate, are not among them.
KERNEL_INTRINSICS = (
    *(f"amx_dot_32x32x64_{signs}" for signs in _SIGNS),
    *(f"amx_dot_16x16x64_{signs}" for signs in _SIGNS),
    "amx_dot_32x32x32_bf16",
    "amx_dot_16x16x32_bf16",
    "dot_16x4_vnni_local",
    "dot_16x4_vnni_s8u8_local",
    "dot_8x4_avxvnni_local",
    "dot_16x4_avx512_exact_local",
    "dot_8x4_avx2_exact_local",
    "dot_16x2_bf16_local",
)

# Rules of our own: kernels as an expert would write them.
_KERNELS = (
    _CUSTOM,
    _CONSTANTS,
    _spec("WinogradTiling"),
    _spec("HeadAttention"),
    _spec("WideAccumulators"),
    MemberSpec("AutoInline", {**_AUTO_INLINE_CPU.options, "count_recomputation": True}),
    _spec("FuseRows"),
    _spec("HaloTiling"),
    _spec("TensorTiling", intrin_names=KERNEL_INTRINSICS),
    _spec("RegisterTiling"),
    _spec("ReduceInVectors"),
    _spec("ReduceColumns"),
    _spec("IndependentSlices"),
    _spec("SpatialPass"),
)

_WIDER: Mapping[str, tuple[MemberSpec, ...]] = {
    "WinogradTiling": (_spec("InWinogradTiles"), _spec("WinogradTiling")),
    "FuseRows": (_spec("FuseRows", wide=True),),
    "RegisterTiling": (_spec("SeparatePhases"), _spec("RegisterTiling", wide=True)),
}
# The same rules, with more to choose from: for searches that have seen what is above.
_WIDER_KERNELS = tuple(member for spec in _KERNELS for member in _WIDER.get(spec.name, (spec,)))

# The same for GPUs of NVIDIA.
_CUDA_KERNELS = (
    _CUSTOM,
    _CONSTANTS,
    _spec("WarpGroupTiling"),
    _spec("ThreadTiling"),
    _spec("RowKernels"),
    _spec("LoopKernels"),
    _spec("ElementKernels"),
)

SCHEDULE_RULES: Mapping[str, tuple[MemberSpec, ...]] = MappingProxyType(
    {
        "kernels": _KERNELS,
        "wider-kernels": _WIDER_KERNELS,
        "cuda-kernels": _CUDA_KERNELS,
        "llvm": (*_CPU_HEAD, _CPU_RFACTOR, *_CPU_TAIL),
        "vnni": _x86("dot_16x4_vnni"),
        "avx512": _x86("dot_16x4_avx512"),
        "dotprod": _arm("dot_4x4_i8i8s32_sdot", "dot_4x4_u8u8u32_udot", "dot_4x4_u8u8i32_hdot"),
        "asimd": _arm("dot_4x4_i8i8s32_neon"),
        "c": (*_CPU_HEAD, _TILING_CPU),
        "cuda": (_CUSTOM, *_CUDA),
        "cuda-tensorcore": (_CUSTOM, _TENSOR_CORE, *_CUDA),
        "cuda-mma": (_CUSTOM, _MMA, *_CUDA),
        "vta": (_CUSTOM, _spec("ScratchpadTiling")),
        "hexagon": (*_CPU_HEAD, _WIDE_VECTOR, _annotations(16, 128, (0, 16, 64, 512))),
    }
)

# --- post-processors ----------------------------------------------------------------------------

_STATIC_LOOPS = _spec("DisallowDynamicLoop")
_ANNOTATED_LOOPS = _spec("RewriteParallelVectorizeUnroll")
_REDUCTIONS = _spec("RewriteReductionBlock")
_LAYOUTS = _spec("RewriteLayout")
_PLAIN = (_STATIC_LOOPS, _ANNOTATED_LOOPS, _REDUCTIONS)
_INTRIN_CPU = (*_PLAIN, _spec("RewriteTensorize", vectorize_init_loop=True), _LAYOUTS)
_GPU_LOOPS = (
    _STATIC_LOOPS,
    _spec("RewriteCooperativeFetch"),
    _spec("RewriteUnboundBlock", max_threadblocks=256),
    _ANNOTATED_LOOPS,
    _REDUCTIONS,
)
_GPU = (*_GPU_LOOPS, _spec("VerifyGPUCode"))
_TENSORIZE = _spec("RewriteTensorize", vectorize_init_loop=False)

POSTPROCS: Mapping[str, tuple[MemberSpec, ...]] = MappingProxyType(
    {
        **dict.fromkeys(("kernels", "wider-kernels"), (_STATIC_LOOPS, _REDUCTIONS)),
        "cuda-kernels": (_STATIC_LOOPS, _spec("VerifyTileKernels")),
        "llvm": (*_PLAIN, _LAYOUTS),
        **dict.fromkeys(("vnni", "avx512", "dotprod", "asimd"), _INTRIN_CPU),
        "c": _PLAIN,
        "cuda": _GPU,
        "cuda-tensorcore": (*_GPU, _TENSORIZE),
        "cuda-mma": (*_GPU_LOOPS, _spec("VerifyGPUCode", all_shared_memory=True), _TENSORIZE),
        "vta": (_STATIC_LOOPS, _spec("VerifyScratchpads")),
        "hexagon": (*_PLAIN, _LAYOUTS, _spec("VerifyVTCMLimit")),
    }
)

# --- mutators -----------------------------------------------------------------------------------

_TILE_SIZE = (_spec("MutateTileSize"), 0.9)
_MUTATE_LOCATION = (_spec("MutateComputeLocation"), 0.05)
_MUTATE_CPU = (
    _TILE_SIZE,
    _MUTATE_LOCATION,
    (_spec("MutateUnroll"), 0.03),
    (_spec("MutateParallel", max_jobs_per_core=16), 0.02),
)
_MUTATE_GPU = (_TILE_SIZE, (_spec("MutateUnroll"), 0.08), (_spec("MutateThreadBinding"), 0.02))

MUTATORS: Mapping[str, tuple[tuple[MemberSpec, float], ...]] = MappingProxyType(
    {
        **dict.fromkeys(("llvm", "vnni", "avx512", "dotprod", "asimd", "hexagon"), _MUTATE_CPU),
        **dict.fromkeys(
            ("kernels", "wider-kernels", "cuda-kernels"), ((_spec("MutateCategorical"), 1.0),)
        ),
        "c": _MUTATE_CPU[:-1],
        "vta": ((_spec("MutateTileSize"), 1.0),),
        **dict.fromkeys(("cuda", "cuda-tensorcore", "cuda-mma"), _MUTATE_GPU),
    }
)

# --- members from the lists ---------------------------------------------------------------------


def create_schedule_rules(kind: str) -> list[base.ScheduleRule]:
    """The default rules of a kind, less those whose tensor instruction is not registered."""
    specs = map(_with_known_intrins, _listed(SCHEDULE_RULES, kind))
    return [base.schedule_rules.create(s.name, **s.options) for s in specs if _has_intrin(s)]


def create_postprocs(kind: str) -> list[base.Postproc]:
    """The default post-processors of a kind."""
    return [base.postprocs.create(spec.name, **spec.options) for spec in _listed(POSTPROCS, kind)]


def create_mutators(kind: str) -> dict[base.Mutator, float]:
    """The default mutators of a kind and how likely each is chosen."""
    return {
        base.mutators.create(spec.name, **spec.options): probability
        for spec, probability in _listed(MUTATORS, kind)
    }


def _listed(table: Mapping[str, Any], kind: str) -> Any:
    if kind not in table:
        raise TuneError(f"there are no default members for {kind!r}{did_you_mean(kind, table)}")
    return table[kind]


def _with_known_intrins(spec: MemberSpec) -> MemberSpec:
    """A rule that takes one of several instructions goes by those that are registered."""
    if (names := spec.options.get("intrin_names")) is None:
        return spec
    known = tuple(given for given in names if _is_known(given))
    return MemberSpec(spec.name, {**spec.options, "intrin_names": known})


def _is_known(given: str | Mapping[str, str]) -> bool:
    names = [given] if isinstance(given, str) else given.values()
    return all(TensorIntrin.get(name, allow_missing=True) is not None for name in names)


def _has_intrin(spec: MemberSpec) -> bool:
    """True when all tensor instructions that a rule is about are registered."""
    groups = spec.options.get("intrin_groups", ())
    wanted = [
        spec.options.get("intrin_name"),
        *(name for group in groups for name in group.values()),
    ]
    if missing := [name for name in wanted if name is not None and not _is_known(name)]:
        logger.warning(
            "the tensor intrinsic %r is not registered, so no blocks are tiled for it; the "
            "built-in ones come with `import tilewright.intrin`",
            missing[0],
        )
    return not missing


base.default_makers.update(
    {
        "schedule rule": create_schedule_rules,
        "post-processor": create_postprocs,
        "mutator": create_mutators,
    }
)
