"""Rewriters keep sequences flat when one statement becomes several."""

from __future__ import annotations

from tilewright.ir import Evaluate, Rewriter, SeqStmt, Stmt, const


class Doubler(Rewriter):
    def visit_evaluate(self, node: Evaluate) -> Stmt:
        return SeqStmt((node, node))


def test_a_sequence_inside_a_sequence_is_taken_apart() -> None:
    one, two = Evaluate(const(1)), Evaluate(const(2))
    result = Doubler().rewrite(SeqStmt((one, two)))
    pairs = zip(result.seq, (one, one, two, two), strict=True)
    assert all(child is other for child, other in pairs)
    assert not any(isinstance(child, SeqStmt) for child in result.seq)


def test_an_unchanged_sequence_is_the_same_object() -> None:
    sequence = SeqStmt((Evaluate(const(1)), Evaluate(const(2))))
    assert Rewriter().rewrite(sequence) is sequence
