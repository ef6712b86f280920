"""Figure: decoding speed through `LocalChatModel` against mlx-lm's own `stream_generate`.

Both decode the same number of tokens greedily, from one prompt, with the same loaded weights, on the owner thread, with
neither penalty nor prefix cache, past the end of the answer where it comes early. Only decoding counts: each side's own
report of the time its prompt took is taken off its wall time. What remains on this side holds all that stands between
the engine and a caller who streams: the queue between the threads, parsing for calls, LangChain's chunks.
"""

import contextlib
import statistics
import time
from collections.abc import Iterator

from agentkit.bench.figure import Figure, Tick, pairs

FIGURES = (Figure("decode", "decode against mlx_lm.stream_generate", "x", 0.97, higher=True),)
PROMPT = "Tell me a very long story about an old lighthouse keeper, his three cats and a ship that never came back."


def measure(quick: bool, tick: Tick) -> list[Figure]:
    """Tokens per second here over tokens per second there."""
    # Many short pairs rather than few long ones: what disturbs a machine lasts for seconds.
    count, rounds = (32, 5) if quick else (48, 15)
    return [compare(count, rounds, tick)]


def compare(count: int, rounds: int, tick: Tick) -> Figure:
    """The figure from that many rounds of `count` tokens."""
    from langchain_core.messages import HumanMessage

    from agentkit.models import load_model
    from agentkit.models.owner import owner

    model = load_model("bundled").with_profile(
        temperature=0, repetition_penalty=1, prefix_cache=False, constrained=False, max_tokens=count)
    messages = [HumanMessage(PROMPT)]
    prompt = model.prompt_tokens(messages)
    texts = set()

    def here() -> float:
        began, text = time.perf_counter(), ""
        for chunk in model.stream(messages):
            text += chunk.content
            if chunk.usage_metadata:
                last = chunk
        seconds = time.perf_counter() - began - last.response_metadata["prefill_seconds"]
        texts.add(text.strip())
        return last.usage_metadata["output_tokens"] / seconds

    def there() -> float:
        tokens, seconds, text = owner().call(_reference, model.engine, prompt, count)
        texts.add(text.strip())
        return tokens / seconds

    with endless(model.engine.tokenizer):
        here(), there()  # first runs make what later ones find made
        found = pairs(here, there, rounds, tick)
    ours, theirs = statistics.median(found.first), statistics.median(found.second)
    how = f"{ours:.1f} against {theirs:.1f} tokens/s; {rounds} pairs of {count} tokens, prompt of {len(prompt)}"
    return FIGURES[0].found(found.ratio, how, found.spread, here=found.first, stream_generate=found.second,
                            same_text=len(texts) == 1)


@contextlib.contextmanager
def endless(tokenizer) -> Iterator[None]:
    """No token ends an answer inside the block: how long an adapter's answers are must not decide what is measured."""
    ends = tokenizer.eos_token_ids
    tokenizer.eos_token_ids = ()
    try:
        yield
    finally:
        tokenizer.eos_token_ids = ends


def _reference(engine, prompt: list[int], count: int) -> tuple[int, float, str]:
    import mlx_lm

    began, text = time.perf_counter(), ""
    for last in mlx_lm.stream_generate(engine.model, engine.tokenizer, prompt, max_tokens=count):
        text += last.text
    return last.generation_tokens, time.perf_counter() - began - last.prompt_tokens / last.prompt_tps, text
