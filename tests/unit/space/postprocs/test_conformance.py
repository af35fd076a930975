"""Every post-processor of the CPU keeps the contract."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tilewright.space.base import Postproc
from tilewright.space.postprocs import (
    DisallowDynamicLoop,
    RewriteLayout,
    RewriteParallelVectorizeUnroll,
    RewriteReductionBlock,
    RewriteTensorize,
)
from tilewright.testing.conformance import postproc

MEMBERS: tuple[type[Postproc], ...] = (
    DisallowDynamicLoop,
    RewriteParallelVectorizeUnroll,
    RewriteReductionBlock,
    RewriteTensorize,
    RewriteLayout,
)


@pytest.mark.parametrize("check", postproc.CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("member", MEMBERS, ids=lambda member: member.__name__)
def test_keeps_the_contract(
    member: type[Postproc], check: Callable[[postproc.MakePostproc], None]
) -> None:
    check(member)
