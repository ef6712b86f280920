"""Values: every kind draws, the same for one seed in every process, and what is said can be copied into the call."""

import json
import os
import re
import subprocess
import sys
from datetime import date

import pytest

from agentkit.training import values
from agentkit.training.catalog import leaf_names
from tests.training.conftest import DATA

ARGUMENTS = {"int": "int(1,9)", "number": "number(1,9)", "choice": "choice(a|b|c)", "list": "list(city,2,3)"}
NOT_DRAWN = {"enum", "object"}  # the schema itself holds their values


def documented() -> list[str]:
    """The kinds that data/finetune/README.md offers to a writer, with arguments where they need some."""
    listed = (DATA / "README.md").read_text().split("\nKinds: ")[1].split("\n\n")[0]
    names = [re.match(r"\w+", kind)[0] for kind in re.findall(r"`([^`]+)`", listed)]
    return [ARGUMENTS.get(name, name) for name in names if name not in NOT_DRAWN]


KINDS = documented()
NUMBERS = {"int(1,9)": int, "number(1,9)": (int, float), "percent": (int, float), "money": (int, float), "year": int,
           "duration_minutes": int}
# What is said and what is called may differ here, by a fixed rule that a model can learn.
RULES = {"date", "time", "currency", "expression", "flag"}


def drawn(kind, seed=3, count=60):
    rng = values.seed(seed)
    return [values.draw(kind, rng) for _ in range(count)]


def test_the_readme_lists_every_kind_of_text():
    assert len(KINDS) > 50
    known = {*values._TEXT, *(name for name, words in values.LISTS.items() if words)}
    assert known <= set(KINDS)


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_draws_and_one_seed_gives_one_sequence(kind):
    first, again = drawn(kind), drawn(kind)
    assert first == again
    assert all(value.said.strip() for value in first)
    if kind != "flag":
        assert drawn(kind, seed=4) != first
        assert len({value.said for value in first}) > 2


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind not in RULES])
def test_what_is_said_can_be_copied(kind):
    for value in drawn(kind):
        if kind in NUMBERS:
            assert isinstance(value.value, NUMBERS[kind]) and not isinstance(value.value, bool)
            told = values.COUNTED.index(value.said) + 2 if value.said in values.COUNTED else float(value.said.replace(",", ""))
            assert told == value.value
        elif kind.startswith("list("):
            assert isinstance(value.value, list) and len(value.value) in (2, 3)
            assert all(item in value.said for item in value.value)
        else:
            assert value.said == value.value


def test_a_time_in_words_is_the_time_in_the_call():
    """Read back by other means than it was written."""
    hours = {word: hour for hour, word in enumerate(["twelve", "one", *values.COUNTED[:-1]])}
    spoken = 0
    for value in drawn("time", count=400):
        hour, minute = map(int, value.value.split(":"))
        words = value.said.removesuffix(" in the morning").removesuffix(" in the afternoon").removesuffix(" in the evening")
        if words != value.said:
            spoken += 1
            part, name = words.rsplit(" ", 1) if "o'clock" not in words else ("at", words.split()[0])
            shift = {"at": 0, "quarter past": 15, "half past": 30, "quarter to": -15}[part]
            assert (hours[name] * 60 + shift) % 720 == (hour * 60 + minute) % 720
            assert value.said.endswith("morning") == (hour < 12) and value.said.endswith("evening") == (hour >= 18)
        elif value.said != value.value:
            clock, half = re.fullmatch(r"([\d:]+) ?(am|pm)", value.said).groups()
            told = clock.split(":") + ["0"] * (":" not in clock)
            assert (int(told[0]) % 12 + 12 * (half == "pm"), int(told[1])) == (hour, minute)
    assert spoken > 50


def test_most_text_comes_from_large_sets():
    """Short lists are recalled instead of copied."""
    for kind in ("person", "city", "company", "email", "id", "path", "sentence", "title", "username", "street"):
        assert len({value.value for value in drawn(kind, count=200)}) > 150, kind


def test_whitespace_is_single():
    """A request is written with single spaces, so a value with two could not be copied from it."""
    for kind in KINDS:
        for value in drawn(kind, count=200):
            assert value.said == " ".join(value.said.split()), kind


def test_numbers_stay_in_range_and_one_kind_of_integer_may_be_said_with_commas():
    assert {value.value for value in drawn("int(1,9)", count=200)} == set(range(1, 10))
    assert all(2 <= value.value <= 5 for value in drawn("number(2,5)", count=200))
    said = [value.said for value in drawn("int(20000,90000)", count=200)]
    assert any("," in text for text in said) and any("," not in text for text in said)


def test_dates_are_called_in_iso_form():
    for value in drawn("date"):
        day = date.fromisoformat(value.value)
        assert value.said == value.value or (str(day.year) in value.said and f"{day:%B}" in value.said and str(day.day) in value.said)
    assert any(value.said != value.value for value in drawn("date"))


def test_currencies_are_called_by_code():
    for value in drawn("currency"):
        assert values.CURRENCIES[value.value] == value.said or value.said == value.value
    assert any(value.said != value.value for value in drawn("currency"))


def test_spoken_expressions_are_called_with_signs():
    signs = {word: sign for sign, said in values.SPOKEN.items() for word in said}
    spoken = 0
    for value in drawn("expression", count=300):
        words = value.said
        for word in sorted(signs, key=len, reverse=True):
            words = words.replace(f" {word} ", f" {signs[word]} ")
        assert words == value.value
        assert re.fullmatch(r"[\d.+\-*/() ]+", value.value)
        spoken += value.said != value.value
    assert 60 < spoken < 200


def test_a_list_of_numbers_holds_numbers():
    lists = drawn("list(int(1,500),2,4)")
    assert all(isinstance(item, int) for value in lists for item in value.value)
    assert {len(value.value) for value in lists} == {2, 3, 4}
    assert any(value.said.startswith("[") for value in lists) and any(" and " in value.said for value in lists)


@pytest.mark.parametrize("kind", ["cty", "", "int", "int(a,b)", "list(city)", "list(cty,1,2)", "choice", "number(1)", "city)"])
def test_a_bad_kind_is_a_value_error_that_names_it(kind):
    with pytest.raises(ValueError) as caught:
        values.draw(kind, values.seed(1))
    assert repr(kind) in str(caught.value) or "'cty'" in str(caught.value)


def test_every_process_draws_the_same():
    """Faker's Italian towns stand in a set: their order would change with the hash seed of a process."""
    code = ("import json, sys; from agentkit.training import values; rng = values.seed(5)\n"
            "print(json.dumps([values.draw(kind, rng).said for kind in sys.argv[1:] for _ in range(60)]))")
    told = [subprocess.run([sys.executable, "-c", code, *KINDS], capture_output=True, text=True, check=True,
                           env=os.environ | {"PYTHONHASHSEED": seed}).stdout for seed in ("0", "3")]
    assert len(json.loads(told[0])) == 60 * len(KINDS)
    assert told[0] == told[1]


def test_leaf_names_of_an_object_stand_in_its_place():
    table = {"a": {"type": "string"}, "o": {"type": "object", "fields": {"x": {"type": "string"}, "y": {"type": "string", "optional": True}}}}
    assert leaf_names(table) == ["a", "x", "y"]
    assert leaf_names(table, required_only=True) == ["a", "x"]
