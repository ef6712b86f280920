"""From logits to a token: repetition penalty over a window, then temperature, top-p, min-p and top-k by mlx-lm."""

from collections.abc import Callable

import mlx.core as mx
from mlx_lm.sample_utils import make_repetition_penalty, make_sampler

from agentkit.models.profile import GenerationProfile


class Sampler:
    """Draws tokens for one generation. The penalty looks at generated tokens only.

    Penalising the prompt's tokens as well would push a model off copying a name or a path into a call, and most of
    what an agent writes is copied.
    """

    def __init__(self, profile: GenerationProfile):
        self._draw: Callable[[mx.array], mx.array] = make_sampler(
            temp=profile.temperature, top_p=profile.top_p if profile.top_p < 1 else 0.0, min_p=profile.min_p, top_k=profile.top_k)
        self._window = profile.repetition_window
        self._penalise = None
        if profile.repetition_penalty != 1.0 and self._window:
            self._penalise = make_repetition_penalty(profile.repetition_penalty, self._window)
        self._recent: mx.array | None = None

    def saw(self, tokens: mx.array) -> None:
        """Take generated tokens (k,) into the penalty's window; they may still be unevaluated."""
        if self._penalise:
            recent = tokens if self._recent is None else mx.concatenate([self._recent, tokens])
            self._recent = recent[-self._window:]

    def __call__(self, logits: mx.array, mask: mx.array | None = None) -> tuple[mx.array, mx.array]:
        """Token (1,) and log-probabilities (vocab,) after penalty and mask, from logits (1, vocab). Lazy."""
        logits = logits.astype(mx.float32)
        if self._penalise and self._recent is not None:
            logits = self._penalise(self._recent, logits)
        if mask is not None:
            logits = mx.where(mask, logits, -mx.inf)
        logprobs = logits - mx.logsumexp(logits, keepdims=True)
        return self._draw(logprobs), logprobs[0]
