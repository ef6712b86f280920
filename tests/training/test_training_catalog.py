"""The fine-tuning set: the committed files load without a problem, and each kind of fault is named."""

import copy

import pytest
import yaml

from agentkit.training import catalog

GOOD = {"family": "money", "tools": [{
    "names": ["convert", "fx"], "descriptions": ["Convert money."],
    "parameters": {"amount": {"type": "number", "kind": "number(1,50)"}, "to": {"type": "string", "kind": "currency"},
                   "fee": {"type": "boolean", "kind": "flag", "optional": True},
                   "mode": {"type": "string", "kind": "enum", "enum": {"mid": "the middle rate"}, "optional": True}},
    "requests": ["{amount} in {to}", "give me {amount} as {to}[, at {mode}]", "{amount} to {to}[!fee: with the fee]"],
    "values": {"out": "number(1,9)"},
    "outcomes": [{"result": "{out}", "answer": "It is {out} {to}."}], "errors": [{"result": "down", "answer": "No {to} today."}]}]}
CHAIN = {"calls": [
    {"tool": {"names": ["find"], "descriptions": ["Find."], "parameters": {"name": {"type": "string", "kind": "person"}}},
     "arguments": {"name": "{who}"}, "result": '{"phone": "{phone}"}'},
    {"tool": {"names": ["ring"], "descriptions": ["Ring."], "parameters": {"phone": {"type": "string", "kind": "phone"}}},
     "arguments": {"phone": "{phone}"}, "result": "ok"}],
    "values": {"who": "person", "phone": "phone"}, "requests": ["ring {who}", "call {who}", "phone {who} now"], "answers": ["I rang {who}."]}


def load(tmp_path, tools=GOOD, chains=None, talk=None):
    """A set of these parts (data, or text as it stands in the file), loaded."""
    (tmp_path / "tools").mkdir()
    for name, part in (("tools/money.yaml", tools), ("chains.yaml", chains), ("talk.yaml", talk)):
        if part is not None:
            (tmp_path / name).write_text(part if isinstance(part, str) else yaml.safe_dump(part))
    return catalog.load(tmp_path)


def changed(what, **changes):
    """A copy of the good tool, one part changed: `what` is the tool or one of its parameters."""
    made = copy.deepcopy(GOOD)
    tool = made["tools"][0]
    place = tool if what == "tool" else tool["parameters"][what]
    place.update(changes)
    return made


def test_the_committed_set_has_no_problems(corpus):
    assert corpus.problems == []
    assert len(corpus.tools) >= 150
    assert len(corpus.chains) >= 25 and len(corpus.talk) >= 200
    assert len({tool.family for tool in corpus.tools}) >= 25


def test_names_are_the_key_of_one_tool(corpus):
    keys = [tool.key for tool in corpus.tools]
    assert len(keys) == len(set(keys))


def test_the_set_holds_every_type_and_optional_parameters(corpus):
    parameters = [p for tool in corpus.tools for p in tool.parameters.values()]
    assert {p["type"] for p in parameters} == catalog.TYPES
    assert sum(bool(p.get("optional")) for p in parameters) > 150
    assert sum(p.get("kind") == "enum" for p in parameters) > 50


def test_a_good_set_loads(tmp_path):
    talk = [{"questions": ["hi"], "answers": ["Hello!"]}]
    corpus = load(tmp_path, GOOD, [CHAIN], talk)
    assert (corpus.problems, [tool.key for tool in corpus.tools]) == ([], ["money.convert"])
    assert (corpus.chains, corpus.talk) == ([CHAIN], talk)


@pytest.mark.parametrize(("tools", "says"), [
    (changed("to", kind="curency"), "to: kind 'curency' is unknown"),
    (changed("amount", kind="number"), "amount: kind 'number'"),
    (changed("tool", values={"out": "nonsense"}), "out: kind 'nonsense' is unknown"),
    (changed("tool", requests=["{amount} in {to}", "what is {amount}?", "{amount} as {to}"]), "request 'what is {amount}?' does not name the required to"),
    (changed("tool", requests=["{amount} in {to}", "{amount}[ in {to}]", "{amount} as {to}"]), "request '{amount}[ in {to}]' does not name the required to"),
    (changed("tool", requests=["{amount} in {to}", "{amount} of {total} in {to}", "{amount} as {to}"]), "names the unknown total"),
    (changed("tool", requests=["{amount} in {to}", "{amount} as {to}[!fees: with fees]", "{amount} to {to}"]), "sets the unknown flag 'fees'"),
    (changed("tool", outcomes=[{"result": "{sum}", "answer": "ok"}]), "outcome names the unknown sum"),
    (changed("amount", type="float"), "amount: type 'float' is not one of"),
    (changed("mode", enum=["mid", "buy"]), "mode: kind enum needs `enum: {value: words}`"),
    (changed("to", type="object", kind="object"), "to: an object needs `fields`"),
    (changed("tool", requests=["{amount} in {to}"]), "needs at least 3 requests"),
    (changed("tool", outcomes=[]), "and 1 outcome"),
    (changed("tool", colour="red"), "colour"),
    (changed("tool", parameters=["amount"]), "money.yaml: ['convert', 'fx']"),
    ({"tools": GOOD["tools"]}, "family"),
    ([GOOD], "money.yaml"),
    ({"family": "money", "tools": ["convert"]}, "money.yaml"),
])
def test_a_faulty_tool_is_named_and_left_out(tmp_path, tools, says):
    corpus = load(tmp_path, tools)
    assert corpus.tools == []
    assert any(says in line and "money.yaml" in line for line in corpus.problems), corpus.problems


def test_a_good_tool_survives_a_faulty_neighbour(tmp_path):
    both = copy.deepcopy(GOOD)
    both["tools"].append(changed("to", kind="curency")["tools"][0] | {"names": ["other"]})
    corpus = load(tmp_path, both)
    assert [tool.key for tool in corpus.tools] == ["money.convert"]
    assert len(corpus.problems) == 1 and corpus.problems[0].startswith("money.yaml: other: ")


def test_yaml_syntax_is_named_with_its_line(tmp_path):
    corpus = load(tmp_path, "family: money\ntools:\n  - names: [convert\n    descriptions: x\n")
    assert corpus.tools == []
    assert len(corpus.problems) == 1 and "money.yaml" in corpus.problems[0] and "line 4" in corpus.problems[0]


def chain(**changes):
    return copy.deepcopy(CHAIN) | changes


@pytest.mark.parametrize(("entry", "says"), [
    (chain(values={"who": "person"}), "the unknown phone"),
    (chain(values={"who": "persn", "phone": "phone"}), "who: kind 'persn' is unknown"),
    (chain(requests=["ring {whom}", "call {who}", "phone {who}"]), "the unknown whom"),
    (chain(requests=["ring {who}"]), "needs 3 requests"),
    (chain(calls=CHAIN["calls"][:1]), "2 calls"),
    (chain(calls=[CHAIN["calls"][0], CHAIN["calls"][1] | {"arguments": {"number": "{phone}"}}]), "arguments ['number'] are no parameters of ring"),
    (chain(calls=[CHAIN["calls"][0] | {"tool": "find"}, CHAIN["calls"][1]]), "must be given inline"),
    (chain(calls=[{"tool": CHAIN["calls"][0]["tool"], "result": "x"}, CHAIN["calls"][1]]), "arguments"),
    ("ring {who}", "chains.yaml: 0"),
])
def test_a_faulty_chain_is_named_and_left_out(tmp_path, entry, says):
    corpus = load(tmp_path, chains=[entry, CHAIN])
    assert corpus.chains == [CHAIN]
    assert any(says in line and line.startswith("chains.yaml: 0: ") for line in corpus.problems), corpus.problems


@pytest.mark.parametrize("entry", [{"questions": ["hi"]}, {"answers": ["Hello!"]}, {"questions": [], "answers": ["x"]}, "hi"])
def test_faulty_talk_is_named_and_left_out(tmp_path, entry):
    good = {"questions": ["hi"], "answers": ["Hello!"]}
    corpus = load(tmp_path, talk=[good, entry])
    assert corpus.talk == [good]
    assert corpus.problems == ["talk.yaml: 1: needs questions and answers"]


def test_an_empty_folder_has_neither_tools_nor_problems(tmp_path):
    corpus = catalog.load(tmp_path)
    assert (corpus.tools, corpus.chains, corpus.talk, corpus.problems) == ([], [], [], [])
