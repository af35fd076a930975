"""The LLVM passes that run over a kernel, as a value that prints and parses back.

The default is chosen by measurement: see docs/design/0002-llvm-pass-pipeline.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from tilewright.errors import CodegenError

# LLVM's own name of a pass -> the method of llvmlite's pass manager that appends it.
PASS_METHODS: Mapping[str, str] = MappingProxyType(
    {
        "adce": "add_aggressive_dce_pass",
        "aggressive-instcombine": "add_aggressive_instcombine_pass",
        "always-inline": "add_always_inliner_pass",
        "constmerge": "add_constant_merge_pass",
        "dce": "add_dead_code_elimination_pass",
        "dse": "add_dead_store_elimination_pass",
        "globaldce": "add_global_dead_code_eliminate_pass",
        "globalopt": "add_global_opt_pass",
        "instcombine": "add_instruction_combine_pass",
        "jump-threading": "add_jump_threading_pass",
        "lcssa": "add_lcssa_pass",
        "loop-deletion": "add_loop_deletion_pass",
        "loop-reduce": "add_loop_strength_reduce_pass",
        "loop-rotate": "add_loop_rotate_pass",
        "loop-simplify": "add_loop_simplify_pass",
        "loop-unroll": "add_loop_unroll_pass",
        "memcpyopt": "add_mem_copy_opt_pass",
        "newgvn": "add_new_gvn_pass",
        "reassociate": "add_reassociate_pass",
        "sccp": "add_sccp_pass",
        "simplifycfg": "add_simplify_cfg_pass",
        "sink": "add_sinking_pass",
        "sroa": "add_sroa_pass",
    }
)

# LLVM's ready-made pipelines -> their speed level. "novec" leaves both auto-vectorisers and the
# unroller out: our kernels arrive vectorised and unrolled.
DEFAULT_PIPELINES: Mapping[str, tuple[int, bool]] = MappingProxyType(
    {f"default<O{level}>": (level, True) for level in (1, 2, 3)}
    | {f"default<O{level},novec>": (level, False) for level in (1, 2, 3)}
)

# LLVM's clean-up of one function (no module passes, no vectorisers) -> its speed level.
SIMPLIFY_PIPELINES: Mapping[str, int] = MappingProxyType(
    {"simplify<O1>": 1, "simplify<O2>": 2, "simplify<O3>": 3}
)

MAX_CODEGEN_LEVEL = 3


@dataclass(frozen=True)
class OptimizerPipeline:
    """An ordered list of LLVM passes and the optimisation level of instruction selection."""

    name: str
    steps: tuple[str, ...]
    codegen_level: int = 2

    def __post_init__(self) -> None:
        known_steps = {*PASS_METHODS, *DEFAULT_PIPELINES, *SIMPLIFY_PIPELINES}
        for step in self.steps:
            if step not in known_steps:
                known = ", ".join(sorted(known_steps))
                raise CodegenError(
                    f"pass pipeline {self.name!r}: unknown pass {step!r}; use one of {known}"
                )
        if not 0 <= self.codegen_level <= MAX_CODEGEN_LEVEL:
            raise CodegenError(
                f"pass pipeline {self.name!r}: codegen_level must be 0 to {MAX_CODEGEN_LEVEL},"
                f" got {self.codegen_level}"
            )

    def __str__(self) -> str:
        return f"{self.name}: {' '.join(self.steps)} | codegen O{self.codegen_level}"

    @classmethod
    def parse(cls, text: str) -> OptimizerPipeline:
        """Read back what ``str`` wrote."""
        name, colon, rest = text.partition(": ")
        steps, bar, level = rest.rpartition("| codegen O")
        if not colon or not bar or not level.isdigit():
            raise CodegenError(
                f"cannot read pass pipeline {text!r}; expected 'name: pass pass | codegen O2'"
            )
        return cls(name, tuple(steps.split()), int(level))


UNOPTIMISED = OptimizerPipeline("none", (), codegen_level=1)

# Helpers that the code generator marks `alwaysinline` disappear first.
DEFAULT_PIPELINE = OptimizerPipeline("kernel", ("always-inline", "simplify<O1>"))
