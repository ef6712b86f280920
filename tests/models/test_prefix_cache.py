"""The exact prefix cache on real layer caches: reuse, reasons, and logits equal to a cold run's."""

import copy

import pytest

from agentkit.models.owner import owner

FOX = "the quick brown fox jumps over the lazy dog "


def logits_after(engine, tokens, cache=None, step=512):
    """Logits after the last token, fed in pieces on the owner thread; returns a numpy array."""
    import mlx.core as mx
    import numpy as np
    from mlx_lm.models.cache import make_prompt_cache

    def work():
        layers = cache or make_prompt_cache(engine.model)
        for at in range(0, len(tokens), step):
            out = engine.model(mx.array([tokens[at:at + step]]), cache=layers)
            mx.eval(out, [layer.state for layer in layers])
        return np.array(out[0, -1])

    return owner().call(work)


@pytest.mark.parametrize("name", ["qwen3", "hybrid", "sliding"])
def test_warm_logits_equal_cold_ones_for_a_continuation(engines, name):
    import mlx.core as mx
    import numpy as np
    from mlx_lm.models.cache import make_prompt_cache

    engine = engines[name]
    owner().call(engine.prefix.clear)
    tokens = engine.tokenizer.encode(FOX * 3, add_special_tokens=False)
    head, tail = tokens[:20], tokens[20:]

    def store():
        layers = make_prompt_cache(engine.model)
        engine.model(mx.array([head]), cache=layers)
        mx.eval([layer.state for layer in layers])
        engine.prefix.store(head, copy.deepcopy(layers), "conversation")
        return layers

    cold_layers = owner().call(store)
    warm_layers, reuse = owner().call(engine.prefix.fetch, tokens)
    assert reuse.reused == 20
    warm, cold = logits_after(engine, tail, warm_layers), logits_after(engine, tail, cold_layers)
    assert np.abs(warm - cold).max() == 0.0
    whole = logits_after(engine, tokens)
    assert np.abs(warm - whole).max() < 1e-4
    # The stored entry must not have been written through the copy.
    again, _ = owner().call(engine.prefix.fetch, tokens)
    assert np.abs(logits_after(engine, tail, again) - warm).max() == 0.0


def test_cutting_back_gives_the_logits_of_a_cold_run(engines, generate):
    import numpy as np

    engine = engines["qwen3"]
    tokens = engine.tokenizer.encode(FOX * 3, add_special_tokens=False)
    generate("qwen3", tokens)
    other = tokens[:15] + tokens[3:9]
    layers, reuse = owner().call(engine.prefix.fetch, other)
    assert (reuse.reused, reuse.difference) == (15, 15)
    assert reuse.reason == "hit: cut back to the first differing token"
    assert (reuse.cached_token, reuse.prompt_token) == (tokens[15], tokens[3])
    warm = logits_after(engine, other[15:], layers)
    assert np.abs(warm - logits_after(engine, other)).max() < 1e-4


def test_mlx_lm_1254_hybrid_diverging_prompt_is_a_named_miss_and_a_checkpoint_hit(generate):
    """A hybrid cannot rewind past its checkpoint; the report says so, with counts."""
    tokens = list(range(10, 29))
    generate("hybrid", tokens, prefix_guard=4)
    early, _, _ = generate("hybrid", tokens[:10] + [50, 51], prefix_guard=4)
    assert (early.reuse.reused, early.reuse.reason, early.reuse.difference) == (0, "miss: hybrid state cannot rewind", 10)
    generate("hybrid", tokens, prefix_guard=4)
    late, _, _ = generate("hybrid", tokens[:17] + [50, 51], prefix_guard=4)
    assert late.reuse.reused == 15, "the checkpoint before the guard's four tokens serves"
    assert late.reuse.reason == "hit: the prompt goes on from the checkpoint"


def test_plain_extension_is_reused_on_hybrid(generate):
    tokens = list(range(10, 29))
    _, pieces, _ = generate("hybrid", tokens)
    seen = tokens + [piece.token for piece in pieces]
    longer, _, _ = generate("hybrid", seen + [40, 41])
    assert longer.reuse.reused == len(seen)
    assert longer.reuse.reason == "hit: the prompt goes on from the conversation"


@pytest.mark.parametrize("name", ["hybrid", "sliding"])
def test_mlx_lm_1596_edited_last_message_reuses_up_to_the_snapshot(generate, name):
    """The snapshot lies where the last message begins (`boundary`), so editing that message keeps all before it."""
    history = list(range(10, 40))
    generate(name, history + [50, 51, 52, 53, 54, 55, 56, 57], boundary=30, prefix_guard=2)
    edited, _, _ = generate(name, history + [60, 61, 62, 63], boundary=30, prefix_guard=2)
    assert edited.reuse.reused == 30


@pytest.mark.parametrize("name", ["qwen3", "hybrid", "sliding"])
def test_vllm_mlx_145_the_identical_prompt_twice_keeps_a_token_to_feed(generate, name):
    tokens = list(range(10, 30))
    first, pieces, _ = generate(name, tokens)
    second, again, _ = generate(name, tokens)
    assert 0 < second.reuse.reused < len(tokens)
    assert [p.token for p in again] == [p.token for p in pieces]


@pytest.mark.parametrize("name", ["qwen3", "hybrid", "sliding"])
def test_mlx_vlm_2152_two_turn_chat_runs_and_reuses(generate, name):
    tokens = list(range(10, 30))
    _, pieces, _ = generate(name, tokens)
    turn2 = tokens + [p.token for p in pieces] + list(range(60, 70))
    cold_tokens = generate_cold(generate, name, turn2)
    _, _, _ = generate(name, tokens)
    warm, warm_pieces, _ = generate(name, turn2)
    assert warm.reuse.reused >= len(tokens) - 4
    assert [p.token for p in warm_pieces] == cold_tokens


def generate_cold(generate, name, tokens):
    return [p.token for p in generate(name, tokens, prefix_cache=False)[1]]


@pytest.mark.parametrize("name", ["qwen3", "hybrid"])
def test_mlx_vlm_1287_counters_move(engines, generate, name):
    cache = engines[name].prefix
    stored, hits = cache.stored, cache.hits
    generate(name, list(range(10, 30)))
    generate(name, list(range(10, 34)))
    assert cache.stored > stored and cache.hits > hits
    assert cache.nbytes > 0


def test_mlx_vlm_1077_a_hit_without_speed_up_is_flagged(engines):
    from agentkit.models.prefix_cache import Reuse

    engine = engines["qwen3"]
    assert not engine.slow_hit(Reuse(1000, 0, "cold"), 2.0)
    assert engine.slow_hit(Reuse(1000, 900, "hit"), 2.0)
    assert not engine.slow_hit(Reuse(1000, 900, "hit"), 0.3)


def test_switched_off_it_neither_stores_nor_reuses(engines, generate):
    before = engines["qwen3"].prefix.stored
    for _ in range(2):
        prefilled, _, _ = generate("qwen3", list(range(10, 30)), prefix_cache=False)
    assert (prefilled.reuse.reused, prefilled.reuse.reason) == (0, "off")
    assert engines["qwen3"].prefix.stored == before


def test_eviction_is_least_recently_used_and_named(generate):
    one, two, three = (list(range(start, start + 12)) for start in (10, 100, 200))
    for tokens in (one, two, one, three):
        generate("qwen3", tokens, cache_slots=2)
    kept, _, _ = generate("qwen3", one, cache_slots=2)
    gone, _, _ = generate("qwen3", two, cache_slots=2)
    assert kept.reuse.reused == 11
    assert (gone.reuse.reused, gone.reuse.reason) == (0, "miss: evicted, other prompts took the slots")


def test_mlx_lm_883_bytes_are_capped(engines, generate):
    """Unbounded growth took a Mac down: an entry over the cap is not kept, older ones go first."""
    cache = engines["qwen3"].prefix
    old = cache.max_bytes
    try:
        cache.max_bytes = 1
        generate("qwen3", list(range(10, 30)))
        assert cache.nbytes == 0 and not cache.entries
    finally:
        cache.max_bytes = old


def test_a_grown_conversation_takes_one_slot(engines, generate):
    tokens = list(range(10, 30))
    for _ in range(4):
        _, pieces, _ = generate("qwen3", tokens, cache_slots=4)
        tokens = tokens + [p.token for p in pieces] + [60, 61]
    assert len(engines["qwen3"].prefix.entries) == 1
