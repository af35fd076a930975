"""A key of all that the code of a program depends on: equal keys mean equal code.

Apart from `host/code_key`, which starting a process needs, and which must not load the passes.
"""

from __future__ import annotations

import json

from tilewright.codegen.host.code_key import key_of
from tilewright.ir import IRModule
from tilewright.ir.json import save_json
from tilewright.lowering.context import PassContext
from tilewright.target import Target
from tilewright.target.intrin_rules import rules_from_outside


def build_key(module: IRModule, target: Target, compiler: str = "") -> str | None:
    """The key of a program that is compiled now; None if something is in play that has no text."""
    context = PassContext.current()
    if context.instruments or context.option("tir.add_lower_pass") or rules_from_outside():
        return None
    options = [context.opt_level, dict(context.config), sorted(context.disabled_pass)]
    text = json.dumps([target.export(), options], sort_keys=True, default=str)
    return key_of(text, compiler, save_json(module))
