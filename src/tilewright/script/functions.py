"""Whole functions and modules."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from typing import Any

from tilewright import ir
from tilewright.errors import ScriptError
from tilewright.ir.script_forms import body_needs_root
from tilewright.ir.stmt import enclosed
from tilewright.script import (
    assignments as assignments,
    blocks as blocks,
    control_flow as control_flow,
    diagnostics,
    forms,
)
from tilewright.script.diagnostics import Source
from tilewright.script.dtypes import DTypeForm
from tilewright.script.evaluator import Evaluator
from tilewright.script.exprs import as_argument
from tilewright.script.frames import Environment, FunctionFrame, plain_value
from tilewright.script.parser import Parser
from tilewright.support.nesting import nested_deeply


class FunctionReference:
    """`Module.f`: another function of the module, to be called."""

    def __init__(self, name: str, dtype: ir.DType = ir.VOID) -> None:
        self.global_var = ir.GlobalVar(name)
        self._dtype = dtype

    def __call__(self, *args: Any) -> ir.Call:
        values = tuple(ir.convert(as_argument(arg)) for arg in args)
        return ir.Call(self._dtype, self.global_var, values)


class ModuleNamespace:
    """`Module` or `cls` inside a function: the functions of the module by name."""

    def __init__(self, functions: Mapping[str, ir.DType] | None = None) -> None:
        self._functions = functions

    def __getattr__(self, name: str) -> FunctionReference:
        if name.startswith("_"):
            raise AttributeError(name)
        if self._functions is None:  # a function on its own: whatever it calls is elsewhere
            return FunctionReference(name)
        if name not in self._functions:
            raise AttributeError(name)
        return FunctionReference(name, self._functions[name])

    def __dir__(self) -> list[str]:
        return list(self._functions or ())


@nested_deeply(ScriptError, "the script")
def parse_function(
    source: Source, node: ast.FunctionDef, names: Mapping[str, Any], *, private: bool = False
) -> ir.PrimFunc:
    """The function that a definition describes."""
    visible = {"Module": ModuleNamespace(), **names}
    evaluator = Evaluator(source, Environment(visible))
    frame = FunctionFrame(node.name)
    parser = Parser(evaluator, frame)
    _parameters(parser, node)
    parser.statements(node.body)
    body = enclosed(parser.items, keeps_no_ops=True)
    if frame.root_buffers or body_needs_root(body):
        root = ir.Block((), (), (), "root", body, alloc_buffers=tuple(frame.root_buffers))
        body = ir.root_realize(root)
    if not (private or _is_private(parser, node)):
        frame.attrs.setdefault("global_symbol", node.name)
    attrs = dict(sorted(frame.attrs.items(), key=lambda item: item[0] != "global_symbol"))
    return ir.PrimFunc(
        tuple(frame.params), body, frame.buffer_map, attrs, _return_type(parser, node)
    )


def _is_private(parser: Parser, node: ast.FunctionDef) -> bool:
    for decorator in node.decorator_list:
        if isinstance(decorator, ast.Call):
            options = {option.arg: option.value for option in decorator.keywords}
            if "private" in options:
                return bool(parser.evaluate(options["private"]))
    return False


def _parameters(parser: Parser, node: ast.FunctionDef) -> None:
    arguments = node.args
    if arguments.vararg or arguments.kwarg or arguments.kwonlyargs or arguments.defaults:
        raise parser.error(node, "a TensorIR function takes plain positional parameters only")
    for argument in (*arguments.posonlyargs, *arguments.args):
        if argument.annotation is None:
            raise parser.error(argument, diagnostics.bad_parameter(argument.arg))
        _parameter(parser, argument, parser.evaluate(_annotation(argument.annotation)))


def _annotation(node: ast.expr) -> ast.expr:
    """An annotation; one in quotes is read as code."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return ast.copy_location(ast.parse(node.value, mode="eval").body, node)
    return node


def _parameter(parser: Parser, argument: ast.arg, kind: Any) -> None:
    name = argument.arg
    if isinstance(kind, forms.BufferDecl):
        param = ir.Var(f"{name}_handle", ir.HANDLE)
        parser.function.params.append(param)
        buffer = parser.attempt(argument, lambda: kind.build(name))
        parser.function.buffer_map[param] = parser.declare(buffer)
    elif isinstance(kind, DTypeForm):
        param = kind.new_var(name)
        parser.function.params.append(param)
        parser.environment.define(name, param)
    else:
        raise parser.error(argument, diagnostics.bad_parameter(name))


def _return_type(parser: Evaluator, node: ast.FunctionDef) -> str:
    if node.returns is None:
        return "void"
    kind = parser.evaluate(_annotation(node.returns))
    if kind is None:
        return "void"
    if not isinstance(kind, DTypeForm):
        raise parser.error(node.returns, "expected None or a type such as T.int32")
    return str(kind.dtype)


@nested_deeply(ScriptError, "the script")
def check(program: ir.PrimFunc | ir.IRModule) -> None:
    """Refuse a program that breaks a rule of TensorIR.

    A function on its own that calls others can only be judged inside their module.
    """
    if isinstance(program, ir.IRModule) or not any(
        isinstance(call.op, ir.GlobalVar) for call in ir.nodes_of(program.body, ir.Call)
    ):
        ir.verify_well_formed(program)


def parse_module(source: Source, node: ast.ClassDef, names: Mapping[str, Any]) -> ir.IRModule:
    """The module that a class describes."""
    evaluator = Evaluator(source, Environment(names))
    definitions = [item for item in node.body if isinstance(item, ast.FunctionDef)]
    returns = {item.name: ir.DType(_return_type(evaluator, item)) for item in definitions}
    namespace = ModuleNamespace(returns)
    visible = {**names, node.name: namespace, "cls": namespace, "Module": namespace}
    functions: dict[str, ir.PrimFunc] = {}
    attrs: dict[str, Any] = {}
    for item in node.body:
        match item:
            case ast.FunctionDef():
                if item.name in functions:
                    raise source.error(item, f"the module has two functions named {item.name!r}")
                functions[item.name] = parse_function(source, item, visible)
            case ast.Expr(ast.Call(ast.Attribute(attr="module_attrs"), [given, *_])):
                attrs.update(plain_value(evaluator.evaluate(given)))
            case ast.Expr() | ast.Pass():
                pass
            case _:
                message = "a module contains functions decorated with @T.prim_func"
                raise source.error(item, message)
    return ir.IRModule(functions, attrs)
