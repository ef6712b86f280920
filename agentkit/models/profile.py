"""How to generate: one frozen set of values, checked where it is made."""

import dataclasses
from dataclasses import dataclass, field

from agentkit.models.errors import BadField


def _setting(default, low, high, help, optional=False):
    return field(default=default, metadata={"low": low, "high": high, "help": help, "optional": optional})


@dataclass(frozen=True)
class GenerationProfile:
    """How a model writes and how far a run may go. `ranges()` tells widgets and `--profile` what is allowed.

    Raises `BadField` that names the field, the value and the allowed range.
    """

    temperature: float = _setting(0.1, 0.0, 2.0, "0 always takes the likeliest token; higher spreads the choice")
    top_p: float = _setting(1.0, 0.01, 1.0, "keep the likeliest tokens up to this sum of probability (1: all)")
    top_k: int = _setting(0, 0, 1000, "keep only this many of the likeliest tokens (0: all)")
    min_p: float = _setting(0.0, 0.0, 1.0, "drop tokens less likely than this share of the likeliest (0: none)")
    max_tokens: int = _setting(512, 1, 131072, "longest answer, in tokens")
    thinking_budget: int = _setting(1536, 0, 131072, "most tokens of thought before the thought is closed by force")
    thinking_nudge: str = field(default="", metadata={"help": "text forced into the thought before it is closed"})
    repetition_penalty: float = _setting(1.05, 1.0, 2.0, "divides the logits of tokens used lately (1: off)")
    repetition_window: int = _setting(128, 0, 8192, "how many generated tokens back the penalty looks")
    seed: int | None = _setting(None, 0, 2**32 - 1, "same seed, same machine, same text (None: drawn anew)", optional=True)
    recursion_limit: int = _setting(60, 1, 10000, "most supersteps of a run")
    max_steps: int = _setting(8, 1, 10000, "most steps of a run of the handmade loop: a model call and its tool are one")
    token_budget: int = _setting(0, 0, 10**9, "most tokens a run may read and write before it must end (0: no limit)")
    time_limit: float = _setting(0.0, 0.0, 86400.0, "most seconds of a run (0: no limit)")
    prefix_cache: bool = field(default=True, metadata={"help": "reuse the computed beginning of the last prompts"})
    cache_slots: int = _setting(2, 1, 16, "how many computed prompts are kept")
    prefix_guard: int = _setting(64, 1, 4096, "tokens left off the end of the reusable checkpoint (the variable tail)")
    constrained: bool = field(default=False, metadata={"help": "force calls to be well-formed and to name an existing tool"})

    def __post_init__(self):
        for f in dataclasses.fields(self):
            object.__setattr__(self, f.name, _checked(f, getattr(self, f.name)))

    def but(self, **changes) -> "GenerationProfile":
        """A copy with some fields changed; an unknown name is a `BadField`, too."""
        _known(changes)
        return dataclasses.replace(self, **changes)

    @classmethod
    def from_text(cls, pairs: list[str], base: "GenerationProfile | None" = None) -> "GenerationProfile":
        """Read `key=value` pairs as `--profile` takes them."""
        changes = {}
        for pair in pairs:
            key, equals, value = pair.partition("=")
            if not equals:
                raise BadField(f"profile {pair!r}: write it as key=value, for example temperature=0.7")
            changes[key.strip()] = value.strip()
        return (base or cls()).but(**changes)

    @classmethod
    def ranges(cls) -> dict[str, dict]:
        """Per field: default, help, and low and high where it is a number."""
        return {f.name: {"default": f.default, **f.metadata} for f in dataclasses.fields(cls)}


def _known(changes: dict) -> None:
    names = [f.name for f in dataclasses.fields(GenerationProfile)]
    for name in changes:
        if name not in names:
            raise BadField(f"profile field {name!r} is unknown; known are {', '.join(names)}")


def _checked(f: dataclasses.Field, value):
    kind = type(f.default) if f.default is not None else int
    if kind is str:
        return str(value)
    if value is None or str(value).lower() in ("none", ""):
        if f.metadata.get("optional"):
            return None
        raise BadField(f"{f.name} needs a value")
    if kind is bool:
        words = {"true": True, "on": True, "yes": True, "1": True, "false": False, "off": False, "no": False, "0": False}
        if str(value).lower() not in words:
            raise BadField(f"{f.name} is {value!r}; allowed are true and false")
        return words[str(value).lower()]
    low, high = f.metadata["low"], f.metadata["high"]
    try:
        number = float(value)
        if kind is int and number != int(number) or isinstance(value, bool):
            raise ValueError
        number = kind(number) if kind is float else int(value)
    except (TypeError, ValueError, OverflowError):
        raise BadField(f"{f.name} is {value!r}; allowed is {'a whole number' if kind is int else 'a number'} from {low} to {high}") from None
    if not low <= number <= high:
        raise BadField(f"{f.name} is {value!r}; allowed is {low} to {high}")
    return number
