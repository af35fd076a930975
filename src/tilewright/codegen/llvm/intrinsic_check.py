"""Checks of LLVM intrinsics that a program calls by name.

LLVM gives up the whole process when it cannot select an instruction for an intrinsic, so a call is
checked first: LLVM must know the name with these types, and the CPU must have the instructions.
"""

from __future__ import annotations

import re
from contextlib import closing, suppress
from functools import lru_cache

from tilewright.codegen.llvm.compiler import llvm
from tilewright.errors import CodegenError
from tilewright.target import Target, isa

# First match wins: a pattern of the name behind the architecture and the CPU feature that it needs;
# features joined by "+" are needed all, and one of those joined by "or".
_FEATURES: dict[str, tuple[tuple[str, str], ...]] = {
    "x86": (
        (r"avx512\.vpdp\w+\.(128|256)", "avxvnni or avx512vnni+avx512vl"),
        (r"avx512\.vpdp", "avx512vnni"),
        (r"avx512\.(vpmadd52)", "avx512ifma"),
        (r"avx512\.(vpshufbitqmb)", "avx512bitalg"),
        (r"avx512\.(permvar\.qi|pmultishift)", "avx512vbmi"),
        (r"avx512\.(conflict)", "avx512cd"),
        (r"avx512\.(pmadd|psad|dbpsadbw|pack|pavg|pmul|permvar\.hi|psll|psrl|psra)", "avx512bw"),
        (r"avx512bf16\.\w+\.(128|256)", "avx512bf16+avx512vl"),
        (r"avx512bf16\.", "avx512bf16"),
        (r"avx512fp16\.", "avx512fp16"),
        (r"avx512\.", "avx512f"),
        (r"avx2\.vpdp", "avxvnniint8"),
        (r"avx2\.", "avx2"),
        (r"avx\.", "avx"),
        (r"vcvtps2ph|vcvtph2ps", "f16c"),
        (r"fma\.", "fma"),
        (r"sse41\.", "sse4.1"),
        (r"sse42\.", "sse4.2"),
        (r"ssse3\.", "ssse3"),
        (r"sse3\.", "sse3"),
        (r"sse2?\.", "sse2"),
        (r"tdpbf16", "amx-bf16"),
        (r"tdpfp16", "amx-fp16"),
        (r"tdpb(ss|su|us|uu)d", "amx-int8"),
        (r"tile|ldtilecfg|sttilecfg", "amx-tile"),
        (r"aesni\.", "aes"),
        (r"pclmulqdq", "pclmul"),
        (r"bmi\.", "bmi2"),
    ),
    "aarch64": (
        (r"neon\.[su]dot\.", "dotprod"),
        (r"neon\.(usdot|[su]mmla|usmmla)\.", "i8mm"),
        (r"neon\.bf", "bf16"),
        (r"neon\.fml[as]l", "fp16fml"),
        (r"neon\.sqrdml", "rdm"),
        (r"neon\.vc(add|mla)", "complxnum"),
        (r"neon\.frint(32|64)", "fptoint"),
        (r"neon\..*f16", "fullfp16"),
        (r"neon\.", "neon"),
    ),
}
_ARCHITECTURES = frozenset(
    {"aarch64", "amdgcn", "arm", "bpf", "dx", "hexagon", "loongarch", "mips", "nvvm", "ppc", "r600"}
    | {"riscv", "s390", "spv", "ve", "wasm", "x86", "xcore"}
)


# Intrinsics of all machines that LLVM expands or calls a function for, whatever the vector is. Of
# the others it knows some that no machine has (`llvm.vscale`), or that only its own passes may use.
_EXPANDED = re.compile(
    r"llvm\.(sqrt|fma|fmuladd|floor|ceil|trunc|rint|nearbyint|round|roundeven|fabs|copysign|minnum"
    r"|maxnum|minimum|maximum|smin|smax|umin|umax|abs|ctpop|ctlz|cttz|bswap|bitreverse|fshl|fshr"
    r"|[su](add|sub)\.sat|exp|exp2|log|log2|log10|pow|sin|cos|prefetch|assume|vector\.reduce\.\w+"
    r"|masked\.(load|store))(\.[\w.]+)?"
)


def is_always_selected(symbol: str, declaration: str) -> bool:
    """True where LLVM is known to compile a call that was checked, instead of giving up."""
    if symbol.split(".")[1] in _FEATURES:
        return True
    has_small_floats = "half" in declaration or "bfloat" in declaration
    return _EXPANDED.fullmatch(symbol) is not None and not has_small_floats


def check_intrinsic(symbol: str, declaration: str, target: Target) -> None:
    """Raise unless LLVM can compile a call of `symbol`, declared like this, for the target."""
    if not symbol.startswith("llvm."):
        raise CodegenError(f"{symbol!r} is not an LLVM intrinsic: their names start with 'llvm.'")
    _check_feature(symbol, target)
    if not _is_known(declaration):
        raise CodegenError(f"LLVM has no intrinsic {symbol!r} of this type: `{declaration}`")


def _check_feature(symbol: str, target: Target) -> None:
    family = symbol.split(".")[1]
    if family not in _ARCHITECTURES:
        return
    triple = target.cpu.triple
    here = "x86" if isa.is_x86(triple) else "aarch64" if isa.is_aarch64(triple) else ""
    if family != here:
        raise CodegenError(f"{symbol!r} belongs to another architecture than that of {target.mcpu}")
    name = symbol.removeprefix(f"llvm.{family}.")
    feature = next((found for form, found in _FEATURES[family] if re.match(form, name)), None)
    if feature is None:
        raise CodegenError(f"{symbol!r}: it is not known which CPU feature this intrinsic needs")
    if not any(target.features.issuperset(needed.split("+")) for needed in feature.split(" or ")):
        raise CodegenError(
            f"{symbol!r} needs the CPU feature {feature!r}, which {target.mcpu} does not have"
        )


@lru_cache(maxsize=1024)
def _is_known(declaration: str) -> bool:
    """LLVM attaches attributes to every intrinsic that it recognises while it reads it."""
    with (
        suppress(RuntimeError),
        closing(llvm().create_context()) as context,
        closing(llvm().parse_assembly(declaration + "\n", context)) as module,
    ):
        return any("attributes #" in line for line in str(module).splitlines())
    return False
