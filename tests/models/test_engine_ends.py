"""What an answer leaves behind: its last tokens are known to the next prompt, and nobody waited for them."""

import pytest

from agentkit.models.owner import owner


def tokens_of(engine, text):
    return engine.tokenizer.encode(text, add_special_tokens=False)


@pytest.mark.parametrize("grammar", [None, 'start: "the quick brown fox"\n'])
def test_the_next_prompt_finds_the_whole_answer(engines, generate, grammar):
    prompt = tokens_of(engines["qwen3"], "the quick brown fox")
    _, pieces, finished = generate("qwen3", prompt, grammar, max_tokens=6 if grammar is None else 100, thinking_budget=0)
    assert finished.reason == ("length" if grammar is None else "stop")
    told = prompt + [piece.token for piece in pieces]
    prefilled, _, _ = generate("qwen3", [*told, 7], max_tokens=1)
    assert prefilled.reuse.reused == len(told)


@pytest.mark.parametrize("name", ["qwen3", "hybrid"])
def test_the_end_token_is_known_as_well(engines, generate, name, monkeypatch):
    engine = engines[name]
    prompt = tokens_of(engine, "the quick brown fox")
    drawn = [piece.token for piece in generate(name, prompt, temperature=0, repetition_penalty=1)[1]]
    end = drawn[-1]
    before = drawn[:drawn.index(end)]
    owner().call(engine.prefix.clear)
    monkeypatch.setattr(engine.tokenizer, "_eos_token_ids", {end})
    _, pieces, finished = generate(name, prompt, temperature=0, repetition_penalty=1)
    assert ([piece.token for piece in pieces], finished.reason) == (before, "stop")
    prefilled, _, _ = generate(name, [*prompt, *before, end, 7], max_tokens=1)
    assert prefilled.reuse.reused == len(prompt) + len(before) + 1


@pytest.mark.parametrize("name", ["qwen3", "hybrid"])
def test_what_was_left_behind_gives_the_logits_of_a_cold_run(engines, generate, name):
    prompt = tokens_of(engines[name], "the quick brown fox")
    _, pieces, _ = generate(name, prompt, max_tokens=5)
    longer = [*prompt, *(piece.token for piece in pieces), 7, 8]
    warm = generate(name, longer, temperature=0, repetition_penalty=1, max_tokens=3)
    owner().call(engines[name].prefix.clear)
    cold = generate(name, longer, temperature=0, repetition_penalty=1, max_tokens=3)
    assert warm[0].reuse.reused == len(longer) - 2 and cold[0].reuse.reused == 0
    assert [p.token for p in warm[1]] == [p.token for p in cold[1]]
    assert [p.logprob for p in warm[1]] == pytest.approx([p.logprob for p in cold[1]], abs=1e-5)


def test_the_end_is_told_before_the_last_tokens_are_fed(engines):
    from agentkit.models.engine import Finished, Request
    from agentkit.models.profile import GenerationProfile

    engine = engines["qwen3"]

    def run():
        engine.prefix.clear()
        stored = []
        for item in engine.stream(Request(tokens_of(engine, "the quick"), GenerationProfile(max_tokens=3, seed=1))):
            if isinstance(item, Finished):
                stored.append(engine.prefix.stored)
        return stored, engine.prefix.stored

    at_the_end, afterwards = owner().call(run)
    assert [afterwards - 1] == at_the_end
