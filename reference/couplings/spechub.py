"""SpecHub: two drafts, one of which is always the likeliest token of the draft row (the hub).

Draft law: the first draft is drawn from p. The second is the hub a, unless the first is a: then it
is drawn from p without a. So the pair is {a, x} with probability m_x = p(x)/(1 - p(a)), and the
optimal transport is a walk through the hub: x takes min(m_x, q(x)) from its only pair, the hub
takes what is left of all pairs, up to q(a); what the target is still owed is drawn as correction.
Lossless, and optimal for that draft law. With p(a) = 1 both drafts are the hub.
Source: SpecHub (2411.05289, section 4).
"""

from __future__ import annotations

from draftproof.reference.chance import Chance
from draftproof.reference.clip import excess, row_or_plain
from draftproof.reference.couplings.candidates import Candidates, Choice, answer, one_token_block
from draftproof.reference.models import Model
from draftproof.reference.numbers import ONE, ZERO, divide, total
from draftproof.reference.rows import Row
from draftproof.reference.scheme import Outcome, Scheme
from draftproof.reference.tree import Drafts, hub_of

__all__ = ["SCHEME", "spechub", "verify"]


def spechub(chance: Chance, candidates: Candidates, draft_row: Row, target_row: Row) -> Choice:
    """The token of the transport through the hub.

    Raises:
        ValueError: not two drafts, or neither of them is the hub.
    """
    if len(candidates) != 2:
        raise ValueError(f"SpecHub takes a pair of drafts, not {len(candidates)}")
    hub = hub_of(draft_row)
    pairs = [
        ZERO if v == hub else divide(p, 1 - draft_row[hub], ZERO) for v, p in enumerate(draft_row)
    ]  # m
    passed_on = excess(target_row, tuple(pairs))  # (m - q)+, from each pair to the hub
    offered = total(passed_on) if draft_row[hub] != 1 else ONE
    to_hub = divide(min(offered, target_row[hub]), offered, ZERO)
    owed = list(excess(tuple(pairs), target_row))
    owed[hub] = target_row[hub] - min(offered, target_row[hub])
    correction = row_or_plain(tuple(owed), target_row)

    pair = {candidates[0], candidates[1]}
    others = pair - {hub}
    if len(others) > 1:
        raise ValueError(f"neither draft of {sorted(pair)} is the hub, token {hub}")
    law = [ZERO] * len(target_row)
    left = ONE
    for x in others:
        law[x] = divide(min(pairs[x], target_row[x]), pairs[x], ZERO)
        left -= law[x]
    law[hub] = left * to_hub
    left -= law[hub]
    return answer(
        chance, candidates, [mass + left * c for mass, c in zip(law, correction, strict=True)]
    )


def verify(chance: Chance, drafts: Drafts, draft: Model, target: Model) -> Outcome:
    """The coupling as a block scheme of length 1."""
    return one_token_block(spechub, chance, drafts, draft, target)


SCHEME = Scheme(
    name="spechub",
    kind="coupling",
    summary="two drafts, one of them the likeliest token, coupled through it",
    paper="Sun et al. 2024 (SpecHub), arXiv 2411.05289, section 4",
    verify=verify,
    draft_law="hub",
    drafts=(2, 2),
)
