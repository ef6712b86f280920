"""One local model on the owner thread: prompt tokens in, pieces of text out.

The loop is mlx-lm's (`generate_step`): feed, draw, and start the next step before the last token is read. Added are the
prefix cache, the thinking budget, constrained decoding with forced tokens run together, and cancel within one token.
"""

import copy
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import mlx.core as mx
import mlx_lm
import psutil
from mlx_lm.models.cache import make_prompt_cache

from agentkit.models import kv_cache
from agentkit.models.catalog import machine_memory
from agentkit.models.constrain import Matcher, TokenGrammars
from agentkit.models.errors import ContextFull
from agentkit.models.prefix_cache import CHECKPOINT, FULL, PrefixCache, Reuse, always_rewinds
from agentkit.models.profile import GenerationProfile
from agentkit.models.sampling import Sampler
from agentkit.models.thinking import ThinkingBudget

PREFILL_STEP = 512
CLEAR_EVERY = 256  # tokens; MLX keeps freed buffers, and a growing cache frees one of each size


@dataclass(frozen=True)
class Piece:
    """One generated token: its id, the text it completed (may be empty), log-probability, and where it came from."""

    token: int
    text: str
    logprob: float | None
    origin: str


@dataclass(frozen=True)
class Prefilled:
    """The prompt has been read: what was reused, the seconds it took, and `slow_hit` where reuse saved no time."""

    reuse: Reuse
    seconds: float
    slow_hit: bool = False


@dataclass(frozen=True)
class Finished:
    """Generation ended: `reason` is stop, length or cancel; counts in tokens, times in seconds."""

    reason: str
    text: str
    prompt: int
    reused: int
    generated: int
    thinking: int
    forced: int
    after_forced_close: int
    prefill_seconds: float
    decode_seconds: float


@dataclass
class Request:
    """What to generate. `boundary`: prompt tokens before the variable tail; `grammar`: Lark, or None for free text."""

    tokens: list[int]
    profile: GenerationProfile
    grammar: str | None = None
    boundary: int | None = None
    cancel: threading.Event = field(default_factory=threading.Event)


class Engine:
    """A loaded model with its caches. Every method runs on the owner thread."""

    def __init__(self, folder: Path, kv_bits: int | None = None, cache_bytes: int | None = None):
        self.model, self.tokenizer = mlx_lm.load(str(folder))
        mx.eval(self.model.parameters())
        self.kv_bits = kv_bits
        self.kv_note = kv_cache.check(make_prompt_cache(self.model), kv_bits)
        arguments = getattr(self.model, "args", None)
        text = getattr(arguments, "text_config", None) or {}
        self.vocab = getattr(arguments, "vocab_size", None) or text.get("vocab_size") or len(self.tokenizer)
        self.context = getattr(arguments, "max_position_embeddings", None) or text.get("max_position_embeddings") or 32768
        self.rewinds = always_rewinds(make_prompt_cache(self.model))
        self.prefix = PrefixCache(max_bytes=cache_bytes or machine_memory() // 8)
        self._grammars: TokenGrammars | None = None
        self._cold_rate: float | None = None

    def release(self) -> None:
        """Drop the model and everything computed with it."""
        self.prefix.clear()
        self.model = self.tokenizer = self._grammars = None

    def stream(self, request: Request) -> Iterator[Piece | Prefilled | Finished]:
        """Generate: one `Prefilled`, then `Piece`s, then `Finished`. Raises ContextFull before anything is computed."""
        profile, tokens = request.profile, request.tokens
        room = self._room(tokens)
        sampler = Sampler(profile)
        matcher = self.matcher(request.grammar) if request.grammar else None
        budget = self._budget(profile)
        if profile.seed is not None:
            mx.random.seed(profile.seed)
        began = time.perf_counter()
        cache, reuse = self._prefill(request)
        if cache is None:
            seconds = time.perf_counter() - began
            yield Finished("cancel", "", len(tokens), reuse.reused, 0, 0, 0, 0, seconds, 0.0)
            return
        fed, pending = list(tokens[:-1]), [tokens[-1]]
        opening = budget.begin(tokens)
        if matcher and not budget.opener:
            opening = matcher.forced()
        detokenizer = self.tokenizer.detokenizer
        limit = min(profile.max_tokens, room)
        run = _Run(self, sampler, matcher, budget, detokenizer, limit, request.cancel, cache, fed)
        try:
            yield from run.pieces(pending, opening, reuse, began)
        finally:
            if profile.prefix_cache:
                self.prefix.slots = profile.cache_slots
                self.prefix.store(run.fed, cache, FULL)

    def _room(self, tokens: list[int]) -> int:
        room = self.context - len(tokens)
        if room < 1:
            raise ContextFull(f"the prompt has {len(tokens)} tokens; this model holds {self.context}. Shorten the history or start a new thread")
        need = kv_cache.bytes_per_token(self.model, self.kv_bits) * len(tokens)
        free = psutil.virtual_memory().available
        if need > free * 0.9:
            raise ContextFull(f"the prompt's {len(tokens)} tokens need about {need / 1e9:.1f} GB of cache and {free / 1e9:.1f} GB are free. Shorten the history or choose a smaller model")
        return room

    def _prefill(self, request: Request) -> tuple[list | None, Reuse]:
        tokens, profile = request.tokens, request.profile
        cache, reuse = None, Reuse(len(tokens), 0, "off")
        if profile.prefix_cache:
            cache, reuse = self.prefix.fetch(tokens)
        if cache is None:
            cache = kv_cache.make(self.model, self.kv_bits)
        done = reuse.reused
        guard = len(tokens) - profile.prefix_guard
        boundary = min(guard, request.boundary) if request.boundary is not None else guard
        stops = [len(tokens) - 1]
        if profile.prefix_cache and not self.rewinds and done < boundary < stops[0]:
            stops.insert(0, boundary)
        for stop in stops:
            while done < stop:
                if request.cancel.is_set():
                    return None, reuse
                chunk = mx.array(tokens[done:min(stop, done + PREFILL_STEP)])
                self.model(chunk[None], cache=cache)
                mx.eval([layer.state for layer in cache])
                done += chunk.size
                mx.clear_cache()
            if stop < len(tokens) - 1:
                self.prefix.slots = profile.cache_slots
                self.prefix.store(tokens[:stop], copy.deepcopy(cache), CHECKPOINT)
        return cache, reuse

    def slow_hit(self, reuse: Reuse, seconds: float) -> bool:
        """Whether a prompt that was mostly reused took as long as a cold one; also learns the cold rate."""
        if reuse.reused < reuse.prompt // 4 and reuse.prompt >= 64:
            self._cold_rate = reuse.prompt / seconds
        mostly = reuse.reused > reuse.prompt // 2 and reuse.prompt >= 64
        return bool(mostly and self._cold_rate and seconds > 0.9 * reuse.prompt / self._cold_rate)

    def opens_thought(self, tokens: list[int]) -> bool:
        """Whether this prompt ends inside a thought that the chat template opened."""
        budget = self._budget(GenerationProfile())
        budget.begin(tokens)
        return budget.open

    def _budget(self, profile: GenerationProfile) -> ThinkingBudget:
        t = self.tokenizer
        if not t.has_thinking:
            return ThinkingBudget(profile.thinking_budget, (), ())
        encode = lambda text: tuple(t.encode(text, add_special_tokens=False)) if text else ()  # noqa: E731
        return ThinkingBudget(profile.thinking_budget, tuple(t.think_start_tokens), tuple(t.think_end_tokens),
                              encode("<tool_call>"), encode(profile.thinking_nudge))

    def matcher(self, grammar: str) -> Matcher:
        """A matcher for one answer; the first one builds the tokenizer's table, which takes about a second."""
        if self._grammars is None:
            self._grammars = TokenGrammars(self.tokenizer._tokenizer, self.vocab, self.tokenizer.eos_token_ids)
        return self._grammars.matcher(grammar)


class _Run:
    """The decode loop of one request; `fed` is what the cache holds, so that it can be kept."""

    def __init__(self, engine, sampler, matcher, budget, detokenizer, limit, cancel, cache, fed):
        self.engine, self.sampler, self.matcher, self.budget = engine, sampler, matcher, budget
        self.detokenizer, self.limit, self.cancel, self.cache, self.fed = detokenizer, limit, cancel, cache, fed
        self.count = self.forced = 0
        self.cut = False
        self.owed: list[int] = []
        self.eos = engine.tokenizer.eos_token_ids

    def pieces(self, pending: list[int], opening: list[int], reuse: Reuse, began: float):
        reason, text = "length", []
        opening = self._fitting(opening, 0)
        logits = self._feed(pending + opening)
        mx.eval(logits)
        prefilled = time.perf_counter()
        yield Prefilled(reuse, prefilled - began, self.engine.slow_hit(reuse, prefilled - began))
        if opening:
            self.sampler.saw(mx.array(opening))
        yield from self._emit(opening, text)
        while self.count < self.limit:
            if self.cancel.is_set():
                reason = "cancel"
                break
            if self.matcher and self.matcher.done:
                reason = "stop"
                break
            drawn, logprobs = self.sampler(logits, self._mask())
            logprob = logprobs[drawn]
            # Asked for now: behind the next step, which is on its way below, its value would come a whole step late.
            mx.async_eval(drawn, logprob)
            self.sampler.saw(drawn)
            ahead = None
            if not self.matcher and self.count + 1 < self.limit:
                # Started before the token is known: what follows here costs no time of the device's. An end token is
                # fed as well, as the next prompt of the conversation has it in this place.
                ahead = self.engine.model(drawn[None], cache=self.cache)[:, -1]
                mx.async_eval(ahead)
            token = drawn.item()
            if ahead is not None:
                self.fed.append(token)
            if token in self.eos:
                reason = "stop"
                break
            thought = self.budget.open
            must = self.budget.saw(token)
            if self.matcher:
                # A thought is outside the grammar, its opener and closer too; the call that ends one is inside.
                inside = [] if thought or self.budget.open or must else [token]
                if thought and not must and self.budget.at_call:
                    inside = self.budget.call
                for seen in inside:
                    self.matcher.saw(seen)
                if inside:
                    must = self.matcher.forced()
            must = self._fitting(must, 1)
            unfed = must if ahead is not None else [token, *must]
            if self.count + 1 + len(must) >= self.limit or self.matcher and self.matcher.done:
                self.owed = unfed
            elif unfed:
                ahead = self._feed(unfed)
                mx.async_eval(ahead)
            yield self._piece(token, logprob.item(), "sampled", text)
            if must:
                self.sampler.saw(mx.array(must))
                yield from self._emit(must, text)
            logits = ahead
            if self.count % CLEAR_EVERY == 0:
                mx.clear_cache()
        if reason == "length" and self.matcher and self.matcher.done and not self.cut:
            reason = "stop"
        self.detokenizer.finalize()
        if tail := self.detokenizer.last_segment:
            text.append(tail)
        yield Finished(reason, "".join(text), reuse.prompt, reuse.reused, self.count, self.budget.used, self.forced,
                       self.budget.after_forced_close, prefilled - began, time.perf_counter() - prefilled)
        if self.owed:
            # Nobody waits for what follows the last token; fed all the same, it is known to the next prompt.
            mx.eval(self._feed(self.owed))

    def _fitting(self, forced: list[int], before: int) -> list[int]:
        """Forced tokens as far as max_tokens lets them, after `before` more; the rest is cut like any other text."""
        room = self.limit - self.count - before
        self.cut = self.cut or len(forced) > room
        return forced[:max(0, room)]

    def _mask(self) -> mx.array | None:
        if not self.matcher:
            return None
        if self.budget.open:
            # A thought is free, but what the grammar asks for comes behind it: neither the end nor a call may cut it short.
            mask = mx.ones(self.matcher.vocab, dtype=mx.bool_)
            mask[mx.array(sorted(self.eos))] = False
            if len(self.budget.call) == 1:
                mask[self.budget.call[0]] = False
            return mask
        mask = self.matcher.mask()
        if self.budget.opener and self.count == 0:
            mask[self.budget.opener[0]] = True
        return mask

    def _feed(self, tokens: list[int]) -> mx.array:
        logits = self.engine.model(mx.array([tokens]), cache=self.cache)[:, -1]
        self.fed += tokens
        return logits

    def _emit(self, tokens: list[int], text: list[str]):
        for token in tokens:
            self.forced += 1
            yield self._piece(token, None, "forced", text)

    def _piece(self, token: int, logprob: float | None, origin: str, text: list[str]) -> Piece:
        self.count += 1
        self.detokenizer.add_token(token)
        part = self.detokenizer.last_segment
        text.append(part)
        return Piece(token, part, logprob, origin)
