"""LoRA on a Llama, written out: the forward pass over one group of dialogues that share their tool list.

The shared prefix runs once; every dialogue attends to the prefix and to itself (a tree of attention). On a CPU the
exponentials cost more than the matrix products, so sigmoid and softmax use polynomials (error under 1e-3; the loss
agrees with mlx-lm's classes to 1e-3, a test says so, and the merged adapter is evaluated in those classes).
"""

import math
from dataclasses import dataclass

import mlx.core as mx
import mlx.nn as nn

from agentkit.models.bundled import LORA_KEYS


@dataclass(frozen=True)
class Packed:
    """One group as tokens: `tokens` (T,), the prefix's length, each dialogue's (start, stop), and what is learnt.

    `rows` are positions whose next token `targets` counts in the loss (assistant turns only), with `weights`.
    """

    tokens: mx.array
    prefix: int
    spans: list[tuple[int, int]]
    rows: mx.array
    targets: mx.array
    weights: mx.array


def init(weights: dict, rank: int, seed: int) -> dict:
    """A fresh adapter: A uniform in ±1/√in, B zero, so training starts from the untouched model (Hu et al. 2021)."""
    mx.random.seed(seed)
    adapter = {}
    for name in weights:
        stem = name.removesuffix(".weight")
        if any(stem.endswith(key) for key in LORA_KEYS):
            out, width = weights[name].shape
            bound = 1 / math.sqrt(width)
            adapter[stem + ".lora_a"] = mx.random.uniform(-bound, bound, (width, rank))
            adapter[stem + ".lora_b"] = mx.zeros((rank, out))
    return adapter


def _exp(x):
    """e^x for x <= 0: Taylor at x/16, squared four times; below -20 it counts as -20."""
    x = mx.maximum(x, -20.0) * (1 / 16)
    y = 1 + x * (1 + x * (1 / 2 + x * (1 / 6 + x * (1 / 24 + x * (1 / 120)))))
    y = y * y
    y = y * y
    y = y * y
    return y * y


@mx.custom_function
def softmax(scores):
    """Softmax over the last axis with the fast exponential."""
    y = _exp(scores - scores.max(-1, keepdims=True))
    return y * (1 / y.sum(-1, keepdims=True))


@softmax.vjp
def _softmax_vjp(primals, cotangent, output):
    return output * (cotangent - (output * cotangent).sum(-1, keepdims=True))


@mx.custom_function
def sigmoid(x):
    """1 / (1 + e^-x) by the Padé form of tanh, without an exponential."""
    x = mx.clip(x * 0.5, -4.97, 4.97)
    s = x * x
    return 0.5 + 0.5 * x * (135135 + s * (17325 + s * (378 + s))) / (135135 + s * (62370 + s * (3150 + s * 28)))


@sigmoid.vjp
def _sigmoid_vjp(primals, cotangent, output):
    return cotangent * output * (1 - output)


def loss(adapter: dict, weights: dict, config: dict, scale: float, batch: Packed) -> mx.array:
    """Mean weighted cross entropy of the learnt rows, in nats a token."""
    heads, kv_heads = config["num_attention_heads"], config["num_key_value_heads"]
    width = config["hidden_size"] // heads
    eps = config["rms_norm_eps"]
    positions = _positions(batch)
    angles = positions[:, None] * mx.exp(mx.arange(0, width, 2) * (-math.log(config["rope_theta"]) / width))
    cos, sin = mx.cos(angles), mx.sin(angles)
    masks = [_causal(b - a, batch.prefix) for a, b in batch.spans]
    first = _causal(batch.prefix, 0)

    def linear(stem, x):
        low = (x @ adapter[stem + ".lora_a"]) @ adapter[stem + ".lora_b"]
        return x @ weights[stem + ".weight"].T + scale * low

    def turn(x, count):
        x = x.reshape(-1, count, width // 2, 2).transpose(1, 0, 2, 3)
        a, b = x[..., 0], x[..., 1]
        return mx.stack([a * cos - b * sin, a * sin + b * cos], -1).reshape(count, -1, width)

    def attend(q, k, v, mask):
        rows, keys = q.shape[1], k.shape[1]
        scores = (q.reshape(kv_heads, -1, width) @ k.swapaxes(1, 2)).reshape(heads, rows, keys)
        found = softmax(scores + mask).reshape(kv_heads, -1, keys) @ v
        return found.reshape(heads, rows, width)

    x = weights["model.embed_tokens.weight"][batch.tokens]
    for layer in range(config["num_hidden_layers"]):
        stem = f"model.layers.{layer}."
        h = mx.fast.rms_norm(x, weights[stem + "input_layernorm.weight"], eps)
        q = turn(linear(stem + "self_attn.q_proj", h), heads) * width**-0.5
        k = turn(linear(stem + "self_attn.k_proj", h), kv_heads)
        v = linear(stem + "self_attn.v_proj", h).reshape(-1, kv_heads, width).swapaxes(0, 1)
        p = batch.prefix
        parts = [attend(q[:, :p], k[:, :p], v[:, :p], first)]
        for (a, b), mask in zip(batch.spans, masks):
            keys = mx.concatenate([k[:, :p], k[:, a:b]], 1)
            parts.append(attend(q[:, a:b], keys, mx.concatenate([v[:, :p], v[:, a:b]], 1), mask))
        mixed = mx.concatenate(parts, 1).swapaxes(0, 1).reshape(-1, heads * width)
        x = x + linear(stem + "self_attn.o_proj", mixed)
        h = mx.fast.rms_norm(x, weights[stem + "post_attention_layernorm.weight"], eps)
        gate = linear(stem + "mlp.gate_proj", h)
        gated = gate * sigmoid(gate) * linear(stem + "mlp.up_proj", h)
        x = x + linear(stem + "mlp.down_proj", gated)
    h = mx.fast.rms_norm(x[batch.rows], weights["model.norm.weight"], eps)
    chances = softmax(h @ weights["model.embed_tokens.weight"].T)
    picked = mx.take_along_axis(chances, batch.targets[:, None], -1)[:, 0]
    return -(mx.log(picked) * batch.weights).sum() / batch.weights.sum()


def _positions(batch: Packed) -> mx.array:
    parts = [mx.arange(batch.prefix)] + [mx.arange(batch.prefix, batch.prefix + b - a) for a, b in batch.spans]
    return mx.concatenate(parts).astype(mx.float32)


def _causal(rows: int, before: int) -> mx.array:
    mask = nn.MultiHeadAttention.create_additive_causal_mask(rows)
    return mx.concatenate([mx.zeros((rows, before)), mx.maximum(mask, -1e9)], 1) if before else mx.maximum(mask, -1e9)
