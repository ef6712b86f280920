"""The two sides of each timed figure do the same work; how long they take is nobody's business here."""

import sys

import pytest
from langchain_core.messages import AIMessage, HumanMessage

from agentkit.bench import constrained, decode, prefill
from agentkit.evals.tool_calls import load_cases
from agentkit.models import blas
from agentkit.models.bundled import bundled_folder
from agentkit.models.errors import AgentkitError

CASES = [case for case in load_cases() if case.kind == "single"]


def test_decode_compares_equal_texts_of_equal_length(bundled, quiet):
    found = decode.compare(6, 2, quiet)
    assert found.details["same_text"] is True
    assert len(found.details["here"]) == len(found.details["stream_generate"]) == 2
    assert found.how.endswith(f"2 pairs of 6 tokens, prompt of {len(bundled.prompt_tokens([HumanMessage(decode.PROMPT)]))}")


def test_decode_goes_past_an_end_that_comes_early(bundled, quiet):
    tokenizer = bundled.engine.tokenizer
    ends = set(tokenizer.eos_token_ids)
    with decode.endless(tokenizer):
        message = bundled.with_profile(max_tokens=40).invoke("ok")
        assert (message.usage_metadata["output_tokens"], message.response_metadata["finish_reason"]) == (40, "length")
    assert tokenizer.eos_token_ids == ends


@pytest.mark.skipif(sys.platform != "linux", reason="MLX has its own kernels on a Mac")
def test_prefill_runs_with_and_without_openblas():
    folder = bundled_folder()
    with prefill.Worker(folder, "fast") as fast, prefill.Worker(folder, "plain") as plain:
        assert (fast.blas, plain.blas) == ("openblas", "reference")
        assert _maps(fast) & set(blas.candidates()) and not _maps(plain) & set(blas.candidates())
        assert fast.reading([1, 2, 3])() > 0 and plain.reading([1, 2, 3])() > 0
        processes = [fast._process, plain._process]
    assert all(process.poll() is not None for process in processes)


def _maps(worker) -> set[str]:
    with open(f"/proc/{worker._process.pid}/maps") as maps:
        return {line.split(maxsplit=5)[-1].strip() for line in maps}


def test_a_worker_that_cannot_load_says_so(tmp_path, capfd):
    with pytest.raises(AgentkitError, match="ended with code 1"):
        with prefill.Worker(tmp_path, "plain"):
            pass


def test_one_side_is_constrained_and_the_other_is_not(bundled, monkeypatch):
    seen = []

    def timed(bound, case):
        message = bound.invoke(case.messages)
        seen.append((message.response_metadata["forced_tokens"], message.usage_metadata))
        return 1.0, message

    monkeypatch.setattr(constrained, "_timed", timed)
    # The profile the bundled model comes with is constrained: the free side has to say that it is not.
    constrained.compare(bundled.with_profile(constrained=True, max_tokens=12), CASES[0], 0)
    (forced, usage), (forced_free, usage_free) = seen
    assert forced > 5 and forced_free == 0
    for each in (usage, usage_free):
        assert each["input_token_details"]["cache_read"] == each["input_tokens"] - 1, "the prompt is known to both"


def test_different_calls_are_not_compared(bundled, monkeypatch):
    answers = iter(["Paris", "Rome"])

    def timed(bound, case):
        call = {"name": "get_weather", "args": {"city": next(answers)}, "id": "1"}
        return 1.0, AIMessage("", tool_calls=[call])

    monkeypatch.setattr(constrained, "_timed", timed)
    assert constrained.compare(bundled, CASES[0], 0) is None


def test_the_mask_is_timed_for_tokens_that_had_a_choice(bundled):
    costs = constrained.mask_costs(bundled, CASES[0])
    assert costs and all(grammar > 0 and decoding > 0 for grammar, decoding in costs)
