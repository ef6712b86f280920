"""Where threads are kept: one small interface, a module a kind of store, and `open_store` that chooses by address."""

from agentkit.checkpoints.stores.base import UNCHANGED, Changed, Head, Store, open_store

__all__ = ["UNCHANGED", "Changed", "Head", "Store", "open_store"]
