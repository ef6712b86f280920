"""Reuse the computed beginning of earlier prompts, exactly: the logits are those of a cold run.

An attention cache can be cut back to any token, so one entry (the whole conversation) serves every prompt that shares
its beginning. A recurrent or hybrid cache cannot rewind: cutting only its attention layers shifts the logits. For
those, slot 1 holds a checkpoint before the variable tail of the prompt and slot 2 the conversation as it ended.
"""

import copy
from collections import OrderedDict, deque
from dataclasses import dataclass, field, replace

FULL, CHECKPOINT = "conversation", "checkpoint"


@dataclass
class Entry:
    """The tokens whose state `cache` holds (a list of mlx-lm layer caches), and which slot it fills."""

    tokens: list[int]
    cache: list
    slot: str

    @property
    def nbytes(self) -> int:
        return sum(layer.nbytes for layer in self.cache)


@dataclass(frozen=True)
class Reuse:
    """What one prompt took from the cache: token counts and why.

    `difference` is the index of the first token at which the nearest entry differs from the prompt (None: it does not);
    `cached_token` and `prompt_token` are the two ids there.
    """

    prompt: int
    reused: int
    reason: str
    difference: int | None = None
    cached_token: int | None = None
    prompt_token: int | None = None


@dataclass
class PrefixCache:
    """Keeps up to `slots` entries, least recently used out first, and never more than `max_bytes`."""

    slots: int = 2
    max_bytes: int = 2 << 30
    entries: "OrderedDict[int, Entry]" = field(default_factory=OrderedDict)
    evicted: deque = field(default_factory=lambda: deque(maxlen=8))
    stored: int = 0
    hits: int = 0
    _serial: int = 0

    def fetch(self, tokens: list[int]) -> tuple[list | None, Reuse]:
        """A copy of the longest usable state for `tokens` (None: start cold) and the report.

        At least the last token is always left to feed, since its logits are needed.
        """
        best, best_length, nearest = None, 0, Reuse(len(tokens), 0, "miss: nothing cached yet")
        furthest = -1
        for key, entry in self.entries.items():
            shared = shared_length(entry.tokens, tokens)
            usable = min(shared, len(tokens) - 1)
            whole = usable == len(entry.tokens)
            can_cut = can_trim(entry.cache)
            if shared > furthest:
                furthest, nearest = shared, self._nearest(entry, tokens, shared, usable, whole, can_cut)
            if (whole or can_cut) and usable > best_length:
                best, best_length = key, usable
        if best is None:
            if furthest <= 0 and any(shared_length(old, tokens) > 1 for old in self.evicted):
                nearest = replace(nearest, reason="miss: evicted, other prompts took the slots")
            return None, nearest
        entry = self.entries[best]
        self.entries.move_to_end(best)
        self.hits += 1
        cache = copy.deepcopy(entry.cache)
        surplus = len(entry.tokens) - best_length
        if surplus:
            for layer in cache:
                layer.trim(surplus)
        return cache, replace(nearest, reused=best_length, reason=self._why(entry, tokens, best_length, nearest))

    def _nearest(self, entry, tokens, shared, usable, whole, can_cut) -> Reuse:
        report = Reuse(len(tokens), 0, "miss: the prompt differs from its first token on")
        if shared < len(entry.tokens) and shared < len(tokens):
            report = replace(report, difference=shared, cached_token=entry.tokens[shared], prompt_token=tokens[shared])
        if usable > 0 and not whole and not can_cut:
            kind = "sliding window" if any(hasattr(layer, "max_size") for layer in entry.cache) else "hybrid state"
            report = replace(report, reason=f"miss: {kind} cannot rewind")
        return report

    @staticmethod
    def _why(entry: Entry, tokens: list[int], length: int, nearest: Reuse) -> str:
        if length == len(tokens) - 1 and len(entry.tokens) >= len(tokens):
            return "hit: the prompt is known, only its last token is fed again"
        if length == len(entry.tokens):
            return "hit: the prompt goes on from the " + entry.slot
        return "hit: cut back to the first differing token"

    def store(self, tokens: list[int], cache: list, slot: str) -> None:
        """Keep `cache` (the caller no longer uses it) as the state after `tokens`."""
        entry = Entry(list(tokens), cache, slot)
        if not tokens or entry.nbytes > self.max_bytes:
            return
        for key, old in list(self.entries.items()):
            follows = shared_length(old.tokens, entry.tokens) == len(old.tokens)
            # What a newer, longer entry can be cut back to needs no slot of its own; a hybrid's slot is refilled.
            if follows and (can_trim(cache) or old.slot == slot):
                del self.entries[key]
        self._serial += 1
        self.entries[self._serial] = entry
        self.stored += 1
        while len(self.entries) > self.slots or self.nbytes > self.max_bytes:
            _, old = self.entries.popitem(last=False)
            self.evicted.append(old.tokens[:4096])

    @property
    def nbytes(self) -> int:
        """Bytes of all entries' layer states."""
        return sum(entry.nbytes for entry in self.entries.values())

    def clear(self) -> None:
        """Forget every entry."""
        self.entries.clear()
        self.evicted.clear()


def shared_length(a: list[int], b: list[int]) -> int:
    """How many leading tokens two lists share."""
    limit = min(len(a), len(b))
    if a[:limit] == b[:limit]:
        return limit
    return next(i for i in range(limit) if a[i] != b[i])


def always_rewinds(cache: list) -> bool:
    """Whether these layers can be cut back at any length; a sliding window can until it is full, so it does not count."""
    return can_trim(cache) and not any(hasattr(layer, "max_size") for layer in cache)


def can_trim(cache: list) -> bool:
    """Whether every layer can be cut back now; one recurrent or wrapped sliding-window layer is enough to say no."""
    return all(layer.is_trimmable() for layer in cache)
