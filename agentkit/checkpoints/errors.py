"""What can be wrong with a stored thread. Every error names the thread or object, and what to do about it."""

from agentkit.models.errors import AgentkitError


class StoreDamaged(AgentkitError):
    """A stored object is not what was written: truncated, swapped, bit-flipped or missing. `what` names it."""

    def __init__(self, what: str, why: str, remedy: str = "`agentkit threads repair` offers the last good revision"):
        super().__init__(f"{what} is damaged: {why}; {remedy}")
        self.what, self.why = what, why


class StoreRefused(AgentkitError):
    """The store cannot keep what is promised, for example because it ignores conditions on a write."""


class StoreUnavailable(AgentkitError):
    """The store could not be read or written: disk full, folder read-only, server gone. The last revision stands."""


class ThreadBusy(AgentkitError):
    """Another writer holds the thread's lease and did not give it back in time."""


class CannotStore(AgentkitError, TypeError):
    """A value of the state has a type that cannot be written; the text has the path to it."""


class ClassRefused(AgentkitError):
    """A stored value names a class that is not on the allow list. It was not imported and nothing of it ran."""


class MigrationMissing(AgentkitError):
    """The thread was written under an older schema and a step of the way to this one is not registered."""


class SchemaNewer(AgentkitError):
    """The thread was written under a schema or a format that this code does not know yet."""


class GraphChanged(AgentkitError):
    """The graph is not the one that wrote the thread, and no migration says how its state is to be read."""


class CannotMerge(AgentkitError):
    """Two writers changed the thread at once and their changes cannot be put together; neither is overwritten."""
