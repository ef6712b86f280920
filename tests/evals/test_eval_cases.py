"""The committed set keeps the promises of data/evals/README.md."""

import json
import re
from collections import Counter

import pytest
from jsonschema import Draft202012Validator
from langchain_core.messages import AIMessage, ToolMessage

from agentkit.evals.tool_calls import KINDS, cases_file, load_cases, score
from agentkit.models.errors import EvalUnavailable

CASES = load_cases()
LEAST = {"single": 75, "none": 25, "new_tool": 30, "two_calls": 30}


def words(text: str) -> str:
    return " ".join(re.findall(r"\w+", text.lower()))


def test_counts_per_kind():
    count = Counter(c.kind for c in CASES)
    assert set(count) == set(KINDS)
    assert all(count[kind] >= least for kind, least in LEAST.items()), count
    assert len(CASES) >= 170


def test_ids_and_requests_are_unique():
    assert len({c.id for c in CASES}) == len(CASES)
    assert [r for r, n in Counter(words(c.request) for c in CASES).items() if n > 1] == []


def test_four_to_eight_valid_tools_with_unique_names():
    for case in CASES:
        names = [t["function"]["name"] for t in case.tools]
        assert 4 <= len(names) <= 8 and len(set(names)) == len(names), case.id
        for tool in case.tools:
            assert set(tool) == {"type", "function"} and tool["type"] == "function"
            assert set(tool["function"]) == {"name", "description", "parameters"}
            assert re.fullmatch(r"\w{3,40}", tool["function"]["name"])
            Draft202012Validator.check_schema(tool["function"]["parameters"])


def test_no_two_tools_share_a_description():
    described = {(t["function"]["name"], t["function"]["description"]) for c in CASES for t in c.tools}
    assert [d for d, n in Counter(text for _, text in described).items() if n > 1] == []


def test_number_of_expected_calls_fits_the_kind():
    length = {"single": 1, "new_tool": 1, "none": 0, "two_calls": 2}
    assert [c.id for c in CASES if len(c.expect) != length[c.kind]] == []
    assert [c.id for c in CASES if c.kind == "two_calls" and not all(e.result for e in c.expect)] == []


def test_expected_and_accepted_arguments_fit_the_schemas():
    for case in CASES:
        for expected in case.expect:
            schema = case.parameters(expected.name)
            strict = Draft202012Validator({**schema, "additionalProperties": False})
            strict.validate(expected.arguments)
            for name, others in expected.accept.items():
                assert others and expected.arguments.get(name) not in others, case.id
                for other in others:
                    strict.validate({**expected.arguments, name: other})


def test_half_of_the_second_calls_need_the_first_result():
    # A value of the second call that the request does not hold can only come from the first result.
    needing = 0
    for case in (c for c in CASES if c.kind == "two_calls"):
        values = [str(v) for v in case.expect[1].arguments.values() if not isinstance(v, bool)]
        heard, result = words(case.request), words(case.expect[0].result)
        needing += any(words(v) not in heard and (words(v) in result or v in case.expect[0].result) for v in values)
    total = sum(c.kind == "two_calls" for c in CASES)
    assert 15 <= needing <= total - 15


def test_new_tools_are_not_offered_as_single_tasks():
    common = {e.name for c in CASES if c.kind == "single" for e in c.expect}
    unusual = {e.name for c in CASES if c.kind == "new_tool" for e in c.expect}
    assert len(unusual) >= 30 and not common & unusual


def test_every_kind_is_among_the_first_cases():
    assert {c.kind for c in CASES[:12]} == set(KINDS)


def test_a_model_that_does_as_expected_gets_everything_right(replay):
    by_request = {c.request: c for c in CASES}

    def perfect(messages, tools):
        case = by_request[messages[0].content]
        step = sum(isinstance(m, ToolMessage) for m in messages)
        if not case.expect:
            return AIMessage("Hello.")
        want = case.expect[step]
        return AIMessage("", tool_calls=[{"name": want.name, "args": want.arguments, "id": "a"}])

    report = score(replay(answer=perfect), CASES)
    assert report.failures == []
    assert report.count("exact") == (len(CASES), len(CASES))


def test_a_model_that_never_calls_is_right_only_where_nothing_is_to_be_called(replay):
    report = score(replay(answer=lambda messages, tools: AIMessage("I see.")), CASES)
    right = {kind: report.count("exact", kind)[0] for kind in KINDS}
    assert right == {"single": 0, "new_tool": 0, "two_calls": 0, "none": report.count("exact", "none")[1]}
    assert report.percent("well_formed") == 100.0


def test_the_file_is_plain_json_lines():
    lines = cases_file().read_text(encoding="utf-8").splitlines()
    assert len(lines) == len(CASES)
    assert all(set(json.loads(line)) == {"id", "kind", "tools", "messages", "expect"} for line in lines)


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("{", "line 2"),
        ('{"id": "x"}', "KeyError: 'kind'"),
        ('{"id": "x", "kind": "odd", "tools": [], "messages": [], "expect": []}', "'odd'"),
        ('{"id": "x", "kind": "none", "tools": [], "messages": [], "expect": [{"name": "me", "arguments": {}}]}', "me"),
    ],
)
def test_a_bad_line_is_named(tmp_path, line, says):
    good = cases_file().read_text(encoding="utf-8").splitlines()[0]
    path = tmp_path / "cases.jsonl"
    path.write_text(f"{good}\n{line}\n", encoding="utf-8")
    with pytest.raises(EvalUnavailable, match="line 2 is no case") as caught:
        load_cases(path)
    assert says in str(caught.value)


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(EvalUnavailable, match="nowhere.jsonl"):
        load_cases(tmp_path / "nowhere.jsonl")
