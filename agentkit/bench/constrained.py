"""Figures: a constrained tool call against the same call decoded freely, and what the mask costs of a token's time.

The requests are those held-out cases (kind `single`) on which the bundled model makes the same call both ways; where it
does not, there is nothing to compare. Both sides are greedy and find the prompt in the prefix cache, so that only the
call is timed: all of `invoke`, with the grammar's compilation on the constrained side, until the engine is idle again.
The choice of tool stays free on both sides (`tool_choice` auto): the model may also answer in words.
"""

import statistics
import time
from collections.abc import Iterator
from dataclasses import dataclass

from agentkit.bench.figure import Figure, Pairs, Tick, in_turn, quartiles
from agentkit.models.errors import AgentkitError

CALL = Figure("constrained", "constrained call against the same call decoded freely", "x", 0.7, higher=False)
MASK = Figure("constrained", "the mask, of a token's decode time", "%", 10.0, higher=False)
FIGURES = (CALL, MASK)


def measure(quick: bool, tick: Tick) -> list[Figure]:
    """The median of wall-time ratios, and the median cost of the mask in percent."""
    from agentkit.evals.tool_calls import load_cases
    from agentkit.models import load_model

    wanted, masked = (6, 2) if quick else (30, 5)
    model = load_model("bundled").with_profile(temperature=0)
    cases = [case for case in load_cases() if case.kind == "single"]
    same, tried = [], 0
    for case in cases:
        compared = compare(model, case, tried)
        tried += 1
        if compared:
            same.append(compared)
            tick(len(same), wanted)
        if len(same) == wanted:
            break
    if not same:
        raise AgentkitError(f"in none of {tried} cases does the model make the same call both ways")
    found = Pairs([c.constrained for c in same], [c.free for c in same])
    how = (f"{statistics.median(found.first):.2f} against {statistics.median(found.second):.2f} s; {len(same)} of "
           f"{tried} cases with the same call, {statistics.median(c.forced / c.tokens for c in same):.0%} of its tokens forced")
    costs = [cost for case in cases[:masked] for cost in mask_costs(model, case)]
    shares = [100 * grammar / decoding for grammar, decoding in costs]
    how_mask = (f"{1000 * statistics.median(g for g, _ in costs):.2f} of {1000 * statistics.median(d for _, d in costs):.1f} "
                f"ms; {len(costs)} tokens of {masked} calls")
    return [
        CALL.found(found.ratio, how, found.spread, constrained=found.first, free=found.second),
        MASK.found(statistics.median(shares), how_mask, quartiles(shares), percent=shares),
    ]


@dataclass(frozen=True)
class Compared:
    """Seconds of one call both ways, and how many of its tokens were forced."""

    constrained: float
    free: float
    forced: int
    tokens: int


def compare(model, case, number: int) -> Compared | None:
    """Time a case both ways, in an order that changes with its number; None unless both make the same one call."""
    free = model.with_profile(constrained=False).bind_tools(case.tools)
    bound = model.with_profile(constrained=True).bind_tools(case.tools)
    # Leaves the prompt in the cache, and the tokenizer's table and the grammar's library loaded.
    bound.invoke(case.messages, max_tokens=1)
    _idle()
    (seconds, message), (seconds_free, message_free) = in_turn(
        number, lambda: _timed(bound, case), lambda: _timed(free, case))
    calls, calls_free = _calls(message), _calls(message_free)
    if len(calls) != 1 or calls != calls_free:
        return None
    forced = message.response_metadata["forced_tokens"]
    return Compared(seconds, seconds_free, forced, message.usage_metadata["output_tokens"])


def _timed(bound, case):
    began = time.perf_counter()
    message = bound.invoke(case.messages)
    _idle()
    return time.perf_counter() - began, message


def _idle() -> None:
    """Wait until the engine has done what it still does behind an answer."""
    from agentkit.models.owner import owner

    def work():
        import mlx.core as mx

        mx.synchronize()

    owner().call(work)


def _calls(message) -> list[tuple]:
    return [(call["name"], call["args"]) for call in message.tool_calls]


def mask_costs(model, case) -> list[tuple[float, float]]:
    """Per sampled token of a constrained call: the grammar's seconds and the model's, for one token.

    The grammar's part is everything it adds: the mask, its application, taking the token, the look for forced ones.
    """
    from agentkit.models.constrain import ToolChoice, grammar_for
    from agentkit.models.owner import owner

    tokens = model.prompt_tokens(_messages(case), case.tools)
    grammar = grammar_for(case.tools, ToolChoice("required"))
    return list(owner().stream(lambda _: _steps(model.engine, tokens, grammar)))


def _messages(case) -> list:
    from langchain_core.messages import convert_to_messages

    return convert_to_messages(case.messages)


def _steps(engine, tokens: list[int], grammar: str, most: int = 64) -> Iterator[tuple[float, float]]:
    """A plain constrained loop without the engine's overlap, so that each part can be timed by itself."""
    import mlx.core as mx
    from mlx_lm.models.cache import make_prompt_cache

    matcher, cache = engine.matcher(grammar), make_prompt_cache(engine.model)

    def feed(some: list[int]) -> tuple[mx.array, float]:
        began = time.perf_counter()
        logits = engine.model(mx.array([some]), cache=cache)[:, -1]
        mx.eval(logits)
        return logits, time.perf_counter() - began

    logits, _ = feed([*tokens, *matcher.forced()])
    for _ in range(most):
        if matcher.done:
            break
        began = time.perf_counter()
        allowed = mx.where(matcher.mask(), logits, -mx.inf)
        mx.eval(allowed)
        masking = time.perf_counter() - began
        token = mx.argmax(allowed).item()
        if token in engine.tokenizer.eos_token_ids:
            break
        began = time.perf_counter()
        matcher.saw(token)
        must = matcher.forced()
        taking = time.perf_counter() - began
        logits, seconds = feed([token, *must])
        if not must:
            yield masking + taking, seconds
