"""Figures: how many prompt tokens are processed over a recorded conversation, against no cache and mlx_lm.server's.

Each assistant message of the recording is one request: the messages before it, with all tools. The history holds the
recorded answers, not generated ones, and one token is asked for (`max_tokens` 1, unconstrained: forced tokens would be
a head start), so that both sides see the same requests and the figure is exact. It is the hard case for a cache, here
as there: the recorded answer was not generated, so its tokens have to be read with the next prompt. Nothing is timed.
"""

from agentkit.bench.figure import Figure, Tick
from agentkit.bench.trace import Trace, load_trace
from agentkit.models.errors import AgentkitError

AGAINST_NONE = Figure("prefix", "prompt tokens processed, against no cache", "x", 0.2, higher=False)
AGAINST_SERVER = Figure("prefix", "prompt tokens processed, against mlx_lm.server", "x", 1.0, higher=False)
FIGURES = (AGAINST_NONE, AGAINST_SERVER)


def measure(quick: bool, tick: Tick) -> list[Figure]:
    """Two shares: of all prompt tokens, and of what the server processes."""
    from agentkit.models import load_model
    from agentkit.models.bundled import bundled_folder

    trace, folder = load_trace(), bundled_folder()
    total = 2 * sum(1 for _ in trace.requests())
    ours = processed_here(load_model("bundled"), trace, lambda done, _: tick(done, total))
    theirs = processed_by_server(folder, trace, lambda done, _: tick(total // 2 + done, total))
    if [prompt for prompt, _ in ours] != [prompt for prompt, _ in theirs]:
        raise AgentkitError("mlx_lm.server renders other prompts from the same messages; the two cannot be compared")
    prompts, here, there = sum(p for p, _ in ours), sum(r for _, r in ours), sum(r for _, r in theirs)
    requests = f"{len(ours)} requests of 10 turns"
    return [
        AGAINST_NONE.found(here / prompts, f"{here} of {prompts} tokens, {requests}", prompt=[p for p, _ in ours],
                           processed=[r for _, r in ours]),
        AGAINST_SERVER.found(here / there, f"{here} against {there} tokens, {requests}", server=[r for _, r in theirs]),
    ]


def processed_here(model, trace: Trace, tick: Tick = lambda done, total: None) -> list[tuple[int, int]]:
    """Per request the prompt's tokens and those that were processed, by a `LocalChatModel` whose cache starts empty."""
    from langchain_core.messages import convert_to_messages

    from agentkit.models.owner import owner

    owner().call(model.engine.prefix.clear)
    bound = model.with_profile(max_tokens=1, temperature=0, constrained=False).bind_tools(trace.tools)
    counts, requests = [], list(trace.requests())
    for request in requests:
        usage = bound.invoke(convert_to_messages(request)).usage_metadata
        counts.append((usage["input_tokens"], usage["input_tokens"] - usage["input_token_details"]["cache_read"]))
        tick(len(counts), len(requests))
    return counts


def processed_by_server(folder, trace: Trace, tick: Tick = lambda done, total: None) -> list[tuple[int, int]]:
    """The same as `mlx_lm.server` reports it, started for this with its default cache."""
    import httpx2

    from agentkit.models.server import serving

    counts, requests = [], list(trace.requests())
    with serving(folder) as base, httpx2.Client(base_url=base, timeout=300) as client:
        for request in requests:
            body = {"model": str(folder), "messages": request, "tools": trace.tools, "max_tokens": 1, "temperature": 0}
            usage = client.post("/chat/completions", json=body).raise_for_status().json()["usage"]
            counts.append((usage["prompt_tokens"], usage["prompt_tokens"] - usage["prompt_tokens_details"]["cached_tokens"]))
            tick(len(counts), len(requests))
    return counts
