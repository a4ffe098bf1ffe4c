"""The carry: the target that remains to be emitted after a stateful scheme has used part of it.

Below a node a, with the joint ratio r_x = Π T/p from a to x, a clip of scale ρ and cover factor c
(algorithm notation) leaves the chain of target rows

    T'(v|x) ∝ r_x T(v|x) - c · min(p(v|x), r_x T(v|x)/ρ)       for x shorter than the block,
    T'(v|x) = T(v|x)                                            beyond it.

ρ = c = 1 is the carry of greedy block verification, ∝ (r_x T(v|x) - p(v|x))+. Layers nest over
rounds: the target of the next round is this chain, and a layer dies at the end of its block.
Sources: Sun et al. (2403.10444, appendix on greedy block verification); the scaled form is ours.
"""

from __future__ import annotations

from draftproof.reference.clip import row_or_plain
from draftproof.reference.models import Model, Prefix
from draftproof.reference.numbers import ONE, Number
from draftproof.reference.rows import Row
from draftproof.reference.scheme import Outcome

__all__ = ["emit", "owed_chain"]


def owed_chain(
    draft: Model,
    target: Model,
    node: Prefix,
    length: int,
    scale: Number = ONE,
    cover: Number = ONE,
) -> Model:
    """The target chain below `node` once the clip (scale, cover) of the block has been taken out.

    `length` is the length of the block; prefixes are those of `target`. After a token that the
    draft row cannot draw (r = ∞), and where nothing is owed, the row is the plain one.
    """
    ratios: dict[Prefix, Number | None] = {node: ONE}

    def ratio(prefix: Prefix) -> Number | None:
        """r_x, or None for infinity."""
        if prefix not in ratios:
            parent, token = prefix[:-1], prefix[-1]
            before, p = ratio(parent), draft(parent)[token]
            infinite = before is None or p == 0
            ratios[prefix] = None if infinite else before * target(parent)[token] / p
        return ratios[prefix]

    def source(prefix: Prefix) -> Row:
        plain = target(prefix)
        if len(prefix) >= length or prefix[: len(node)] != node:
            return plain
        r = ratio(prefix)
        if r is None:
            return plain
        owed = tuple(
            r * t - cover * min(p, r * t / scale) for p, t in zip(draft(prefix), plain, strict=True)
        )
        return row_or_plain(owed, plain)

    return Model(target.vocab, source, max(length, target.carried))


def emit(accepted: Prefix, token: int, path: int, chain: Model) -> Outcome:
    """The outcome that carries what `chain` still differs by after the emitted tokens."""
    rest = chain.after((*accepted, token))
    return Outcome(accepted, token, path, rest if rest.carried else None)
