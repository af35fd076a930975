"""Programs written in Python syntax: `from tilewright.script import tir as T, ir as I`."""

from tilewright.script import ir as ir, tir as tir
from tilewright.script.decorators import ir_module as ir_module
from tilewright.script.from_source import from_source as from_source
