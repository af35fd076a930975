"""TensorIR: dtypes, expressions, statements, buffers, functions, and how to walk and rewrite them."""

from tilewright.ir import intrinsics as intrinsics
from tilewright.ir.buffer import (
    Buffer as Buffer,
)
from tilewright.ir.buffer import (
    BufferLoad as BufferLoad,
)
from tilewright.ir.buffer import (
    BufferRegion as BufferRegion,
)
from tilewright.ir.buffer import (
    buffers_of as buffers_of,
)
from tilewright.ir.buffer import (
    decl_buffer as decl_buffer,
)
from tilewright.ir.dtype import (
    BOOL as BOOL,
)
from tilewright.ir.dtype import (
    FLOAT32 as FLOAT32,
)
from tilewright.ir.dtype import (
    HANDLE as HANDLE,
)
from tilewright.ir.dtype import (
    INT32 as INT32,
)
from tilewright.ir.dtype import (
    INT64 as INT64,
)
from tilewright.ir.dtype import (
    VOID as VOID,
)
from tilewright.ir.dtype import (
    DType as DType,
)
from tilewright.ir.dtype import (
    max_value_of as max_value_of,
)
from tilewright.ir.dtype import (
    min_value_of as min_value_of,
)
from tilewright.ir.equal import (
    StructuralMismatchError as StructuralMismatchError,
)
from tilewright.ir.equal import (
    assert_structural_equal as assert_structural_equal,
)
from tilewright.ir.equal import (
    structural_equal as structural_equal,
)
from tilewright.ir.equal import (
    structural_hash as structural_hash,
)
from tilewright.ir.expr import (
    EQ as EQ,
)
from tilewright.ir.expr import (
    FALSE as FALSE,
)
from tilewright.ir.expr import (
    GE as GE,
)
from tilewright.ir.expr import (
    GT as GT,
)
from tilewright.ir.expr import (
    LE as LE,
)
from tilewright.ir.expr import (
    LT as LT,
)
from tilewright.ir.expr import (
    NE as NE,
)
from tilewright.ir.expr import (
    TRUE as TRUE,
)
from tilewright.ir.expr import (
    Add as Add,
)
from tilewright.ir.expr import (
    And as And,
)
from tilewright.ir.expr import (
    BinaryOp as BinaryOp,
)
from tilewright.ir.expr import (
    Broadcast as Broadcast,
)
from tilewright.ir.expr import (
    Call as Call,
)
from tilewright.ir.expr import (
    Cast as Cast,
)
from tilewright.ir.expr import (
    CmpOp as CmpOp,
)
from tilewright.ir.expr import (
    CommReducer as CommReducer,
)
from tilewright.ir.expr import (
    Div as Div,
)
from tilewright.ir.expr import (
    ExprLike as ExprLike,
)
from tilewright.ir.expr import (
    ExprOperators as ExprOperators,
)
from tilewright.ir.expr import (
    FloatImm as FloatImm,
)
from tilewright.ir.expr import (
    FloorDiv as FloorDiv,
)
from tilewright.ir.expr import (
    FloorMod as FloorMod,
)
from tilewright.ir.expr import (
    GlobalVar as GlobalVar,
)
from tilewright.ir.expr import (
    IntImm as IntImm,
)
from tilewright.ir.expr import (
    IterType as IterType,
)
from tilewright.ir.expr import (
    IterVar as IterVar,
)
from tilewright.ir.expr import (
    Let as Let,
)
from tilewright.ir.expr import (
    Max as Max,
)
from tilewright.ir.expr import (
    Min as Min,
)
from tilewright.ir.expr import (
    Mod as Mod,
)
from tilewright.ir.expr import (
    Mul as Mul,
)
from tilewright.ir.expr import (
    Not as Not,
)
from tilewright.ir.expr import (
    Or as Or,
)
from tilewright.ir.expr import (
    PointerType as PointerType,
)
from tilewright.ir.expr import (
    PrimExpr as PrimExpr,
)
from tilewright.ir.expr import (
    Ramp as Ramp,
)
from tilewright.ir.expr import (
    Range as Range,
)
from tilewright.ir.expr import (
    Reduce as Reduce,
)
from tilewright.ir.expr import (
    Select as Select,
)
from tilewright.ir.expr import (
    Shuffle as Shuffle,
)
from tilewright.ir.expr import (
    SizeVar as SizeVar,
)
from tilewright.ir.expr import (
    StringImm as StringImm,
)
from tilewright.ir.expr import (
    Sub as Sub,
)
from tilewright.ir.expr import (
    Var as Var,
)
from tilewright.ir.expr import (
    add as add,
)
from tilewright.ir.expr import (
    bitwise as bitwise,
)
from tilewright.ir.expr import (
    cast as cast,
)
from tilewright.ir.expr import (
    const as const,
)
from tilewright.ir.expr import (
    constant_value as constant_value,
)
from tilewright.ir.expr import (
    convert as convert,
)
from tilewright.ir.expr import (
    divide as divide,
)
from tilewright.ir.expr import (
    equal as equal,
)
from tilewright.ir.expr import (
    floordiv as floordiv,
)
from tilewright.ir.expr import (
    floormod as floormod,
)
from tilewright.ir.expr import (
    greater as greater,
)
from tilewright.ir.expr import (
    greater_equal as greater_equal,
)
from tilewright.ir.expr import (
    int_imm as int_imm,
)
from tilewright.ir.expr import (
    less as less,
)
from tilewright.ir.expr import (
    less_equal as less_equal,
)
from tilewright.ir.expr import (
    logical_and as logical_and,
)
from tilewright.ir.expr import (
    logical_not as logical_not,
)
from tilewright.ir.expr import (
    logical_or as logical_or,
)
from tilewright.ir.expr import (
    match_types as match_types,
)
from tilewright.ir.expr import (
    maximum as maximum,
)
from tilewright.ir.expr import (
    minimum as minimum,
)
from tilewright.ir.expr import (
    multiply as multiply,
)
from tilewright.ir.expr import (
    not_equal as not_equal,
)
from tilewright.ir.expr import (
    subtract as subtract,
)
from tilewright.ir.expr import (
    truncdiv as truncdiv,
)
from tilewright.ir.expr import (
    truncmod as truncmod,
)
from tilewright.ir.expr import (
    wrap_int as wrap_int,
)
from tilewright.ir.function import (
    IRModule as IRModule,
)
from tilewright.ir.function import (
    PrimFunc as PrimFunc,
)
from tilewright.ir.function import (
    as_module as as_module,
)
from tilewright.ir.node import (
    Node as Node,
)
from tilewright.ir.node import (
    children as children,
)
from tilewright.ir.node import (
    map_children as map_children,
)
from tilewright.ir.node import (
    map_tuple as map_tuple,
)
from tilewright.ir.node import (
    replace as replace,
)
from tilewright.ir.op import (
    CallEffect as CallEffect,
)
from tilewright.ir.op import (
    Op as Op,
)
from tilewright.ir.op import (
    all_ops as all_ops,
)
from tilewright.ir.op import (
    op_by_script_name as op_by_script_name,
)
from tilewright.ir.op import (
    register_op as register_op,
)
from tilewright.ir.op import (
    register_op_attr as register_op_attr,
)
from tilewright.ir.stmt import (
    Allocate as Allocate,
)
from tilewright.ir.stmt import (
    AllocateConst as AllocateConst,
)
from tilewright.ir.stmt import (
    AssertStmt as AssertStmt,
)
from tilewright.ir.stmt import (
    AttrStmt as AttrStmt,
)
from tilewright.ir.stmt import (
    Block as Block,
)
from tilewright.ir.stmt import (
    BlockRealize as BlockRealize,
)
from tilewright.ir.stmt import (
    BufferStore as BufferStore,
)
from tilewright.ir.stmt import (
    DeclBuffer as DeclBuffer,
)
from tilewright.ir.stmt import (
    Evaluate as Evaluate,
)
from tilewright.ir.stmt import (
    For as For,
)
from tilewright.ir.stmt import (
    ForKind as ForKind,
)
from tilewright.ir.stmt import (
    IfThenElse as IfThenElse,
)
from tilewright.ir.stmt import (
    LetStmt as LetStmt,
)
from tilewright.ir.stmt import (
    MatchBufferRegion as MatchBufferRegion,
)
from tilewright.ir.stmt import (
    SeqStmt as SeqStmt,
)
from tilewright.ir.stmt import (
    Stmt as Stmt,
)
from tilewright.ir.stmt import (
    While as While,
)
from tilewright.ir.stmt import (
    is_no_op as is_no_op,
)
from tilewright.ir.stmt import (
    no_op as no_op,
)
from tilewright.ir.stmt import (
    root_realize as root_realize,
)
from tilewright.ir.stmt import (
    seq as seq,
)
from tilewright.ir.visit import (
    BufferRewriter as BufferRewriter,
    Dispatcher as Dispatcher,
)
from tilewright.ir.visit import (
    Rewriter as Rewriter,
)
from tilewright.ir.visit import (
    T as T,
)
from tilewright.ir.visit import (
    Visitor as Visitor,
)
from tilewright.ir.visit import (
    free_vars as free_vars,
)
from tilewright.ir.visit import (
    ir_transform as ir_transform,
)
from tilewright.ir.visit import (
    post_order_visit as post_order_visit,
)
from tilewright.ir.visit import (
    pre_order_visit as pre_order_visit,
)
from tilewright.ir.visit import (
    substitute as substitute,
)
from tilewright.ir.visit import (
    uses_var as uses_var,
)
