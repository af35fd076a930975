"""Small functions and types that generated kernels use; only those that are used are printed."""

from __future__ import annotations

from tilewright.codegen.c.prelude import Prelude
from tilewright.codegen.c.types import is_promoted, is_small_float
from tilewright.codegen.cuda.small_floats import half2_struct, half_operators, small_float_struct
from tilewright.codegen.cuda.types import cuda_type
from tilewright.ir import DType

DEVICE = "__device__ __forceinline__"

_PARTS: dict[str, str] = {
    "vec": """\
// N neighbours in memory, moved in accesses of up to 16 bytes; `Aligned` is their alignment.
template <typename T, int N, int Aligned = sizeof(T) * N>
struct __align__(Aligned) vec {
  T lanes[N];
  static __device__ vec all(T x) {
    vec v;
    #pragma unroll
    for (int lane = 0; lane < N; ++lane) v.lanes[lane] = x;
    return v;
  }
  __device__ T& operator[](int lane) { return lanes[lane]; }
  __device__ const T& operator[](int lane) const { return lanes[lane]; }
};
""",
    "bits_as": f"""\
template <typename To, typename From> {DEVICE} To bits_as(From x) {{
  static_assert(sizeof(To) == sizeof(From), "the same bits");
  return *(To*)&x;
}}
""",
    "pair": f"""\
// Lanes 2i and 2i + 1 of a vector of halves.
template <typename Vector> {DEVICE} half2& pair(Vector& vector, int i) {{
  return *(half2*)&vector[2 * i];
}}
""",
    "floordiv": f"""\
template <typename T> {DEVICE} T floordiv(T a, T b) {{
  const T q = a / b;
  return q * b != a && (a < 0) != (b < 0) ? q - 1 : q;
}}
""",
    "floormod": f"""\
template <typename T> {DEVICE} T floormod(T a, T b) {{
  const T r = a % b;
  return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}}
""",
    "shared_address": f"""\
{DEVICE} unsigned shared_address(const void* pointer) {{
  return (unsigned)__cvta_generic_to_shared(pointer);
}}
""",
    "lane_id": f"""\
{DEVICE} int lane_id() {{
  int lane;
  asm("mov.u32 %0, %laneid;" : "=r"(lane));
  return lane;
}}
""",
    "INFINITY": "#define INFINITY __int_as_float(0x7f800000)\n",
    "NAN": "#define NAN __int_as_float(0x7fffffff)\n",
}
# The smaller or larger of two floats, and NaN where an operand is.
_EXTREME = """\
{device} {T} {op}_or_nan({T} a, {T} b) {{
  asm("{op}.NaN.f32 %0, %1, %2;" : "=f"(a) : "f"(a), "f"(b));
  return a;
}}
"""
_EXTREME_BY_COMPARING = """\
{device} {T} {op}_or_nan({T} a, {T} b) {{ return a {sign} b || a != a ? a : b; }}
"""


class CudaPrelude(Prelude):
    """Collects what the kernels of a module need on GPUs of one generation."""

    def __init__(self, arch: int) -> None:
        super().__init__()
        self.arch = arch

    def part(self, name: str) -> str:
        """The name of a helper that is the same for all types."""
        if name == "pair":
            self.half2()
        self.need(name, _PARTS[name])
        return name

    def type(self, dtype: DType) -> str:
        """The name of a type, with its definition where it has one."""
        name = cuda_type(dtype)
        if is_small_float(dtype):
            kind = dtype.element_of
            self.need(name, small_float_struct(kind, name, self.arch))
        return name

    def half_arithmetic(self) -> None:
        """The operators of half."""
        self.type(DType("float16"))
        self.need("half operators", half_operators())

    def half2(self) -> None:
        """Pairs of halves with their operators."""
        self.type(DType("float16"))
        self.need("half2", half2_struct())

    def function(self, name: str, text: str) -> str:
        """A device function of its own; `text` is it without the qualifiers."""
        self.need(name, f"{DEVICE} {text}\n")
        return name

    def helper(self, template: str, dtype: DType) -> str:
        """The name of a helper for a type."""
        kind = dtype.element_of
        if template in ("min", "max"):
            return self._extreme(template, kind)
        if template in ("clz", "popcount", "wrap", "sigmoid"):
            return self._by_type(template, kind)
        self.part(template)
        return f"{template}<{cuda_type(kind)}>" if is_promoted(kind) else template

    def _extreme(self, op: str, kind: DType) -> str:
        if not kind.is_float:
            return op  # of CUDA, for all integers
        by_instruction = kind == "float32" and self.arch >= 80
        text = _EXTREME if by_instruction else _EXTREME_BY_COMPARING
        name = cuda_type(kind)
        sign = "<" if op == "min" else ">"
        self.need(f"{op}_{kind}", text.format(device=DEVICE, T=name, op=op, sign=sign))
        return f"{op}_or_nan"

    def _by_type(self, template: str, kind: DType) -> str:
        name = f"{template}_{kind}"
        wide, spelled = kind.bits > 32, cuda_type(kind)
        word = "unsigned long long" if wide else "unsigned"
        unsigned = cuda_type(DType(f"uint{max(kind.bits, 8)}"))
        suffix, spare = ("ll", 64 - kind.bits) if wide else ("", 32 - kind.bits)
        texts = {
            "clz": f"int {name}({spelled} x) {{\n"
            f"  return __clz{suffix}(({word})({unsigned})x) - {spare};\n}}",
            "popcount": f"{spelled} {name}({spelled} x) {{\n"
            f"  return __popc{suffix}(({word})({unsigned})x);\n}}",
            "wrap": f"{spelled} {name}(int x) {{\n"
            f"  return ({spelled})(({spelled})((unsigned)x << {8 - kind.bits}) >> {8 - kind.bits});"
            "\n}",
            "sigmoid": f"{spelled} {name}({spelled} x) {{ return 1 / (1 + exp(-x)); }}",
        }
        return self.function(name, texts[template])

    def bits(self, source: DType, target: DType) -> str:
        """The function that reads the bits of one type as another."""
        return f"{self.part('bits_as')}<{self.type(target)}>"
