"""Every lossless scheme, by exact enumeration: the target's law, whatever the stopping length."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import chain, pairwise, product
from typing import Any

import pytest
from draftproof.reference.catalogue import SCHEMES
from draftproof.reference.chance import TOKEN, Accept, Chance, Place, Replay, Select, enumerate_law
from draftproof.reference.instance import KINDS, DraftLaw, Instance, random_instance
from draftproof.reference.law import Law
from draftproof.reference.models import (
    Model,
    Prefix,
    block_law,
    context_free,
    joint,
    random_row,
    random_table,
)
from draftproof.reference.numbers import ONE, ZERO, Number, rational, total
from draftproof.reference.oracle import (
    Examination,
    Stop,
    block_stops,
    draw_drafts,
    examine,
    freeze_carry,
    thaw_carry,
)
from draftproof.reference.rounds import reach
from draftproof.reference.rows import row
from draftproof.reference.scheme import Outcome, Scheme
from draftproof.reference.tree import (
    Drafts,
    FixedDrafts,
    SampledDrafts,
    distinct_drafts,
    tree_drafts,
    whole_path,
)
from draftproof.reference.verifiers import block, ranked_block
from draftproof.reference.verifiers.block import verify_path
from hypothesis import given, settings
from hypothesis import strategies as st

# Options that are schemes of their own. Two labels keep ranked block small: it has exactly the
# same code for any number of them.
RANKED: list[dict[str, Any]] = [{"classes": 2, "types": 4}, {"classes": 3, "types": 5}]
VARIANTS: dict[str, list[dict[str, Any]]] = {
    "canonical": [{}, {"draft_law": "without_replacement"}],
    "kseq": [{}, {"grid": 1}, {"scale": rational(3)}],
    "kseq_block": [{}, {"grid": 2}],
    "ranked_block": RANKED,
    "ranked_block:stateful": RANKED,
    "spectr": [{}, {"grid": 1}, {"scale": rational(3)}],
    "spectr_gbv": [{}, {"scale": "kseq"}, {"scale": "kseq", "grid": 2}],
    "transport": [{}, {"grid": 7}],
}
# Which draft laws of an instance a scheme is made for.
LAWS: dict[str, list[DraftLaw]] = {
    "iid": ["iid"],
    "independent": ["iid"],
    "hub": ["iid"],
    "without_replacement": ["without_replacement"],
    "any": ["iid", "without_replacement", "fixed"],
}
ALSO: dict[str, list[DraftLaw]] = {
    "traversal": ["iid", "without_replacement"],
    "without_replacement": ["iid", "without_replacement"],
}
LOSSLESS = [s for s in SCHEMES.values() if s.lossless and not s.approximate]


def cases() -> list[Any]:
    return list(_cases())


def _cases() -> Iterator[Any]:
    for scheme in LOSSLESS:
        for options in VARIANTS.get(scheme.name, [{}]):
            for law in ALSO.get(scheme.name, LAWS[scheme.draft_law]):
                drawn: DraftLaw = "without_replacement" if "draft_law" in options else law
                named = " ".join(f"{k}={v}" for k, v in options.items())
                yield pytest.param(scheme, options, drawn, id=f"{scheme.name} {named} {drawn}")


# (V, L, K); one instance of each kind of rows for each size and seed.
SIZES = [
    *((2, 1, 2), (3, 1, 2), (3, 1, 3), (4, 1, 2), (2, 2, 1), (3, 2, 1), (2, 3, 1)),
    *((2, 2, 2), (2, 2, 3), (3, 2, 2), (2, 3, 2), (1, 2, 2), (2, 0, 2), (2, 2, 0)),
]
SEEDS = 3
LARGE = [(4, 2, 2), (3, 3, 2), (2, 3, 3)]


def instances(scheme: Scheme, law: DraftLaw) -> Iterator[Instance]:
    """At least 200 instances, degenerate ones among them."""
    least, most = scheme.drafts
    small = product(SIZES, KINDS, range(SEEDS))
    large = product(LARGE if scheme.kind == "verifier" else [], ("generic", "mixed"), range(1))
    for (V, L, K), kind, seed in chain(small, large):
        length = min(L, 1) if scheme.kind == "coupling" else L
        drafts = max(least, K if most is None else min(K, most))
        if scheme.name == "ranked_block:stateful" and V**length > 8 and seed:
            continue  # the slowest enumerations
        generator = random.Random(f"{V} {L} {K} {kind} {seed}")
        yield random_instance(generator, V, length, drafts, denominator=6, kind=kind, draft_law=law)


@pytest.mark.parametrize(("scheme", "options", "law"), cases())
def test_lossless(scheme: Scheme, options: dict[str, Any], law: DraftLaw) -> None:
    checked = 0
    for instance in instances(scheme, law):
        result = examine(scheme, instance, **options)
        assert result.total_variation == 0, instance
        checked += 1
    assert checked >= 180  # with the hypothesis test below, at least 200 for each scheme


def weights_to_row(weights: Sequence[int]) -> tuple[Number, ...]:
    mass = sum(weights)
    return tuple(rational(w) / mass for w in weights)


@st.composite
def drawn_instances(draw: st.DrawFn, law: DraftLaw) -> Instance:
    """Instances whose rows hypothesis chooses, and shrinks."""
    V = draw(st.integers(1, 3))
    L = draw(st.integers(0, 2 if V == 3 else 3))
    K = draw(st.integers(0, 3 if V ** (3 * L) <= 64 else 2))
    rows = st.lists(st.integers(0, 3), min_size=V, max_size=V).filter(any).map(weights_to_row)
    prefixes = [x for n in range(L + 1) for x in product(range(V), repeat=n)]
    target = {x: draw(rows) for x in prefixes}
    draft = {x: draw(rows) for x in prefixes if len(x) < L}
    paths = ()
    if law == "fixed":
        tokens = st.lists(st.integers(0, V - 1), min_size=L, max_size=L).map(tuple)
        paths = tuple(draw(tokens) for _ in range(K))
    return Instance(V, K, L, draft, target, law, paths)


@pytest.mark.parametrize(("scheme", "options", "law"), cases())
def test_lossless_on_rows_that_hypothesis_chooses(
    scheme: Scheme, options: dict[str, Any], law: DraftLaw
) -> None:
    least, most = scheme.drafts

    @settings(max_examples=25, deadline=None, derandomize=True, database=None)
    @given(drawn_instances(law))
    def holds(found: Instance) -> None:
        drafts = max(least, found.drafts if most is None else min(found.drafts, most))
        length = min(found.length, 1) if scheme.kind == "coupling" else found.length
        paths = tuple(p[:length] for p in found.paths[:drafts])
        instance = Instance(
            found.vocab, drafts, length, found.draft_rows, found.target_rows, law, paths
        )
        assert examine(scheme, instance, **options).total_variation == 0

    holds()


def test_ranked_block_with_its_default_constants() -> None:
    for seed, (size, kind) in enumerate(product([(2, 1, 2), (3, 1, 2), (2, 2, 2)], KINDS)):
        instance = random_instance(random.Random(seed), *size, denominator=6, kind=kind)
        assert examine("ranked_block", instance).total_variation == 0
        assert examine("ranked_block:stateful", instance).total_variation == 0


def random_sizes(count: int, drafts: int | None = None) -> Iterator[Instance]:
    """Instances of all kinds of rows, of 1 to 3 tokens and drafts."""
    for seed in range(count):
        generator = random.Random(seed)
        V, L = generator.choice([(2, 1), (3, 1), (2, 2), (3, 2), (2, 3)])
        K = drafts or generator.choice([1, 2, 2, 3] if V**L <= 4 else [1, 2])
        kind = generator.choice(list(KINDS))
        yield random_instance(generator, V, L, K, denominator=6, kind=kind)


# What validity says, token by token.

VERIFIERS = [s for s in LOSSLESS if s.kind == "verifier"]


@pytest.mark.parametrize("name", [s.name for s in VERIFIERS])
def test_next_token_given_every_emitted_prefix(name: str) -> None:
    """Given that the string begins with y, and whatever part of y was accepted, corrected or
    continued, the next token has the target row after y."""
    options = VARIANTS.get(name, [{}])[0]
    law: DraftLaw = LAWS[SCHEMES[name].draft_law][-1]
    most = SCHEMES[name].drafts[1]
    for seed in range(6):
        generator = random.Random(f"{name} {seed}")
        instance = random_instance(generator, 2, 2, most or 2, denominator=6, draft_law=law)
        emitted = examine(name, instance, **options).continued
        for length in range(3):
            for y in product(range(2), repeat=length):
                if any(z[:length] == y for z in emitted):
                    given_y = emitted.condition(lambda z, y=y: z[: len(y)] == y)  # type: ignore[misc]
                    following = given_y.map(lambda z, n=length: z[n])  # type: ignore[misc]
                    q = instance.target_model(y)
                    assert following == Law((v, q[v]) for v in range(2))


def given_accepted(stops: Law[Stop], y: Prefix) -> Law[int] | None:
    """The law of the token after y, given that y is accepted (and perhaps more)."""
    if not any(stop.accepted[: len(y)] == y for stop in stops):
        return None
    law = stops.condition(lambda stop: stop.accepted[: len(y)] == y)
    return law.map(lambda stop: (*stop.accepted, stop.next)[len(y)])


@pytest.mark.parametrize("name", [s.name for s in VERIFIERS if not s.stateful])
def test_next_token_given_every_accepted_prefix(name: str) -> None:
    """A stateless scheme owes even more: given that the prefix y is *accepted*, the next token has
    the target row after y. (Where y is not accepted its end is drawn from the target, and so is
    what follows; since all strings together are right, so are those.)"""
    options = VARIANTS.get(name, [{}])[0]
    law = LAWS[SCHEMES[name].draft_law][0]
    seen = 0
    for seed in range(12):
        drafts = SCHEMES[name].drafts[1] or 2
        generator = random.Random(seed)
        instance = random_instance(generator, 2, 2, drafts, denominator=6, draft_law=law)
        stops = examine(name, instance, **options).stops
        for y in [x for n in range(3) for x in product(range(2), repeat=n)]:
            q = instance.target_model(y)
            following = given_accepted(stops, y)
            assert following is None or following == Law((v, q[v]) for v in range(2))
            seen += following is not None
    assert seen > 50


def test_a_stateful_scheme_owes_it_only_on_average() -> None:
    """On the toy, greedy block verification accepts token 1 half as often as the target emits it,
    and what follows has the draft's row. The carry of the other half sets it right."""
    stops = toy("greedy_block").stops
    assert given_accepted(stops, ()) == Law({0: rational("1/3"), 1: rational("2/3")})
    assert given_accepted(stops, (1,)) == Law({0: rational("2/3"), 1: rational("1/3")})


# Known values and closed forms.


def toy(scheme: str, **options: Any) -> Examination:
    return examine(scheme, repeated(["2/3", "1/3"], ["1/3", "2/3"], 2, 1), **options)


@pytest.mark.parametrize(
    ("scheme", "value"), [("token_by_token", "10/9"), ("block", "11/9"), ("greedy_block", "12/9")]
)
def test_two_token_toy(scheme: str, value: str) -> None:
    result = toy(scheme)
    assert result.expected_accepted_length == rational(value)
    assert result.total_variation == 0


def test_block_reaches_a_node_with_its_weight() -> None:
    for instance in random_sizes(60, drafts=1):
        weights: dict[Prefix, Number] = {(): ONE}
        draft, target = instance.draft_model, instance.target_model
        for length in range(instance.length):
            for x in product(range(instance.vocab), repeat=length):
                for v, p in enumerate(draft(x)):
                    ratio = ZERO if p == 0 else target(x)[v] / p
                    weights[(*x, v)] = min(ONE, weights[x] * ratio)
        reached = reach(examine("block", instance).stops)
        for x, w in weights.items():
            assert reached.get(x, ZERO) == joint(draft, x) * w


def test_greedy_block_reaches_a_node_with_the_smaller_joint() -> None:
    for instance in random_sizes(60, drafts=1):
        reached = reach(examine("greedy_block", instance).stops)
        for length in range(instance.length + 1):
            for x in product(range(instance.vocab), repeat=length):
                joints = joint(instance.draft_model, x), joint(instance.target_model, x)
                assert reached.get(x, ZERO) == min(joints)


def test_tree_match_follows_the_target_as_far_as_the_tree_goes() -> None:
    for seed in range(40):
        instance = random_instance(random.Random(seed), 3, 2, 3, draft_law="fixed")
        reached = reach(examine("tree_match", instance).stops)
        nodes = {path[:n] for path in instance.paths for n in range(3)}
        for x in nodes:
            assert reached.get(x, ZERO) == joint(instance.target_model, x)
        assert reached.keys() <= nodes


def test_ranked_block_accepts_what_its_design_says() -> None:
    for instance in random_sizes(30, drafts=2):
        for stateful in (False, True):
            made = ranked_block.design_for(
                instance.draft_model,
                instance.target_model,
                2,
                classes=3,
                types=5,
                stateful=stateful,
            )
            expected = ZERO
            for length in range(1, instance.length + 1):
                for x in product(range(instance.vocab), repeat=length):
                    if joint(instance.draft_model, x) != 0:
                        expected += joint(made.selected, x) * made.weight(x)
            result = examine("ranked_block", instance, classes=3, types=5, stateful=stateful)
            assert result.expected_accepted_length == expected
            # The selected law is one that selection can reach: R(H) ≥ p(H)^K for every set H.
            paths = list(product(range(instance.vocab), repeat=instance.length))
            p = {x: joint(instance.draft_model, x) for x in paths}
            R = {x: joint(made.selected, x) if p[x] else ZERO for x in paths}
            assert total(R.values()) == 1
            if len(paths) <= 4:
                for chosen in product((False, True), repeat=len(paths)):
                    H = [x for x, inside in zip(paths, chosen, strict=True) if inside]
                    assert total(R[x] for x in H) >= total(p[x] for x in H) ** 2


def repeated(draft: Sequence[str], target: Sequence[str], length: int, drafts: int) -> Instance:
    """Context-free rows."""
    prefixes = [x for n in range(length + 1) for x in product(range(len(draft)), repeat=n)]
    rows = {x: row(draft) for x in prefixes if len(x) < length}
    return Instance(len(draft), drafts, length, rows, {x: row(target) for x in prefixes})


def test_more_drafts_accept_more_and_in_the_limit_everything() -> None:
    """SpecTr-GBV on the toy: the gap L - E[τ] falls by about a fifth with each draft. (With rows
    that the drafts do not cover the limit is less.)"""
    instances = [repeated(["2/3", "1/3"], ["1/3", "2/3"], 2, drafts) for drafts in range(1, 8)]
    values = [examine("spectr_gbv", i).expected_accepted_length for i in instances]
    assert values[:3] == [rational("4/3"), rational("40/27"), rational("386/243")]
    gaps = [2 - value for value in values]
    assert all(after < before * rational("9/10") for before, after in pairwise(gaps))
    assert gaps[-1] < rational("1/5")


@pytest.mark.parametrize("drafts", range(1, 6))
def test_multipath_can_accept_less_with_more_drafts(drafts: int) -> None:
    result = examine("multipath", repeated(["1/2", "1/2"], ["1/2", "1/2"], 1, drafts))
    assert result.expected_accepted_length == rational("1/2") + rational("1/2") ** drafts
    assert result.total_variation == 0


# Reductions, as equalities of laws.


def laws(scheme: str, instance: Instance, **options: Any) -> tuple[Any, Any]:
    result = examine(scheme, instance, **options)
    return result.law, result.continued


REDUCTIONS: list[tuple[str, dict[str, Any], str]] = [
    ("kseq_block", {}, "block"),
    ("ranked_block", {"classes": 3, "types": 4}, "block"),
    ("ranked_block:stateful", {"classes": 3, "types": 4}, "greedy_block"),
    ("spectr_gbv", {}, "greedy_block"),
    ("spectr_gbv", {"scale": "kseq"}, "greedy_block"),
    ("multipath", {}, "block"),
    ("traversal", {}, "block"),
    ("spectr", {}, "token_by_token"),
    ("spectr:recursive_rejection", {}, "token_by_token"),
    ("spectr:without_replacement", {}, "token_by_token"),
    ("spectr:transport", {}, "token_by_token"),
    ("spectr:canonical", {}, "token_by_token"),
]


@pytest.mark.parametrize(("several", "options", "one"), REDUCTIONS)
def test_one_draft_reduces_to(several: str, options: dict[str, Any], one: str) -> None:
    for instance in random_sizes(60, drafts=1):
        assert laws(several, instance, **options) == laws(one, instance)


def test_one_label_verifies_the_first_draft() -> None:
    for instance in random_sizes(40):
        first = Instance(
            instance.vocab, 1, instance.length, instance.draft_rows, instance.target_rows
        )
        assert laws("ranked_block", instance, classes=1) == laws("block", first)
        assert laws("ranked_block:stateful", instance, classes=1) == laws("greedy_block", first)


@pytest.mark.parametrize(
    ("walked", "coupling"),
    [
        ("spectr_gbv", "recursive_rejection"),
        ("spectr", "kseq"),
        ("spectr:recursive_rejection", "recursive_rejection"),
        ("spectr:target_match", "target_match"),
        ("tree_match", "target_match"),
        ("spectr:transport", "transport"),
        ("spectr:canonical", "canonical"),
        ("spectr:without_replacement", "without_replacement"),
        ("traversal", "without_replacement"),
    ],
)
def test_one_token_reduces_to(walked: str, coupling: str) -> None:
    name, _, option = walked.partition(" ")
    options = dict([option.split("=")]) if option else {}
    for seed in range(40):
        generator = random.Random(seed)
        V, K = generator.choice([(2, 2), (3, 2), (3, 3), (4, 2)])
        kind = generator.choice(list(KINDS))
        instance = random_instance(generator, V, 1, K, denominator=6, kind=kind)
        assert laws(name, instance, **options) == laws(coupling, instance)


@pytest.mark.parametrize(
    ("name", "options"), [("kseq_block", {}), ("spectr", {}), ("spectr_gbv", {"scale": "kseq"})]
)
@pytest.mark.parametrize("grid", [1, 4, 2**20])
def test_one_token_reduces_to_kseq(name: str, options: dict[str, Any], grid: int) -> None:
    """Also where the scale is rounded up a lot, so that the residual reaches drafted tokens."""
    for seed in range(20):
        generator = random.Random(seed)
        V, K = generator.choice([(2, 2), (3, 2), (3, 3), (4, 2)])
        kind = generator.choice(list(KINDS))
        instance = random_instance(generator, V, 1, K, denominator=6, kind=kind)
        assert laws(name, instance, grid=grid, **options) == laws("kseq", instance, grid=grid)


class _EachOnce:
    """Refuses a place that has been asked before on this history."""

    def __init__(self, chance: Chance) -> None:
        self._chance = chance
        self._asked: set[Place] = set()

    def _note(self, place: Place) -> None:
        assert place not in self._asked, f"{place} is asked twice"
        self._asked.add(place)

    def flip(self, probability: Number, place: Place) -> bool:
        self._note(place)
        return self._chance.flip(probability, place)

    def draw(self, weights: Sequence[Number], place: Place) -> int:
        self._note(place)
        return self._chance.draw(weights, place)


@pytest.mark.parametrize("scheme", SCHEMES.values(), ids=lambda s: s.name)
def test_every_uniform_is_used_at_most_once(scheme: Scheme) -> None:
    """K-SEQ used to go on when it drew a token that a draft has, with the token uniform again."""
    options = {"grid": 1} if "grid" in scheme.options else VARIANTS.get(scheme.name, [{}])[0]
    for seed in range(5):
        generator = random.Random(f"{scheme.name} {seed}")
        V, L, K = generator.choice([(2, 2, 2), (3, 1, 2), (2, 1, 3), (2, 2, 3)])
        length = 1 if scheme.kind == "coupling" else L
        least, most = scheme.drafts
        count = max(least, K if most is None else min(K, most))
        instance = random_instance(generator, V, length, count, denominator=6)
        draft, target = instance.draft_model, instance.target_model

        def program(
            chance: Chance, instance: Any = instance, d: Any = draft, t: Any = target
        ) -> int:
            drafts = draw_drafts(chance, instance, scheme)
            paths = [whole_path(drafts, k) for k in range(drafts.count)]
            fixed = FixedDrafts(paths, instance.length)
            return scheme.verify(_EachOnce(chance), fixed, d, t, **options).next

        enumerate_law(program)


@pytest.mark.parametrize("scheme", LOSSLESS, ids=lambda s: s.name)
def test_no_length_or_no_drafts_emit_the_bonus_at_once(scheme: Scheme) -> None:
    draft, target = random_table(random.Random(1), 3, 2), random_table(random.Random(2), 3, 2)
    for drafts in (FixedDrafts([], 1), FixedDrafts([(), ()], 0)):
        outcome = scheme.verify(Replay((), "5/7"), drafts, draft, target)
        assert (outcome.accepted, outcome.path, outcome.carry) == ((), 0, None)
        assert outcome.next == next(
            v for v in range(3) if total(target(())[: v + 1]) > rational("5/7")
        )


# Other draft laws.


def continued(stops: Law[Stop], target: Model, length: int) -> Law[Prefix]:
    def rest(stop: Stop) -> Law[Prefix]:
        emitted = (*stop.accepted, stop.next)
        model = thaw_carry(stop.carry, target.after(emitted))
        return block_law(model, length + 1 - len(emitted)).map(lambda y: emitted + y)

    return stops.bind(rest)


@pytest.mark.parametrize(
    "name", [s.name for s in LOSSLESS if s.draft_law in ("independent", "any")]
)
def test_a_different_model_for_each_draft(name: str) -> None:
    scheme = SCHEMES[name]
    for seed in range(60):
        generator = random.Random(f"{name} {seed}")
        V, L, K = generator.choice([(2, 1, 3), (3, 1, 2), (2, 2, 2), (3, 2, 2), (2, 2, 3)])
        length = 1 if scheme.kind == "coupling" else L
        models = [random_table(generator, V, length, 6) for _ in range(K)]
        target = random_table(generator, V, length, 6)

        def drafts(chance: Chance, models: Any = models, length: int = length) -> Drafts:
            return SampledDrafts(chance, models, length)

        options = VARIANTS.get(name, [{}])[0]
        program = partial(_stop, scheme, drafts, models, target, options)
        assert continued(enumerate_law(program), target, length) == block_law(target, length + 1)


def _stop(
    scheme: Scheme,
    drafts: Callable[[Chance], Drafts],
    draft: Any,
    target: Model,
    options: dict[str, Any],
    chance: Chance,
) -> Stop:
    outcome = scheme.verify(chance, drafts(chance), draft, target, **options)
    return Stop(outcome.accepted, outcome.next, freeze_carry(outcome.carry))


def test_the_law_of_each_draft_when_it_is_selected_averages_to_that_of_the_selected() -> None:
    edges = ranked_block.default_label_edges(3, 4)
    pi = ranked_block.label_law(edges)
    shares = [ZERO] * 4
    for k in range(3):
        boost = ranked_block.own_boost(edges, 3, k)
        assert total(a * b for a, b in zip(pi, boost, strict=True)) == 1
        wins = total(
            p * low**k * high ** (2 - k)
            for p, low, high in zip(pi, edges[:-1], edges[1:], strict=True)
        )
        shares = [s + wins * u for s, u in zip(shares, boost, strict=True)]
    assert tuple(shares) == ranked_block.label_boost(edges, 3)
    assert ranked_block.own_boost((ZERO, ONE), 2, 1) == (ONE,)  # one label: never selected


def test_different_models_are_refused_where_they_would_bias() -> None:
    models = [random_table(random.Random(k), 2, 1) for k in range(2)]
    target = random_table(random.Random(9), 2, 1)
    drafts = FixedDrafts([(0,), (1,)])
    with pytest.raises(ValueError, match="one draft model"):
        SCHEMES["spectr_gbv"].verify(Replay(), drafts, models, target, scale="kseq")
    for name in ("spectr", "spectr:transport", "spectr:canonical", "kseq"):
        with pytest.raises(ValueError, match=r"takes one draft model .* draft 1 has another row"):
            SCHEMES[name].verify(Replay([[0.99], [0.99]]), drafts, models, target)
    for name in ("kseq_block", "traversal", "multipath", "block"):
        with pytest.raises(ValueError, match=f"{name} takes one draft model for all drafts"):
            block_stops(name, lambda chance: drafts, models, target)
    with pytest.raises(ValueError, match="2 draft models were given for 3 drafts"):
        SCHEMES["spectr_gbv"].verify(Replay(), FixedDrafts([(0,)] * 3), models, target)


@pytest.mark.parametrize("name", ["traversal", "spectr:without_replacement", "tree_match"])
def test_static_trees_drawn_without_replacement(name: str) -> None:
    """Every node of the tree draws its children without replacement, as in Sequoia."""
    for seed in range(40):
        generator = random.Random(seed)
        V, widths = generator.choice(
            [(2, (2, 1)), (3, (2, 1)), (2, (1, 2)), (2, (2, 2)), (3, (3,))]
        )
        kind = generator.choice(list(KINDS))
        instance = random_instance(generator, V, len(widths), 1, denominator=6, kind=kind)
        draft, target = instance.draft_model, instance.target_model
        stops = block_stops(
            name,
            lambda chance, d=draft, w=widths: tree_drafts(chance, d, w),  # type: ignore[misc]
            draft,
            target,
        )
        assert continued(stops, target, len(widths)) == block_law(target, len(widths) + 1)


def test_drawing_with_replacement_biases_a_scheme_that_assumes_none() -> None:
    """The raw row in place of the renormalised one (a fault that engines had): TV 1/10 here."""
    draft, target = context_free(["6/10", "3/10", "1/10"]), context_free(["2/10", "5/10", "3/10"])
    stops = block_stops(
        "recursive_rejection",
        lambda chance: distinct_drafts(chance, draft, 2, 1),
        draft,
        target,
    )
    first = continued(stops, target, 1).map(lambda y: y[0])
    assert first == Law({0: rational("1/5"), 1: rational("3/5"), 2: rational("1/5")})


# Ranked block: any coupling is lossless, a wrong one is not.


def any_coupling(seed: int) -> Any:
    """Proposals that are far from a coupling: the repair makes them one."""

    def couple(prefix: Prefix, types: Any, edges: Any, labels: Any, *_: Any) -> Any:
        generator = random.Random(f"{seed} {prefix}")
        choices = [-1, 0, 0, rational("1/8"), 0.3, rational("2/3"), 5]
        return [[generator.choice(choices) for _ in labels] for _ in types]

    return couple


def test_ranked_block_is_lossless_for_any_coupling() -> None:
    for seed, instance in enumerate(random_sizes(60)):
        generator = random.Random(seed)
        inner = sorted(generator.sample(range(1, 8), 2))
        options = {
            "couple": any_coupling(seed),
            "label_edges": [0, *(rational(i) / 8 for i in inner), 1],
            "ratio_edges": [0, rational("1/2"), 1, rational("7/3")],
            "stateful": seed % 3 == 0,
        }
        assert examine("ranked_block", instance, **options).total_variation == 0


def test_the_repair_gives_exact_marginals() -> None:
    for seed in range(200):
        generator = random.Random(seed)
        rows = random_row(generator, generator.randint(1, 5))
        columns = random_row(generator, generator.randint(1, 4))
        proposal = any_coupling(seed)((), rows, None, columns)
        M = ranked_block.repaired(proposal, rows, columns)
        assert [total(line) for line in M] == list(rows)
        assert [total(line[c] for line in M) for c in range(len(columns))] == list(columns)
        assert min(min(line) for line in M) >= 0


def first_of_two(labels: dict[Prefix, Any], rows: Model) -> Number:
    """P(token 0) when the draft selected by these label laws is verified with these rows, for
    p = q = (1/2, 1/2)."""
    fair = context_free(["1/2", "1/2"])

    def program(chance: Chance) -> int:
        drafts = SampledDrafts(chance, [fair, fair], 1)
        winner, best = 0, -1
        for k in range(2):
            law = row(labels[whole_path(drafts, k)])
            rise = ranked_block.rises_above(chance, law, best, k, k == 1)
            winner, best = (k, best + rise) if rise else (winner, best)
        outcome: Outcome = verify_path(chance, whole_path(drafts, winner), winner, rows, fair)
        return (*outcome.accepted, outcome.next)[0]

    return enumerate_law(program).probability(0)


def test_faults_of_ranked_block() -> None:
    """Two planted faults, with their exact bias: the selected path verified with the draft rows,
    and label laws that do not average to those of the node."""
    half = row(["1/2", "1/2"])
    right: dict[Prefix, Any] = {(0,): ["0", "1"], (1,): ["1", "0"]}
    assert first_of_two(right, Model(2, lambda x: row(["3/4", "1/4"]))) == rational("1/2")
    assert first_of_two(right, Model(2, lambda x: half)) == rational("3/4")
    drifting: dict[Prefix, Any] = {(0,): ["0", "1"], (1,): ["3/4", "1/4"]}
    wrong_rows = (rational("3/4"), rational("3/8"))
    assert first_of_two(drifting, Model(2, lambda x: wrong_rows)) == rational("11/24")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"label_edges": [0, "1/2"]}, "label_edges end at 1/2, not 1"),
        ({"label_edges": [0, "1/2", "1/2", 1]}, "label_edges must increase from 0"),
        ({"ratio_edges": [1, 2]}, "ratio_edges must increase from 0"),
        ({"types": 3}, "types must be an integer of at least 4, not 3"),
    ],
)
def test_ranked_block_refuses_bad_constants(options: dict[str, Any], message: str) -> None:
    model = context_free(["1/2", "1/2"])
    with pytest.raises(ValueError, match=message):
        ranked_block.verify(Replay(), FixedDrafts([(0,), (1,)]), model, model, **options)


def test_default_constants() -> None:
    for drafts in (1, 2, 8):
        edges = ranked_block.default_label_edges(drafts)
        assert (edges[0], edges[-1], len(edges)) == (0, 1, 9)
        boost = ranked_block.label_boost(edges, drafts)
        mean = total(a * b for a, b in zip(boost, ranked_block.label_law(edges), strict=True))
        assert mean == 1
        assert sorted(boost) == list(boost)
        for j, s in enumerate(edges):
            below = s - rational(1) / ranked_block.LABEL_GRID
            assert (s + s**drafts) / 2 >= rational(j) / 8
            assert j == 0 or (below + below**drafts) / 2 < rational(j) / 8
    ratios = ranked_block.default_ratio_edges()
    assert (len(ratios), ratios[0], ratios[-1]) == (17, 0, 64)
    assert (ratios[1], ratios[8], ratios[15]) == (rational("1/16"), 1, 16)


# Where uniforms are read: the randomness contract.


class _Places:
    """Answers from a generator and notes every place that is asked."""

    def __init__(self, seed: int) -> None:
        self.generator = random.Random(seed)
        self.asked: list[Any] = []

    def flip(self, probability: Number, place: Any) -> bool:
        self.asked.append(place)
        return bool(rational(self.generator.random()) < probability)

    def draw(self, weights: Sequence[Number], place: Any) -> int:
        self.asked.append(place)
        floats = [float(w) for w in weights]
        return self.generator.choices(range(len(floats)), floats)[0]


@pytest.mark.parametrize("scheme", LOSSLESS, ids=lambda s: s.name)
def test_every_place_is_asked_at_most_once(scheme: Scheme) -> None:
    """One uniform for each (draft, depth), one for each label, one for the token."""
    options = VARIANTS.get(scheme.name, [{}])[0]
    for seed in range(150):
        generator = random.Random(seed)
        V, L, K = generator.choice([(2, 2, 2), (3, 2, 3), (2, 3, 3), (3, 1, 3)])
        length = min(L, 1) if scheme.kind == "coupling" else L
        count = K if scheme.drafts[1] is None else scheme.drafts[1]
        instance = random_instance(generator, V, length, count, denominator=6)
        chance = _Places(seed)
        draft, target = instance.draft_model, instance.target_model
        if scheme.draft_law == "without_replacement":
            drafts: Drafts = distinct_drafts(chance, draft, count, length)
        else:
            drafts = draw_drafts(chance, instance, scheme)
        tokens = [whole_path(drafts, k) for k in range(count)]
        chance.asked.clear()
        outcome = scheme.verify(chance, drafts, draft, target, **options)
        asked = chance.asked
        assert len(asked) == len(set(asked))
        assert asked.count(TOKEN) <= 1
        for place in asked:
            match place:
                case Accept(k, depth):
                    assert 0 <= k < count
                    assert 1 <= depth <= length
                case Select(k):
                    assert scheme.selects
                    assert 0 <= k < count
        accepted = outcome.accepted
        assert tuple(tokens[outcome.path][: len(accepted)]) == accepted
        assert 0 <= outcome.next < V


def test_block_module_is_the_paper_beside_the_closed_form() -> None:
    """The block residual sums to S = w - M(w)."""
    p, q = row(["1/2", "1/4", "1/4"]), row(["1/5", "2/5", "2/5"])
    w = rational("3/4")
    owed = block.block_residual(p, q, w)
    assert total(owed) == 1
    assert owed[0] == 0
