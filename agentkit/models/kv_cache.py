"""Layer caches of a model: made plain or quantised, sized, and refused with a reason where quantising cannot work."""

import mlx.core as mx
from mlx_lm.models.cache import KVCache, QuantizedKVCache, make_prompt_cache

from agentkit.models.errors import BadField


def check(cache: list, bits: int | None) -> str:
    """What `kv_bits` will do to these layer caches, in words.

    Raises BadField for a width MLX lacks and for sliding-window layers, whose quantised form mlx-lm does not implement:
    they would fail at the first request, long after a start that looked healthy.
    """
    if bits is None:
        return "kept in the model's own precision"
    if bits not in (2, 3, 4, 5, 6, 8):
        raise BadField(f"kv_bits is {bits!r}; allowed are 2, 3, 4, 5, 6, 8 or None")
    names = [type(layer).__name__ for layer in cache]
    sliding = [i for i, name in enumerate(names) if name in ("RotatingKVCache", "ChunkedKVCache")]
    if sliding:
        raise BadField(f"kv_bits={bits} cannot be used with this model: layers {_short(sliding)} have a sliding window, whose cache cannot be quantised. Leave kv_bits unset")
    plain = [i for i, layer in enumerate(cache) if type(layer) is KVCache]
    rest = [i for i in range(len(cache)) if i not in plain]
    return f"{len(plain)} layers quantised to {bits} bits" + (f"; layers {_short(rest)} keep a recurrent state, unquantised" if rest else "")


def _short(numbers: list[int]) -> str:
    return ", ".join(map(str, numbers[:6])) + (" …" if len(numbers) > 6 else "")


def make(model, bits: int | None) -> list:
    """Fresh layer caches for a model; attention layers quantised from their first token if `bits` is given."""
    cache = make_prompt_cache(model)
    if bits is None:
        return cache
    return [QuantizedKVCache(bits=bits) if type(layer) is KVCache else layer for layer in cache]


def bytes_per_token(model, bits: int | None = None) -> float:
    """Bytes of keys and values one more token takes in the attention layers (0 where the configuration does not tell)."""
    a = getattr(model, "args", None)
    a = getattr(a, "text_config", None) or a
    read = a.get if isinstance(a, dict) else lambda name, default=None: getattr(a, name, default)
    attention = read("num_attention_heads") or 1
    heads = read("num_key_value_heads") or attention
    width = read("head_dim") or (read("hidden_size") or 0) // attention
    kinds = (mx.float32, mx.float16, mx.bfloat16)
    size = next((p.dtype.size for p in _leaves(model.parameters()) if p.dtype in kinds), 4)
    layers = sum(type(layer) is KVCache for layer in make_prompt_cache(model))
    # A quantised group of 64 values carries a scale and a bias.
    return 2 * layers * heads * width * (size if bits is None else bits / 8 + 2 * size / 64)


def _leaves(tree):
    if isinstance(tree, dict):
        for value in tree.values():
            yield from _leaves(value)
    elif isinstance(tree, list):
        for value in tree:
            yield from _leaves(value)
    else:
        yield tree
