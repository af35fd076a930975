"""The tile registers of the CPU within a function: configured at its start, released at its end.

Loading the configuration takes as long as a dozen products of tiles, and sets all tiles to zero, so
it is done once for all iterations that a thread takes at a time. Any function that is called may
configure tiles for itself, so ours are configured again behind a call. An idle configuration would
make every switch between threads save eight kilobytes.
"""

from __future__ import annotations

import struct

from tilewright.codegen.llvm.values import ValueBuilder

_TILES, _ROWS, _ROW_BYTES = 8, 16, 64
_PALETTE = 1
# All eight tiles in full size; see LDTILECFG in Intel's manual for the layout.
_WIDTHS, _HEIGHTS = [_ROW_BYTES] * _TILES, [_ROWS] * _TILES
_CONFIGURATION = struct.pack("<B15x8H16x8B8x", _PALETTE, *_WIDTHS, *_HEIGHTS)


def configure(builder: ValueBuilder) -> None:
    """Make the tiles ready; they are zero then."""
    size, text = len(_CONFIGURATION), "".join(f"\\{byte:02X}" for byte in _CONFIGURATION)
    constant = builder.context.constant_data(f"[{size} x i8]", f'c"{text}"', size)
    builder.context.declare("void", "llvm.x86.ldtilecfg", "ptr")
    builder.emitter.line(f"call void @llvm.x86.ldtilecfg(ptr {constant})")


def release(builder: ValueBuilder) -> None:
    """Let go of the tiles."""
    builder.context.declare("void", "llvm.x86.tilerelease", "")
    builder.emitter.line("call void @llvm.x86.tilerelease()")


def reconfigure(builder: ValueBuilder) -> None:
    """Make the tiles ready again behind a call, in a function that uses them."""
    if builder.holds_tiles:
        configure(builder)
