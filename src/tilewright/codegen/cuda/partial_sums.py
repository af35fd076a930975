"""Device functions of blocks that hand sums to each other by way of memory.

Whoever finds a flag also finds all that was stored before it was put there: by the same thread, or
by others that met it at a barrier in between.
"""

from __future__ import annotations

# A number that memory holds by chance once in 2^64 times.
FLAG = 0x9C5AE3D17B46F82D
_MOST_TRIES = 4000000  # a few seconds: then the kernel ends with an error
_SUMS = {"f32": ("float", "f"), "s32": ("int", "r")}

_FLAGS = {
    "tw_put_flag": f"""\
__device__ __forceinline__ void tw_put_flag(unsigned long long* flag) {{
  asm volatile("st.release.gpu.global.b64 [%0], %1;" :: "l"(flag), "l"({FLAG:#x}ull) : "memory");
}}
""",
    "tw_take_flag": f"""\
__device__ __forceinline__ void tw_take_flag(unsigned long long* flag) {{
  #pragma unroll 1
  for (int tries = 0; tries < {_MOST_TRIES}; ++tries) {{
    unsigned long long found;
    asm volatile("ld.acquire.gpu.global.b64 %0, [%1];" : "=l"(found) : "l"(flag) : "memory");
    if (found == {FLAG:#x}ull) {{
      asm volatile("st.relaxed.gpu.global.b64 [%0], %1;" :: "l"(flag), "l"(0ull) : "memory");
      return;
    }}
  }}
  asm volatile("trap;");
}}
""",
}


def partial_sum_function(name: str) -> str | None:
    """The text of a function; None if it is not one of ours."""
    if name in _FLAGS:
        return _FLAGS[name]
    action, _, kind = name.rpartition("_")
    if kind not in _SUMS or action not in ("tw_give_sums", "tw_take_sums"):
        return None
    ctype, letter = _SUMS[kind]
    if action == "tw_give_sums":
        return f"""\
__device__ __forceinline__ void {name}(
    {ctype}* to, {ctype} a, {ctype} b, {ctype} c, {ctype} d) {{
  asm volatile("st.global.v4.b32 [%0], {{%1, %2, %3, %4}};"
      :: "l"(to), "{letter}"(a), "{letter}"(b), "{letter}"(c), "{letter}"(d) : "memory");
}}
"""
    # Past the first cache, which may hold what was there before.
    results = ", ".join(f'"={letter}"({each})' for each in "abcd")
    return f"""\
__device__ __forceinline__ void {name}({ctype}* sums, const {ctype}* from) {{
  {ctype} a, b, c, d;
  asm volatile("ld.relaxed.gpu.global.v4.b32 {{%0, %1, %2, %3}}, [%4];"
      : {results} : "l"(from));
  sums[0] += a;
  sums[1] += b;
  sums[2] += c;
  sums[3] += d;
}}
"""
