"""A plugin of pytest for suites written for TVM: fixtures that take their values together, targets.

`tilewright run -m pytest ...` loads it; elsewhere `pytest -p tilewright.testing.tvm_plugin`.
"""

from __future__ import annotations

from typing import Any

import pytest

from tilewright.runtime import device
from tilewright.testing.tvm_testing import enabled_targets


@pytest.fixture
def dev(target: Any) -> Any:
    """The device of a target."""
    return device(str(target))


def pytest_generate_tests(metafunc: Any) -> None:
    """Give values to fixtures of one `tvm.testing.parameters`, and to `target`."""
    for names, values, ids in _groups(metafunc).values():
        metafunc.parametrize(names, list(zip(*values, strict=True)), indirect=True, ids=ids)
    if "target" in metafunc.fixturenames and not _has_target(metafunc):
        excluded = getattr(metafunc.function, "tvm_excluded_targets", ())
        failing = getattr(metafunc.function, "tvm_known_failing_targets", ())
        cases = [
            pytest.param(name, marks=pytest.mark.xfail(name in failing, reason="known to fail"))
            for name, _ in enabled_targets()
            if name not in excluded
        ]
        metafunc.parametrize("target", cases)


def pytest_collection_modifyitems(items: list[Any]) -> None:
    """Mark the cases that `skip_parameterizations` and `xfail_parameterizations` name."""
    for item in items:
        case = getattr(getattr(item, "callspec", None), "id", None)
        ids, reason = getattr(item.obj, "tvm_skipped_cases", ((), ""))
        if case in ids:
            item.add_marker(pytest.mark.skip(reason=reason))
        ids, reason, strict = getattr(item.obj, "tvm_failing_cases", ((), "", False))
        if case in ids:
            item.add_marker(pytest.mark.xfail(reason=reason, strict=strict))


def _groups(metafunc: Any) -> dict[object, tuple[list[str], list[Any], Any]]:
    found: dict[object, tuple[list[str], list[Any], Any]] = {}
    for name in metafunc.fixturenames:
        definitions = metafunc._arg2fixturedefs.get(name)
        group = getattr(definitions[-1].func, "tvm_group", None) if definitions else None
        if group is not None:
            key, values, ids = group
            names, columns, _ = found.setdefault(key, ([], [], ids))
            names.append(name)
            columns.append(values)
    return found


def _has_target(metafunc: Any) -> bool:
    """Whether a mark or a fixture says which targets."""
    marked = any(
        "target" in str(mark.args[0]).replace(",", " ").split()
        for mark in metafunc.definition.iter_markers("parametrize")
    )
    return marked or bool(metafunc._arg2fixturedefs.get("target"))
