"""Device functions for Hopper that generated kernels call: barriers, bulk copies, `wgmma`.

Each is one instruction, or a few, as inline PTX. A kernel's text holds those that it calls.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from tilewright.codegen.cuda.partial_sums import partial_sum_function

# A wait that lasts longer than about a second is a mistake: the kernel ends with an error then.
_MOST_TRIES = 300000

MAP_TYPE = "struct __align__(64) tw_tensor_map { unsigned long long words[16]; };\n"


class _Plain(NamedTuple):
    """A function whose body is one instruction; operands are its parameters in order."""

    instruction: str
    parameters: str = ""
    returns: str = "void"


_WORD = "unsigned int"
_PLAIN = {
    "tw_barrier_start": _Plain(
        "mbarrier.init.shared::cta.b64 [%0], %1;", f"{_WORD} barrier, {_WORD} arrivals"
    ),
    "tw_barrier_expect": _Plain(
        "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;", f"{_WORD} barrier, {_WORD} bytes"
    ),
    "tw_barrier_arrive": _Plain("mbarrier.arrive.shared::cta.b64 _, [%0];", f"{_WORD} barrier"),
    "tw_fence_barriers": _Plain("fence.mbarrier_init.release.cluster;"),
    "tw_fence_async_shared": _Plain("fence.proxy.async.shared::cta;"),
    "tw_warp_sync": _Plain("bar.warp.sync 0xffffffff;"),
    "tw_named_barrier": _Plain("bar.sync %0, %1;", "int number, int threads"),
    "tw_cluster_barrier": _Plain("barrier.cluster.arrive.release;\\nbarrier.cluster.wait.acquire;"),
    "tw_prefetch_map": _Plain("prefetch.tensormap [%0];", "const tw_tensor_map& map"),
    "tw_wait_for_previous_grid": _Plain("griddepcontrol.wait;"),
    "tw_launch_next_grid": _Plain("griddepcontrol.launch_dependents;"),
    "tw_wgmma_fence": _Plain("wgmma.fence.sync.aligned;"),
    "tw_wgmma_commit": _Plain("wgmma.commit_group.sync.aligned;"),
    "tw_copy_commit": _Plain("cp.async.commit_group;"),
    "tw_bulk_commit": _Plain("cp.async.bulk.commit_group;"),
    "tw_load_windows": _Plain(
        "cp.async.bulk.tensor.4d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes "
        "[%0], [%1, {%3, %4, %5, %6}], [%2], {%7, %8};",
        f"{_WORD} to, const tw_tensor_map& map, {_WORD} barrier, int c, int w, int h, int n, "
        "short s, short r",
    ),
    "tw_store_matrices": _Plain(
        "stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};",
        f"{_WORD} to, {_WORD} a, {_WORD} b, {_WORD} c, {_WORD} d",
    ),
    "tw_store_words": _Plain(
        "st.shared.v4.b32 [%0], {%1, %2, %3, %4};",
        f"{_WORD} to, {_WORD} a, {_WORD} b, {_WORD} c, {_WORD} d",
    ),
    "tw_store_pair_f32": _Plain(
        "st.shared.v2.f32 [%0], {%1, %2};", f"{_WORD} to, float a, float b"
    ),
    "tw_store_pair_s32": _Plain("st.shared.v2.b32 [%0], {%1, %2};", f"{_WORD} to, int a, int b"),
    "tw_tf32": _Plain("cvt.rna.tf32.f32 %0, %1;", "float x", _WORD),
    "tw_pack_f16": _Plain("cvt.rn.f16x2.f32 %0, %2, %1;", "float low, float high", _WORD),
    "tw_pack_bf16": _Plain("cvt.rn.bf16x2.f32 %0, %2, %1;", "float low, float high", _WORD),
}

_TEXTS = {
    "tw_shared_address": """\
__device__ __forceinline__ unsigned int tw_shared_address(const void* place) {
  return (unsigned int)__cvta_generic_to_shared(place);
}
""",
    # The same in all threads of a warp, which the compiler could not know otherwise.
    "tw_warp_of_thread": """\
__device__ __forceinline__ int tw_warp_of_thread(int thread) {
  return __shfl_sync(0xffffffffu, thread / 32, 0);
}
""",
    # The same number in a register of its own: the compiler must not leave the addition out.
    "tw_settled": """\
__device__ __forceinline__ float tw_settled(float x) {
  asm("add.f32 %0, %0, 0f00000000;" : "+f"(x));
  return x;
}
""",
    # A number of which the compiler knows nothing.
    "tw_kept": """\
__device__ __forceinline__ int tw_kept(int x) {
  asm("" : "+r"(x));
  return x;
}
""",
    # `erf` for results of 16 bits, exact to 3e-5 of it, by multiplications and additions alone.
    "tw_short_erf": """\
__device__ __forceinline__ float tw_short_erf(float x) {
  asm("min.NaN.f32 %0, %0, 0f40400000;\\nmax.NaN.f32 %0, %0, 0fC0400000;" : "+f"(x));  // 3, -3
  const float t = x * x;
  float y = 4.5173717e-08f;
  y = fmaf(y, t, -2.1190478e-06f);
  y = fmaf(y, t, 4.3894797e-05f);
  y = fmaf(y, t, -5.3565978e-04f);
  y = fmaf(y, t, 4.3583144e-03f);
  y = fmaf(y, t, -2.5454991e-02f);
  y = fmaf(y, t, 1.1162393e-01f);
  y = fmaf(y, t, -3.7570354e-01f);
  return x * fmaf(y, t, 1.1283532f);
}
""",
    "tw_barrier_wait": f"""\
__device__ __forceinline__ void tw_barrier_wait(unsigned int barrier, unsigned int parity) {{
  #pragma unroll 1
  for (int tries = 0; tries < {_MOST_TRIES}; ++tries) {{
    unsigned int done;
    asm volatile(
        "{{\\n.reg .pred p;\\nmbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\\n"
        "selp.u32 %0, 1, 0, p;\\n}}" : "=r"(done) : "r"(barrier), "r"(parity) : "memory");
    if (done) return;
  }}
  asm volatile("trap;");
}}
""",
    "tw_matrix_descriptor": """\
__device__ __forceinline__ unsigned long long tw_matrix_descriptor(
    unsigned int address, unsigned int leading, unsigned int stride, unsigned int mode) {
  return (unsigned long long)((address & 0x3ffff) >> 4)
      | (unsigned long long)(leading >> 4) << 16
      | (unsigned long long)(stride >> 4) << 32 | (unsigned long long)mode << 62;
}
""",
}

_LETTERS = {
    "unsigned int": "r",
    "int": "r",
    "short": "h",
    "float": "f",
    "const tw_tensor_map&": "l",
}
_ACCUMULATORS = {"f32": ("float", "f"), "s32": ("int", "r")}
_WGMMA = re.compile(r"tw_wgmma_(m64n(\d+)k\d+)_(f32|s32)_(\w+?)_(\w+?)_t([01])([01])")
_WAIT_FOR = re.compile(r"tw_wgmma_wait_(\d)_for_(\d+)")
_COPY = re.compile(r"tw_(load|store)_([1-5])d")
_SHARED_LOAD = re.compile(r"tw_load_(own|far)_([14])_(f32|s32)")
_ASYNC_COPY = re.compile(r"tw_copy_async_(4|8|16)")
_GATHER = re.compile(r"tw_(gather|take)_(1|2|4|8|16)")
_NUMBERED = {
    r"tw_copy_wait_(\d)": "cp.async.wait_group {};",
    r"tw_wgmma_wait_(\d)": "wgmma.wait_group.sync.aligned {};",
    r"tw_bulk_wait_(\d)": "cp.async.bulk.wait_group {};",
    r"tw_bulk_wait_read_(\d)": "cp.async.bulk.wait_group.read {};",
    r"tw_registers_inc_(\d+)": "setmaxnreg.inc.sync.aligned.u32 {};",
    r"tw_registers_dec_(\d+)": "setmaxnreg.dec.sync.aligned.u32 {};",
}


def device_function(name: str) -> str | None:
    """The text of a function; None if it is not one of ours."""
    if name in _TEXTS:
        return _TEXTS[name]
    if name in _PLAIN:
        return _function(name, _PLAIN[name])
    if copy := _COPY.fullmatch(name):
        return _function(name, _bulk_copy(copy[1], int(copy[2])))
    if copy := _ASYNC_COPY.fullmatch(name):
        return _asynchronous_copy(name, int(copy[1]))
    if load := _SHARED_LOAD.fullmatch(name):
        return _shared_load(name, load)
    if gather := _GATHER.fullmatch(name):
        return _gather(name, int(gather[2]), is_shared=gather[1] == "take")
    if wgmma := _WGMMA.fullmatch(name):
        return _multiplication(name, wgmma)
    if wait := _WAIT_FOR.fullmatch(name):
        return _wait_for_sums(name, wait[1], int(wait[2]))
    for pattern, instruction in _NUMBERED.items():
        if match := re.fullmatch(pattern, name):
            return _function(name, _Plain(instruction.format(match[1])))
    return partial_sum_function(name)


def _function(name: str, plain: _Plain) -> str:
    parameters = [part.rpartition(" ") for part in plain.parameters.split(", ") if part]
    inputs = ", ".join(
        f'"{_LETTERS[kind]}"({"&" if kind.endswith("&") else ""}{word})'
        for kind, _, word in parameters
    )
    head = f"__device__ __forceinline__ {plain.returns} {name}({plain.parameters})"
    if plain.returns == "void":
        return f'{head} {{\n  asm volatile("{plain.instruction}" :: {inputs} : "memory");\n}}\n'
    result = f'  {plain.returns} result;\n  asm("{plain.instruction}" : "=r"(result) : {inputs});\n'
    return f"{head} {{\n{result}  return result;\n}}\n"


def _bulk_copy(direction: str, rank: int) -> _Plain:
    coordinates = ", ".join(f"int c{n}" for n in range(rank))

    def places(first: int) -> str:
        return ", ".join(f"%{first + n}" for n in range(rank))

    if direction == "load":
        return _Plain(
            f"cp.async.bulk.tensor.{rank}d.shared::cluster.global.mbarrier::complete_tx::bytes "
            f"[%0], [%1, {{{places(3)}}}], [%2];",
            f"{_WORD} to, const tw_tensor_map& map, {_WORD} barrier, {coordinates}",
        )
    return _Plain(
        f"cp.async.bulk.tensor.{rank}d.global.shared::cta.bulk_group [%0, {{{places(2)}}}], [%1];",
        f"const tw_tensor_map& map, {_WORD} from, {coordinates}",
    )


def _shared_load(name: str, match: re.Match[str]) -> str:
    """Loads neighbours from shared memory, of this block or of another one of its cluster."""
    width, (ctype, letter) = int(match[2]), _ACCUMULATORS[match[3]]
    results = ", ".join(f'"={letter}"(to[{n}])' for n in range(width))
    places = ", ".join(f"%{n}" for n in range(width))
    vector = f".v{width}" if width > 1 else ""
    targets = f"{{{places}}}" if width > 1 else places
    head = f"__device__ __forceinline__ void {name}({ctype}* to, unsigned int from"
    if match[1] == "own":
        return f"""\
{head}) {{
  asm volatile("ld.shared{vector}.b32 {targets}, [%{width}];"
      : {results} : "r"(from) : "memory");
}}
"""
    return f"""\
{head}, int rank) {{
  asm volatile("{{\\n.reg .u32 far;\\nmapa.shared::cluster.u32 far, %{width}, %{width + 1};\\n"
      "ld.shared::cluster{vector}.b32 {targets}, [far];\\n}}"
      : {results} : "r"(from), "r"(rank) : "memory");
}}
"""


def _asynchronous_copy(name: str, size: int) -> str:
    """Copies to shared memory; what is beyond the valid bytes becomes zero."""
    cached = "cg" if size == 16 else "ca"
    return f"""\
__device__ __forceinline__ void {name}(void* to, const void* from, int valid) {{
  asm volatile("cp.async.{cached}.shared.global [%0], [%1], {size}, %2;"
      :: "r"((unsigned int)__cvta_generic_to_shared(to)), "l"(from), "r"(valid) : "memory");
}}
"""


def _gather(name: str, size: int, *, is_shared: bool) -> str:
    """Loads of `size` bytes that fill words; what is not inside becomes zero."""
    space, letter = ("shared", "r") if is_shared else ("global", "l")
    pointer_type = _WORD if is_shared else "const void*"
    words, loads = max(1, size // 4), max(1, 4 // size)
    kind = {1: "u8", 2: "b16"}.get(size, "b32")
    vector = f".v{words}" if words > 1 else ""
    lines = [".reg .pred p;"]
    if size < 4:
        lines += [f".reg .b16 h{n};" for n in range(loads)]
    targets = [f"h{n}" for n in range(loads)] if size < 4 else [f"%{n}" for n in range(words)]
    for number in range(loads):
        pointer = words + 2 * number
        own = targets[number : number + 1] if size < 4 else targets
        place = f"{{{', '.join(own)}}}" if vector else own[0]
        lines.append(f"setp.ne.b32 p, %{pointer + 1}, 0;")
        lines += [f"mov.b{16 if size < 4 else 32} {each}, 0;" for each in own]
        lines.append(f"@p ld.{space}{vector}.{kind} {place}, [%{pointer}];")
    lines += {
        1: ["shl.b16 h1, h1, 8;", "or.b16 h0, h0, h1;", "shl.b16 h3, h3, 8;",
            "or.b16 h2, h2, h3;", "mov.b32 %0, {h0, h2};"],
        2: ["mov.b32 %0, {h0, h1};"],
    }.get(size, [])  # fmt: skip
    text = "\\n".join(lines)
    outputs = ", ".join(f'"=r"(words[{n}])' for n in range(words))
    inputs = ", ".join(f'"{letter}"(from{n}), "r"(inside{n})' for n in range(loads))
    parameters = ", ".join(f"{pointer_type} from{n}, int inside{n}" for n in range(loads))
    return f"""\
__device__ __forceinline__ void {name}(unsigned int* words, {parameters}) {{
  asm volatile("{{\\n{text}\\n}}" : {outputs} : {inputs});
}}
"""


def _multiplication(name: str, match: re.Match[str]) -> str:
    shape, columns, sums, left, right = match[1], int(match[2]), match[3], match[4], match[5]
    count = columns // 2
    kind, letter = _ACCUMULATORS[sums]
    results = _broken([f"%{n}" for n in range(count)], '"\n        "')
    operands = _broken([f'"+{letter}"(sums[{n}])' for n in range(count)], "\n          ")
    # Signs of both operands, and for types of 16 bits whether they are turned.
    tail = "" if sums == "s32" else ", 1, 1"
    if left in ("f16", "bf16"):
        tail += f", {match[6]}, {match[7]}"
    return f"""\
__device__ __forceinline__ void {name}(
    {kind}* sums, unsigned long long left, unsigned long long right, int adds) {{
  asm volatile(
        "{{\\n.reg .pred p;\\nsetp.ne.b32 p, %{count + 2}, 0;\\n"
        "wgmma.mma_async.sync.aligned.{shape}.{sums}.{left}.{right} {{{results}}}, "
        "%{count}, %{count + 1}, p{tail};\\n}}"
        : {operands}
        : "l"(left), "l"(right), "r"(adds));
}}
"""


def _wait_for_sums(name: str, pending: str, count: int) -> str:
    """Waits for products; what is done with their sums cannot be moved ahead of that."""
    operands = _broken([f'"+f"(sums[{n}])' for n in range(count)], "\n          ")
    return f"""\
__device__ __forceinline__ void {name}(float* sums) {{
  asm volatile("wgmma.wait_group.sync.aligned {pending};"
        : {operands}
        :: "memory");
}}
"""


def _broken(items: Sequence[str], separator: str) -> str:
    """Items in lines of eight."""
    rows = [", ".join(items[n : n + 8]) for n in range(0, len(items), 8)]
    return f", {separator}".join(rows)
