"""`tw.compile`: functions that allocate and return their results, compiled for sizes they see."""

from tilewright.jit.entry import compile as compile
from tilewright.jit.function import JitFunction as JitFunction, JitModule as JitModule
