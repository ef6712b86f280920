"""Dialogues: what is drawn is reproducible, valid, copyable, and mixed as declared."""

import json
import random
import re

import pytest
from jsonschema import Draft202012Validator

from agentkit.training import dialogues, values
from agentkit.training.catalog import HOLE, ToolSpec
from agentkit.training.dialogues import REFUSALS, SHARES, chain, dialogue, group, realise, use

# By a rule, not by copying: see test_values.py.
RULED = {"date", "time", "currency", "expression", "enum", "flag"}


@pytest.fixture(scope="module")
def groups(corpus):
    return [group(corpus, values.seed(number)) for number in range(250)]


def calls_of(messages):
    return [call["function"] for message in messages for call in message.get("tool_calls", [])]


def last_turn(messages):
    """The last question and what follows it."""
    start = max(i for i, message in enumerate(messages) if message["role"] == "user")
    return messages[start:]


def strict(schema):
    """The schema, closed to parameters it does not list, at every level."""
    if schema.get("type") == "object":
        return schema | {"additionalProperties": False, "properties": {k: strict(v) for k, v in schema["properties"].items()}}
    return schema


def leaves(parameters):
    for name, p in parameters.items():
        yield from leaves(p["fields"]) if p.get("fields") else [(name, p)]


def flat(arguments):
    """All plain values of a call, those inside objects and lists too."""
    if isinstance(arguments, dict):
        return [x for value in arguments.values() for x in flat(value)]
    return [x for value in arguments for x in flat(value)] if isinstance(arguments, list) else [arguments]


def test_a_seed_gives_one_group(corpus):
    for number in range(20):
        one, two = (group(corpus, values.seed(number)) for _ in range(2))
        assert one == two
    assert group(corpus, values.seed(1)) != group(corpus, values.seed(2))


def test_every_call_names_a_shown_tool_and_fits_its_schema(groups):
    checked = 0
    for made in groups:
        shown = {tool["function"]["name"]: tool["function"]["parameters"] for tool in made.tools}
        assert len(shown) == len(made.tools), "two tools of one name"
        for messages in made.dialogues:
            for call in calls_of(messages):
                Draft202012Validator(strict(shown[call["name"]])).validate(call["arguments"])
                checked += 1
    assert checked > 1000


def test_tools_are_valid_and_not_too_many(groups):
    for made in groups:
        assert len(made.tools) <= 11
        assert len(made.dialogues) == 8
        for tool in made.tools:
            Draft202012Validator.check_schema(tool["function"]["parameters"])
            assert tool["function"]["description"].strip()
    assert len({len(made.tools) for made in groups}) > 6


def test_no_hole_or_bracket_of_a_template_is_left(groups):
    for made in groups:
        told = json.dumps(made.dialogues)
        assert not HOLE.search(told), HOLE.search(told)
        assert "[!" not in told


def test_roles_alternate_as_a_template_expects(groups):
    for made in groups:
        for messages in made.dialogues:
            assert messages[0]["role"] == "user" and messages[-1]["role"] == "assistant"
            for before, after in zip(messages, messages[1:]):
                wanted = {"user": {"assistant"}, "tool": {"assistant"}, "assistant": {"tool"} if before.get("tool_calls") else {"user"}}
                assert after["role"] in wanted[before["role"]]


@pytest.mark.parametrize("number", range(12))
def test_what_is_copied_stands_in_the_request(corpus, number):
    """A value that the request does not hold could only be made up."""
    rng = values.seed(900 + number)
    for spec in corpus.tools:
        drawn = use(realise(spec, rng), rng)
        kinds = {name: p.get("kind", "").split("(")[0] for name, p in leaves(spec.parameters)}
        if RULED & {*kinds.values()}:
            continue
        for value in flat(drawn.call["arguments"]):
            if isinstance(value, str):
                assert value in drawn.request, (spec.key, drawn)


def test_a_value_at_the_end_keeps_its_full_stop():
    """Requests are told with and without their last mark; a company may end in one of its own."""
    rng, ends = values.seed(2), set()
    tool = realise(ToolSpec("test", ["f"], ["F."], {"x": {"type": "string", "kind": "choice(Foo Sp.k.|Bar Inc.)"}},
                            ["who is {x}", "tell me of {x}.", "{x}?"], outcomes=[{"result": "", "answer": ""}]), rng)
    for _ in range(300):
        drawn = use(tool, rng)
        assert drawn.call["arguments"]["x"] in drawn.request
        ends.add(drawn.request[-2:])
    assert {"..", ".?", "c.", "k."} <= ends


SPEC = ToolSpec("test", ["real_name"], ["Does it."], {
    "who": {"type": "string", "kind": "person", "description": "Who."}, "where": {"type": "string", "kind": "city", "optional": True, "description": "Where."},
    "loud": {"type": "boolean", "kind": "flag", "optional": True, "description": "Loudly."},
    "size": {"type": "object", "kind": "object", "fields": {"width": {"type": "integer", "kind": "int(1,9)", "optional": True}}, "optional": True}},
    ["{who} does it[ at {where}][!loud: aloud][, {width} wide]", "{who} does it[!loud=false: quietly]", "do it, {who}"],
    outcomes=[{"result": "{who}", "answer": "{who} did it."}])


def test_a_dropped_stretch_leaves_its_parameter_out():
    rng, seen = values.seed(2), set()
    for _ in range(200):
        drawn = use(realise(SPEC, rng), rng)
        arguments = drawn.call["arguments"]
        assert ("where" in arguments) == (" at " in drawn.request)
        assert arguments.get("loud") == (True if "aloud" in drawn.request else False if "quietly" in drawn.request else None)
        assert ("size" in arguments) == ("wide" in drawn.request), "an object none of whose fields is given is left out"
        assert arguments["who"] in drawn.request and drawn.result == arguments["who"]
        seen.add(frozenset(arguments))
    assert len(seen) > 6


def test_a_masked_tool_keeps_its_description_under_made_up_names(corpus):
    rng = values.seed(1)
    renamed = 0
    for spec in corpus.tools:
        shown = realise(spec, rng, mask=True)
        assert shown.name not in spec.names
        assert shown.schema["function"]["description"] in spec.descriptions
        for name, p in spec.parameters.items():
            known = {name, *(p.get("names") or [])}
            renamed += shown.parameter[name] not in known
            if shown.parameter[name] not in known:
                assert shown.schema["function"]["parameters"]["properties"][shown.parameter[name]]["description"]
        Draft202012Validator(strict(shown.schema["function"]["parameters"])).validate(use(shown, rng).call["arguments"])
    assert renamed > len(corpus.tools)


def test_masked_groups_show_made_up_names_only(corpus, groups):
    known = {name for tool in corpus.tools for name in tool.names}
    known |= {name for entry in corpus.chains for call in entry["calls"] for name in call["tool"]["names"]}
    masked = 0
    for made in groups:
        made_up = [tool["function"]["name"] not in known for tool in made.tools]
        assert all(made_up) or not any(made_up)
        masked += bool(made_up) and all(made_up)
    assert abs(masked / len(groups) - dialogues.MASK_SHARE) < 0.09


def kind_of(messages, corpus):
    turn = last_turn(messages)
    calls = calls_of(turn)
    if len(calls) == 2:
        return "two"
    if not calls:
        return "missing" if turn[-1]["content"] in REFUSALS else "talk"
    return "call or error"


def test_shares_are_as_declared(corpus):
    rng = values.seed(11)
    counts = dict.fromkeys(["call or error", "two", "talk", "missing"], 0)
    for _ in range(150):
        specs = rng.sample(corpus.tools, 9)
        tools = [realise(spec, rng) for spec in specs[:4]]
        for _ in range(10):
            counts[kind_of(dialogue(corpus, tools, specs[4:], rng), corpus)] += 1
    wanted = {"call or error": SHARES["call"] + SHARES["error"], **{k: SHARES[k] for k in ("two", "talk", "missing")}}
    assert sum(SHARES.values()) == pytest.approx(1)
    assert {kind: count / 1500 for kind, count in counts.items()} == pytest.approx(wanted, abs=0.04)


def test_talk_and_a_missing_tool_make_no_call_and_every_use_makes_one(corpus, groups):
    questions = {question for entry in corpus.talk for question in entry["questions"]}
    refused = 0
    for made in groups:
        for messages in made.dialogues:
            turn = last_turn(messages)
            if turn[0]["content"] in questions:
                assert not calls_of(turn)
            if turn[-1]["content"] in REFUSALS:
                assert len(turn) == 2
                refused += 1
    assert refused > 100


def test_an_error_is_answered_honestly(corpus, monkeypatch):
    monkeypatch.setattr(dialogues, "SHARES", {"error": 1.0})
    rng, seen = values.seed(3), 0
    for spec in (spec for spec in corpus.tools if spec.errors):
        turn = last_turn(dialogue(corpus, [realise(spec, rng)] * 3, [], rng))
        assert len(calls_of(turn)) == 1 and [m["role"] for m in turn] == ["user", "assistant", "tool", "assistant"]
        patterns = [re.escape(error["answer"]) for error in spec.errors]
        patterns = [re.sub(r"\\\{\w+\\\}", ".+", pattern) for pattern in patterns]
        assert any(re.fullmatch(pattern, turn[-1]["content"], re.S) for pattern in patterns)
        seen += 1
    assert seen > 50


def test_two_requests_keep_their_values_as_they_were_written(corpus, monkeypatch):
    """Lowering the first letter of the second request must not touch a value that stands there."""
    monkeypatch.setattr(dialogues, "SHARES", {"two": 1.0})
    plain = [spec for spec in corpus.tools if not RULED & {p.get("kind", "").split("(")[0] for _, p in leaves(spec.parameters)}]
    rng = values.seed(8)
    for _ in range(400):
        turn = last_turn(dialogue(corpus, [realise(spec, rng) for spec in rng.sample(plain, 3)], [], rng))
        assert len(calls_of(turn)) == 2
        for call in calls_of(turn):
            for value in flat(call["arguments"]):
                assert not isinstance(value, str) or value in turn[0]["content"], (value, turn[0])


def test_a_chains_later_call_needs_an_earlier_result(corpus):
    rng = values.seed(4)
    for entry in corpus.chains:
        tools, [messages] = chain(entry, rng, mask=rng.random() < 0.5, copies=1)
        calls = calls_of(messages)
        assert len(calls) == len(entry["calls"]) >= 2
        shown = {tool["function"]["name"]: tool["function"]["parameters"] for tool in tools}
        results = [message["content"] for message in messages if message["role"] == "tool"]
        carried = False
        for at, call in enumerate(calls):
            Draft202012Validator(strict(shown[call["name"]])).validate(call["arguments"])
            earlier = "\n".join(results[:at])
            carried |= any(str(value) in earlier for value in flat(call["arguments"]))
        assert carried, messages
        # And not out of the request: some hole of a result goes into a later call and into no request.
        asked = set(HOLE.findall(" ".join(entry["requests"])))
        found = set(HOLE.findall(str(entry["calls"][0]["result"])))
        later = {hole for call in entry["calls"][1:] for hole in HOLE.findall(json.dumps(call["arguments"]))}
        assert (found & later) - asked, entry["requests"][0]


def test_a_groups_chain_is_shown_with_its_tools(groups):
    assert sum(any(len(calls_of(last_turn(messages))) >= 2 for messages in made.dialogues) for made in groups) > len(groups) / 3


def test_without_talk_or_absent_tools_a_call_is_drawn():
    rng = random.Random(1)
    values.seed(1)
    from agentkit.training.catalog import Corpus

    bare = Corpus([SPEC], [], [], [])
    for _ in range(50):
        assert calls_of(last_turn(dialogue(bare, [realise(SPEC, rng)], [], rng)))


def test_a_group_without_tools_answers_sums_rightly(groups):
    sums = 0
    for made in groups:
        if made.tools:
            continue
        assert not any(calls_of(messages) for messages in made.dialogues)
        for messages in made.dialogues:
            if found := re.fullmatch(r"(\d+) (plus|minus|times) (\d+) is (-?\d+)\.", messages[-1]["content"]):
                a, word, b, value = found.groups()
                assert int(value) == {"plus": int(a) + int(b), "minus": int(a) - int(b), "times": int(a) * int(b)}[word]
                sums += 1
    assert sums > 3
