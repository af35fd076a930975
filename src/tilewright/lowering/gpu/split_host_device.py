"""Kernels become functions of their own; the function that held them calls them.

What a kernel uses from outside it becomes its parameters: pointers to memory of the device, and
numbers. The call passes them, then the extents that the kernel is launched with and, where it uses
dynamic shared memory, its bytes, in the order of the attribute `tir.kernel_launch_params`.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from tilewright import ir
from tilewright.errors import LowerError
from tilewright.ir.intrinsics import call_packed
from tilewright.lowering.base import FunctionPass, register_pass
from tilewright.lowering.gpu.threads import launched_tag, launches_of
from tilewright.target import Target

DEVICE_KERNEL = 2  # the calling convention of a function that a host launches
LAUNCH_PARAMS = "tir.kernel_launch_params"
DYNAMIC_SHARED = "tir.use_dyn_shared_memory"


@dataclass
class _Splitter:
    """Takes the kernels out of one function."""

    func: ir.PrimFunc
    name: str
    kernels: dict[str, ir.PrimFunc] = field(default_factory=dict)

    def host(self) -> ir.PrimFunc:
        """What is left of the function."""
        stays = (ir.BufferStore, ir.While, ir.Evaluate)
        before = {ir.AttrStmt: self._launch, stays: self._checked}
        return ir.rewrite(self.func, before=before)

    def _launch(self, kernel: ir.AttrStmt) -> ir.Stmt | None:
        if not launched_tag(kernel):
            return None
        number = len(self.kernels)
        name = f"{self.name}_kernel" + (f"_{number}" if number else "")
        _check_sizes(kernel)
        params = self._params(kernel)
        extents = {launch.node.thread_tag: launch.value for launch in launches_of(kernel)}
        shared = dynamic_shared_bytes(kernel)
        if shared is not None:
            extents[DYNAMIC_SHARED] = shared
        attrs = {
            "calling_conv": DEVICE_KERNEL,
            "global_symbol": name,
            "tir.noalias": self.func.attrs.get("tir.noalias", ir.FALSE),
            "tir.is_global_func": ir.TRUE,
            LAUNCH_PARAMS: tuple(extents),
        }
        self.kernels[name] = ir.PrimFunc(params, kernel, attrs=attrs)
        return ir.Evaluate(call_packed(name, *params, *extents.values()))

    def _params(self, kernel: ir.Stmt) -> tuple[ir.Var, ...]:
        """What a kernel uses from outside: first the parameters of the function, in their order."""
        used = used_vars(kernel)
        return tuple({**{param: None for param in self.func.params if param in used}, **used})

    def _checked(self, node: ir.Stmt) -> ir.Stmt:
        if ir.is_no_op(node):
            return node
        raise LowerError(
            f"function {self.name!r} computes `{_last_line(node)}` outside of all threads; bind a "
            "loop around it to blockIdx.x or threadIdx.x"
        )


def _last_line(node: ir.Stmt) -> str:
    return str(node).strip().splitlines()[-1].strip()


_ACCESSES = (ir.BufferLoad, ir.BufferStore)
_DEFINED: dict[type, str] = {
    ir.For: "loop_var",
    ir.Let: "var",
    ir.LetStmt: "var",
    ir.Allocate: "buffer_var",
    ir.AllocateConst: "buffer_var",
}


def used_vars(stmt: ir.Stmt) -> dict[ir.Var, None]:
    """Variables that a kernel uses but does not define, memory behind buffers included."""
    used: dict[ir.Var, None] = {}
    defined: set[ir.Var] = set()
    for node in ir.walk(stmt):
        kind = type(node)
        if kind in _ACCESSES:
            used[node.buffer.data] = None
        elif kind in _DEFINED:
            defined.add(getattr(node, _DEFINED[kind]))
        elif kind is ir.AttrStmt and isinstance(node.node, ir.IterVar):
            defined.add(node.node.var)
        elif not node.child_fields and isinstance(node, ir.Var):
            used[node] = None
    return {var: None for var in used if var not in defined}


def _check_sizes(kernel: ir.Stmt) -> None:
    """Registers and shared memory are shared out when a kernel is compiled."""
    for node in ir.nodes_of(kernel, ir.Allocate):
        annotation = node.buffer_var.type_annotation
        scope = "" if annotation is None else annotation.storage_scope
        if scope in ("local", "shared") and not all(isinstance(n, ir.IntImm) for n in node.extents):
            raise LowerError(
                f"{node.buffer_var.name!r} of scope {scope!r} has a size that is not a constant; "
                "split the loops that fill it by constants"
            )


def dynamic_shared_bytes(kernel: ir.Stmt) -> ir.PrimExpr | None:
    """The bytes of shared memory that a kernel is launched with, if it wants any."""
    sizes = [
        node.extents[0] * node.dtype.nbytes
        for node in ir.nodes_of(kernel, ir.Allocate)
        if node.buffer_var.type_annotation is not None
        and node.buffer_var.type_annotation.storage_scope == "shared.dyn"
    ]
    if len(sizes) > 1:
        raise LowerError(
            "a kernel has one piece of dynamic shared memory; run "
            "MergeSharedMemoryAllocations before SplitHostDevice"
        )
    return sizes[0] if sizes else None


@register_pass
class SplitHostDevice(FunctionPass):
    """Make each kernel a function of its own."""

    def __call__(self, module: ir.IRModule, target: Target | None = None) -> ir.IRModule:
        functions: dict[str, ir.PrimFunc] = {}
        for name, func in module.functions.items():
            if func.attrs.get("calling_conv") == DEVICE_KERNEL:
                functions[name] = func
                continue
            splitter = _Splitter(func, name)
            functions[name] = splitter.host()
            functions |= splitter.kernels
        return ir.replace(module, functions=functions)
