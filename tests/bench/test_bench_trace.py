"""The recorded conversation, and the prefix cache measured on it with the bundled model."""

import json

import pytest
from jsonschema import Draft202012Validator
from langchain_core.messages import convert_to_messages

from agentkit.bench import prefix
from agentkit.bench.trace import load_trace, trace_file

TRACE = load_trace()


def test_ten_user_turns_after_one_system_prompt():
    roles = [message["role"] for message in TRACE.messages]
    assert roles[0] == "system" and roles.count("system") == 1
    assert roles.count("user") == 10 and set(roles) == {"system", "user", "assistant", "tool"}
    assert roles[-1] == "assistant" and not TRACE.messages[-1].get("tool_calls")
    assert all(isinstance(message["content"], str) for message in TRACE.messages), "text only"


def test_each_turn_ends_with_an_answer_in_words():
    for before, message in zip(TRACE.messages[1:], TRACE.messages[2:]):
        if message["role"] == "user":
            assert before["role"] == "assistant" and before["content"] and not before.get("tool_calls")
        elif message["role"] == "assistant":
            assert before["role"] in ("user", "tool")


def test_every_call_is_followed_by_its_results_in_order():
    index, calls, seen = 0, 0, set()
    while index < len(TRACE.messages):
        made = TRACE.messages[index].get("tool_calls", [])
        for offset, call in enumerate(made, 1):
            result = TRACE.messages[index + offset]
            assert (result["role"], result["tool_call_id"], result["name"]) == ("tool", call["id"], call["function"]["name"])
            assert result["content"] and call["id"] not in seen
            seen.add(call["id"])
            calls += 1
        index += 1 + len(made)
    assert calls == sum(message["role"] == "tool" for message in TRACE.messages) >= 10


def test_six_tools_and_arguments_that_fit_their_schemas():
    schemas = {tool["function"]["name"]: tool["function"]["parameters"] for tool in TRACE.tools}
    assert len(schemas) == len(TRACE.tools) == 6
    calls = [call["function"] for message in TRACE.messages for call in message.get("tool_calls", [])]
    assert {call["name"] for call in calls} == set(schemas), "every tool is used"
    for call in calls:
        validator = Draft202012Validator(schemas[call["name"]] | {"additionalProperties": False})
        assert list(validator.iter_errors(json.loads(call["arguments"]))) == []


def test_a_request_for_every_assistant_message():
    requests = list(TRACE.requests())
    assert len(requests) == sum(message["role"] == "assistant" for message in TRACE.messages)
    assert all(later[: len(earlier)] == earlier for earlier, later in zip(requests, requests[1:]))
    assert {request[-1]["role"] for request in requests} == {"user", "tool"}


def test_the_file_is_json_a_person_can_read():
    text = trace_file().read_text(encoding="utf-8")
    assert json.loads(text)["about"] and "\\u" not in text and max(map(len, text.splitlines())) < 1000


def test_it_renders_with_the_bundled_template(bundled):
    text = bundled.engine.tokenizer.decode(bundled.prompt_tokens(convert_to_messages(TRACE.messages), TRACE.tools))
    assert text.count("<|im_start|>user\n") == 10 + text.count("<tool_response>")
    assert text.count("<tool_response>") == sum(message["role"] == "tool" for message in TRACE.messages)
    assert '<tool_call>\n{"name": "find_notes", "arguments": {"word": "belt"}}\n</tool_call>' in text
    assert "\n- set_reminder(text: string" in text and "Gramodíly" in text


@pytest.fixture(scope="module")
def counts(bundled):
    return prefix.processed_here(bundled, TRACE)


def test_the_cache_leaves_a_fifth_of_the_prompt_tokens_at_most(counts):
    prompts, processed = sum(p for p, _ in counts), sum(r for _, r in counts)
    assert processed <= prompts / 5


def test_each_request_reads_only_what_came_after_the_last_one(counts):
    """The best an exact cache can do: the first prompt, then the growth; the generated token may cost one more."""
    assert counts[0][0] == counts[0][1], "the cache starts empty"
    growth = [later - earlier for (earlier, _), (later, _) in zip(counts, counts[1:])]
    assert all(read <= grown + 1 for grown, (_, read) in zip(growth, counts[1:]))
