"""Errors that a person can act on: each message names what was wrong, the value and the remedy."""


class AgentkitError(Exception):
    """Base of every error agentkit raises for bad input or a missing part; its text is one clear line."""


class ModelUnavailable(AgentkitError):
    """The model asked for cannot be had here: unknown name, no network, no weights or an optional package missing."""


class NotEnoughMemory(AgentkitError):
    """The model needs more memory than this machine has; `--yes` (or `confirm=True`) tries anyway."""


class BadField(AgentkitError, ValueError):
    """A setting outside its range: the text names the field, the value and what is allowed."""


class ContextFull(AgentkitError):
    """Prompt and answer together would pass the model's context or the cache's byte cap."""


class EvalUnavailable(AgentkitError):
    """The questions of an evaluation cannot be read: package not installed, file missing or a line that is no case."""
