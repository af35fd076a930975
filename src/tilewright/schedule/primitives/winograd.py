"""`winograd`: a convolution computed in another way, by tiles of its result with fewer products."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tilewright import arith, ir, te
from tilewright.ir.arithmetic import constant_value
from tilewright.ir.visit import Substituter
from tilewright.schedule.core import ScheduleCore
from tilewright.schedule.errors import PrimitiveError
from tilewright.schedule.state import BlockRV, StmtSRef, leaf_realizes
from tilewright.schedule.state.scope import domain_of, iterator_domains
from tilewright.schedule.state.splice import splice
from tilewright.schedule.trace.instruction import Primitive, given, register_primitive
from tilewright.topi.nn.winograd_tiles import TAPS, winograd_of_whole_tiles

_PRODUCTS = "winograd_products"


class NotAPlainConvolution(PrimitiveError):
    reason = "block {block!r} is not a convolution of NHWC data with 3 x 3 filters that move by one"
    remedy = "give a sum of data[n, h + rh, w + rw, rc] * filters[rh, rw, rc, co] in float32"


class ConvolutionNotAlone(PrimitiveError):
    reason = "loops around block {block!r} hold more than it, or are below another block"
    remedy = "transform a convolution before its loops are"


class NoWholeTiles(PrimitiveError):
    reason = "{height} x {width} results of block {block!r} are no whole tiles of {tile} x {tile}"
    remedy = "take tiles of 2, 4 or 6 that divide both"


@dataclass(frozen=True)
class _Convolution:
    data: ir.Buffer  # with its padding
    filters: ir.Buffer
    result: ir.Buffer

    @property
    def size(self) -> tuple[int, int]:
        """Rows and columns of the result."""
        _, height, width, _ = map(constant_value, self.result.shape)
        return int(height or 0), int(width or 0)


@register_primitive
class Winograd(Primitive[None]):
    """Compute a 3 x 3 convolution by tiles, F(`tile_size`, 3); the block becomes its products."""

    block: BlockRV = given()
    tile_size: int

    def run(self, sch: ScheduleCore) -> None:
        block = sch.get_sref(self.block)
        found = _recognized(block.block)
        if found is None:
            raise NotAPlainConvolution(block=block)
        root, top = _only_nest(block)
        height, width = found.size
        tile = self.tile_size
        if tile not in (2, 4, 6) or height % tile or width % tile:
            raise NoWholeTiles(block=block, height=height, width=width, tile=tile)
        allocated, body, products = _stages(found, tile, block.name)
        stmt = root.block
        made = ir.replace(
            stmt,
            alloc_buffers=(*stmt.alloc_buffers, *allocated),
            body=splice(stmt.body, top.stmt, body),
        )
        sch.state.replace(root, made, {block.block: products})


def _only_nest(block: StmtSRef) -> tuple[StmtSRef, StmtSRef]:
    """The root block, and the outermost loop of a block, which must hold nothing else."""
    loops, root = block.loops, block.scope_root
    if not loops or loops[0].parent is not root or root.parent is not None:
        raise ConvolutionNotAlone(block=block)
    if len(list(leaf_realizes(loops[0].loop))) != 1:
        raise ConvolutionNotAlone(block=block)
    return root, loops[0]


def _recognized(block: ir.Block) -> _Convolution | None:
    """The buffers of a block that is such a convolution."""
    match block.body, block.init:
        case (
            ir.BufferStore(
                buffer=result,
                value=ir.Add(
                    a=ir.BufferLoad(buffer=old),
                    b=ir.Mul(a=ir.BufferLoad() as data, b=ir.BufferLoad() as filters),
                ),
                indices=at,
            ),
            ir.BufferStore(value=ir.FloatImm(value=0.0)),
        ) if old is result:
            found = _Convolution(data.buffer, filters.buffer, result)
            reads = [at, data.indices, filters.indices]
            return found if _has_plain_indices(block, reads) and _fits(block, found) else None
    return None


def _iterators(block: ir.Block) -> tuple[list[ir.IterVar], list[ir.IterVar]]:
    """Those of results and those of sums."""
    kinds = (ir.IterType.DATA_PAR, ir.IterType.COMM_REDUCE)
    spatial, reduced = ([v for v in block.iter_vars if v.iter_type is kind] for kind in kinds)
    return spatial, reduced


def _has_plain_indices(block: ir.Block, accesses: Sequence[Sequence[ir.PrimExpr]]) -> bool:
    """True for the indices of result, data and filters of a window that moves by one."""
    spatial, reduced = ([each.var for each in own] for own in _iterators(block))
    if (len(spatial), len(reduced)) != (4, 3):
        return False
    (n, h, w, co), (rh, rw, rc) = spatial, reduced
    analyzer = arith.Analyzer(iterator_domains(block))
    wanted: list[list[ir.PrimExpr]] = [[n, h, w, co], [n, h + rh, w + rw, rc], [rh, rw, rc, co]]
    return all(
        len(own) == len(plain)
        and all(
            ir.expr_deep_equal(analyzer.simplify(a), analyzer.simplify(b))
            for a, b in zip(own, plain, strict=True)
        )
        for own, plain in zip(accesses, wanted, strict=True)
    )


def _fits(block: ir.Block, found: _Convolution) -> bool:
    """True if the shapes fit each other, with nothing around what is read and written."""
    buffers = (found.data, found.filters, found.result)
    if any(buffer.dtype != "float32" for buffer in buffers):
        return False
    shapes = [[constant_value(extent) for extent in buffer.shape] for buffer in buffers]
    if any(extent is None for shape in shapes for extent in shape):
        return False
    (n, height, width, ci), filters, (images, _, _, co) = shapes
    results, sums = (
        [constant_value(domain_of(each).extent) for each in own] for own in _iterators(block)
    )
    if results != shapes[2] or sums != [TAPS, TAPS, ci]:
        return False
    padded = tuple(extent + TAPS - 1 for extent in found.size)
    return filters == [TAPS, TAPS, ci, co] and n == images and (height, width) == padded


def _stages(
    found: _Convolution, tile: int, name: str
) -> tuple[list[ir.Buffer], list[ir.Stmt], ir.Block]:
    """New buffers, the loop nests of all stages, and the block of the products."""
    data, filters = (
        te.placeholder(buffer.shape, name=buffer.name, dtype=str(buffer.dtype))
        for buffer in (found.data, found.filters)
    )
    func = te.create_prim_func([data, filters, winograd_of_whole_tiles(data, filters, tile)])
    given_buffers = [func.buffer_map[param] for param in func.params]
    own = zip(given_buffers, (found.data, found.filters, found.result), strict=True)
    assert isinstance(func.body, ir.BlockRealize)
    root = func.body.block

    def renamed(block: ir.Block) -> ir.Block:
        return ir.replace(block, name_hint=f"{name}_{block.name_hint}")

    body = ir.rewrite(Substituter(lambda _: None, own).rewrite(root.body), {ir.Block: renamed})
    blocks = {block.name_hint: block for block in ir.nodes_of(body, ir.Block)}
    nests = list(ir.statements_of(body))
    return list(root.alloc_buffers), nests, blocks[f"{name}_{_PRODUCTS}"]
