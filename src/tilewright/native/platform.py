"""Numbers of the operating system and processor that our hand-written native code needs."""

from __future__ import annotations

from dataclasses import dataclass

from tilewright.errors import CodegenError


@dataclass(frozen=True)
class NativePlatform:
    """One system and processor family.

    ``futex_syscall`` is None where threads have to sleep on a pthread condition instead, and
    ``has_threads`` is False where there is no pthread library at all (parallel loops run serially).
    """

    system: str
    arch: str
    relax_instruction: str
    futex_syscall: int | None
    clock_monotonic: int
    sig_setmask: int
    has_threads: bool = True

    @property
    def key_type(self) -> str:
        """pthread_key_t: an unsigned int on Linux, an unsigned long on macOS."""
        return "i32" if self.system == "linux" else "i64"


# Intrinsics, since LLVM reads inline assembly only for the machine it runs on.
_RELAX = {"x86_64": "@llvm.x86.sse2.pause()", "aarch64": "@llvm.aarch64.hint(i32 1)"}
_FUTEX = {"x86_64": 202, "aarch64": 98}
_ARCH_ALIASES = {"amd64": "x86_64", "arm64": "aarch64"}


def platform_of(triple: str) -> NativePlatform:
    """The platform that an LLVM target triple such as ``x86_64-unknown-linux-gnu`` names."""
    arch, _, rest = triple.partition("-")
    arch = _ARCH_ALIASES.get(arch, arch)
    relax = _RELAX.get(arch)
    if relax is None:
        raise CodegenError(
            f"the runtime has no thread pool for {triple!r}; it knows the processors"
            f" {', '.join(sorted(_RELAX))}"
        )
    if "linux" in rest:
        return NativePlatform("linux", arch, relax, _FUTEX[arch], clock_monotonic=1, sig_setmask=2)
    if "darwin" in rest or "macos" in rest:
        return NativePlatform("darwin", arch, relax, None, clock_monotonic=6, sig_setmask=3)
    return NativePlatform("other", arch, relax, None, 1, 2, has_threads=False)


def stub(signature: str, result: str = "void") -> str:
    """A function that does nothing but return, as LLVM IR."""
    return f"\ndefine {signature} {{\n  ret {result}\n}}\n"


def is_linux_x86_64(triple: str) -> bool:
    """True for the machines that our own linker knows."""
    return triple.startswith("x86_64-") and "linux" in triple
