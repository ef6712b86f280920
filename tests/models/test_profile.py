import math
import re

import pytest

from agentkit.models.errors import BadField
from agentkit.models.profile import GenerationProfile

RANGES = GenerationProfile.ranges()
NUMBERS = {name: r for name, r in RANGES.items() if "low" in r}
SWITCHES = [name for name, r in RANGES.items() if isinstance(r["default"], bool)]


def says(*parts):
    """A pattern that finds these parts in this order."""
    return ".*".join(re.escape(str(part)) for part in parts)


def test_the_defaults_are_those_of_the_spec():
    p = GenerationProfile()
    assert (p.temperature, p.thinking_budget, p.repetition_penalty, p.recursion_limit) == (0.1, 1536, 1.05, 60)
    assert (p.prefix_cache, p.cache_slots, p.prefix_guard) == (True, 2, 64)


@pytest.mark.parametrize("name", NUMBERS)
def test_both_ends_of_a_range_are_allowed_and_nothing_beyond(name):
    low, high = NUMBERS[name]["low"], NUMBERS[name]["high"]
    assert getattr(GenerationProfile(**{name: low}), name) == low
    assert getattr(GenerationProfile(**{name: high}), name) == high
    for value in (low - 1, high + 1):
        with pytest.raises(BadField, match=says(name, value, low, "to", high)):
            GenerationProfile(**{name: value})


@pytest.mark.parametrize("name", NUMBERS)
@pytest.mark.parametrize("value", ["warm", math.nan, math.inf, -math.inf, [1], True, "1e999"], ids=str)
def test_what_is_no_number_is_refused_with_the_range(name, value):
    with pytest.raises(BadField, match=says(name, value, NUMBERS[name]["low"], "to", NUMBERS[name]["high"])):
        GenerationProfile(**{name: value})


@pytest.mark.parametrize("name", [n for n, r in NUMBERS.items() if not isinstance(r["default"], float)])
def test_a_whole_number_has_no_fraction(name):
    with pytest.raises(BadField, match=says(name, NUMBERS[name]["low"] + 0.5)):
        GenerationProfile(**{name: NUMBERS[name]["low"] + 0.5})


@pytest.mark.parametrize("name", [n for n in RANGES if n != "thinking_nudge" and not RANGES[n].get("optional")])
@pytest.mark.parametrize("value", [None, ""])
def test_only_the_seed_may_be_empty(name, value):
    with pytest.raises(BadField, match=name):
        GenerationProfile(**{name: value})


@pytest.mark.parametrize("name", SWITCHES)
def test_a_switch_takes_words_and_refuses_others(name):
    assert [
        getattr(GenerationProfile(**{name: v}), name) for v in (True, "on", "Yes", "1", False, "off", "no", "0")
    ] == [True] * 4 + [False] * 4
    with pytest.raises(BadField, match=says(name, "maybe", "true and false")):
        GenerationProfile(**{name: "maybe"})


def test_every_field_has_a_case_above():
    assert set(RANGES) == set(NUMBERS) | set(SWITCHES) | {"thinking_nudge"}


def test_text_pairs_are_read_on_top_of_a_base():
    base = GenerationProfile(top_k=5)
    p = GenerationProfile.from_text(["temperature=0.7", " seed = 3", "constrained=on", "thinking_nudge=a=b"], base)
    assert (p.temperature, p.seed, p.constrained, p.thinking_nudge, p.top_k) == (0.7, 3, True, "a=b", 5)
    assert GenerationProfile.from_text(["seed=none"], p).seed is None


@pytest.mark.parametrize(
    "pair, names",
    [
        ("temperature", ("temperature", "key=value")),
        ("heat=1", ("heat", "temperature")),
        ("=1", ("''", "temperature")),
        ("temperature=hot", ("temperature", "hot", "0.0 to 2.0")),
    ],
)
def test_a_bad_pair_says_what_is_wrong(pair, names):
    with pytest.raises(BadField, match=says(*names)):
        GenerationProfile.from_text([pair])


def test_but_copies_and_checks():
    p = GenerationProfile(seed=1)
    assert p.but(temperature=0).temperature == 0 and p.but(temperature=0).seed == 1 and p.temperature == 0.1
    with pytest.raises(BadField, match=says("seed", -1, 0)):
        p.but(seed=-1)
    with pytest.raises(BadField, match="heat"):
        p.but(heat=1)


def test_seeds_may_be_large_but_not_wider_than_32_bits():
    assert GenerationProfile(seed=2**32 - 1).seed == 2**32 - 1
    with pytest.raises(BadField, match=says("seed", 2**32)):
        GenerationProfile(seed=2**32)
