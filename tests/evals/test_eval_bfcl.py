"""Reading an installed bfcl-eval and running its questions, on a small stand-in for the package's data."""

import importlib.util
import json

import pytest
from langchain_core.messages import AIMessage

from agentkit.evals.bfcl import as_tool, load_questions, score_bfcl
from agentkit.models.errors import BadField, ContextFull, EvalUnavailable


def function(name, required=(), **properties):
    return {"name": name, "description": f"Does {name}.",
            "parameters": {"type": "dict", "properties": properties, "required": list(required)}}


DIG = function("yard.dig", ["metres"], metres={"type": "float", "description": "Depth."},
               tools={"type": "array", "items": {"type": "string"}, "description": "With what."})
FILL = function("fill", ["metres"], metres={"type": "integer", "description": "Height."})
ENTRIES = {
    "simple_python": [("Dig 2 metres.", [DIG], {"yard.dig": {"metres": [2.0], "tools": ["", ["spade"]]}}),
                      ("Fill 1 metre.", [FILL], {"fill": {"metres": [1]}})],
    "multiple": [("Fill 3 metres.", [DIG, FILL], {"fill": {"metres": [3]}})],
    "irrelevance": [("Sing.", [DIG], None), ("Dance.", [FILL], None)],
}


@pytest.fixture
def package(tmp_path, monkeypatch):
    data = tmp_path / "bfcl_eval" / "data"
    (data / "possible_answer").mkdir(parents=True)
    # Importing the real package would pull in its dependencies; reading its data must not.
    (tmp_path / "bfcl_eval" / "__init__.py").write_text("raise ImportError('must not be imported')")
    for category, entries in ENTRIES.items():
        questions = [{"id": f"{category}_{i}", "question": [[{"role": "user", "content": text}]], "function": functions}
                     for i, (text, functions, _) in enumerate(entries)]
        answers = [{"id": f"{category}_{i}", "ground_truth": [a]} for i, (_, _, a) in enumerate(entries)]
        name = f"BFCL_v4_{category}.json"
        (data / name).write_text("".join(json.dumps(q) + "\n" for q in questions))
        if category != "irrelevance":
            (data / "possible_answer" / name).write_text("".join(json.dumps(a) + "\n" for a in answers))
    monkeypatch.syspath_prepend(tmp_path)
    return data


def test_questions(package):
    first, second = load_questions("simple_python")
    assert (first.id, first.messages) == ("simple_python_0", [{"role": "user", "content": "Dig 2 metres."}])
    assert second.answer == {"fill": {"metres": [1]}}
    assert [q.id for q in load_questions("simple_python", 1)] == ["simple_python_0"]
    assert [q.answer for q in load_questions("irrelevance")] == [None, None]


def test_tools_as_the_model_sees_them():
    assert as_tool(DIG) == {"type": "function", "function": {
        "name": "yard_dig",
        "description": "Does yard.dig. Note that the provided function is in Python 3 syntax.",
        "parameters": {"type": "object", "required": ["metres"], "properties": {
            "metres": {"type": "number", "format": "float", "description": "Depth. This is a float type value."},
            "tools": {"type": "array", "items": {"type": "string"}, "description": "With what."},
        }},
    }}
    assert DIG["parameters"]["properties"]["metres"]["type"] == "float"


def test_types_are_converted_at_every_depth():
    nested = function(
        "f", a={"type": "dict", "description": "", "properties": {"x": {"type": "float"}, "y": {"type": "tuple"}}},
        b={"type": "array", "items": {"type": "array", "items": {"type": "float"}}},
        c={"type": "array", "items": {"type": "dict", "properties": {"z": {"type": "any"}}}}, d={"enum": ["p"]})
    made = as_tool(nested)["function"]["parameters"]["properties"]
    assert made["a"]["type"] == "object"
    assert made["a"]["properties"]["x"]["type"] == "number"
    assert made["a"]["properties"]["y"]["type"] == "array"
    assert made["b"]["items"] == {"type": "array", "items": {"type": "number"}}
    assert made["c"]["items"]["properties"]["z"]["type"] == "string"
    assert made["d"]["type"] == "string"


def test_simple_and_multiple(package, replay, calls):
    model = replay(calls(("yard_dig", {"metres": 2})), calls(("fill", {"metres": 2})))
    seen = []
    report = score_bfcl(model, "simple_python", on_progress=lambda *at: seen.append(at))
    assert [o.right for o in report.outcomes] == [True, False]
    assert report.outcomes[1].reason == "value for 'metres': 2, expected one of [1]"
    assert report.count("correct") == (1, 2)
    assert seen == [(1, 2), (2, 2)]
    assert score_bfcl(replay(calls(("fill", {"metres": 3}))), "multiple").percent("correct") == 100.0
    wrong = score_bfcl(replay(calls(("yard_dig", {"metres": 3}))), "multiple")
    assert wrong.outcomes[0].reason == "name: called 'yard_dig', expected 'fill'"


def test_no_call_or_several(package, replay, calls):
    fill = ("fill", {"metres": 3})
    assert score_bfcl(replay(AIMessage("3 metres.")), "multiple").outcomes[0].reason == "count: 0 calls, expected 1"
    assert score_bfcl(replay(calls(fill, fill)), "multiple").outcomes[0].reason == "count: 2 calls, expected 1"


def test_undecodable_calls(package, replay, calls):
    bad = [{"name": "fill", "args": "{3", "id": "x", "error": "", "type": "invalid_tool_call"}]
    report = score_bfcl(replay(calls(("fill", {"metres": 3}), invalid_tool_calls=bad)), "multiple")
    assert report.outcomes[0].reason == "undecoded: call not decoded: '{3'"


def test_irrelevance(package, replay, calls):
    bad = [{"name": "fill", "args": "{3", "id": "x", "error": "", "type": "invalid_tool_call"}]
    report = score_bfcl(replay(calls(("yard_dig", {"metres": 1.0})), calls(invalid_tool_calls=bad)), "irrelevance")
    assert [o.right for o in report.outcomes] == [False, True]
    assert report.outcomes[0].reason == "unneeded: called 'yard_dig'"
    assert report.as_dict(failures=True)["failures"][0]["request"] == "Sing."


def test_a_prompt_that_does_not_fit_is_wrong_even_where_no_call_is_right(package, replay):
    def full(messages, tools):
        raise ContextFull("too many tokens")

    assert score_bfcl(replay(answer=full), "irrelevance").count("correct") == (0, 2)


def test_bad_input(package):
    with pytest.raises(BadField, match="'java'; choose one of simple_python, multiple, irrelevance"):
        load_questions("java")
    with pytest.raises(BadField, match="limit is 0"):
        load_questions("multiple", 0)


def test_missing_package(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(EvalUnavailable, match="pip install --no-deps bfcl-eval"):
        load_questions("multiple")


def test_missing_or_broken_files(package):
    (package / "possible_answer" / "BFCL_v4_multiple.json").unlink()
    with pytest.raises(EvalUnavailable, match="cannot read .*possible_answer"):
        load_questions("multiple")
    (package / "BFCL_v4_irrelevance.json").write_text('{"id": "x"}\n')
    with pytest.raises(EvalUnavailable, match="not in the format of BFCL v4"):
        load_questions("irrelevance")
