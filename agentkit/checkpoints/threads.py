"""Conversations that outlive the process: LangGraph's SQLite saver on one file of the user's data folder.

`$AGENTKIT_STORE` names another place, which the AgentkitSaver then keeps: a folder, `sqlite:FILE`, `s3://bucket/prefix`.
"""

import contextlib
import os
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Union

import platformdirs

from agentkit.models.errors import AgentkitError

if TYPE_CHECKING:
    from langgraph.checkpoint.sqlite import SqliteSaver

    from agentkit.checkpoints.saver import AgentkitSaver


def data_folder() -> Path:
    """Where agentkit keeps what cannot be made again: `$AGENTKIT_DATA`, else the system's folder for user data."""
    return Path(os.environ.get("AGENTKIT_DATA") or platformdirs.user_data_path("agentkit"))


def store_address() -> str:
    """Where the AgentkitSaver keeps threads unless told otherwise: `$AGENTKIT_STORE`, else a folder of the data folder."""
    return os.environ.get("AGENTKIT_STORE") or str(data_folder() / "threads")


@contextlib.contextmanager
def open_threads(path: Path | None = None) -> Iterator[Union["SqliteSaver", "AgentkitSaver"]]:
    """The saver of all threads: `threads.sqlite` in the data folder, or the store that `$AGENTKIT_STORE` names.

    Raises AgentkitError where threads cannot be kept.
    """
    if path is None and os.environ.get("AGENTKIT_STORE"):
        from agentkit.checkpoints.saver import AgentkitSaver

        saver = AgentkitSaver(store_address())
        try:
            yield saver
        finally:
            saver.store.close()
        return
    from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
    from langgraph.checkpoint.sqlite import SqliteSaver

    path = path or data_folder() / "threads.sqlite"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        # The timeout is SQLite's busy timeout: a second process waits for its turn instead of failing as "locked".
        connection = sqlite3.connect(path, check_same_thread=False, timeout=30)
    except (OSError, sqlite3.Error) as error:
        raise AgentkitError(f"threads cannot be kept in {path}: {error}; AGENTKIT_DATA names another folder") from None
    try:
        # By default a row may name any importable callable, which would then run; None allows only the known types.
        saver = SqliteSaver(connection, serde=JsonPlusSerializer(allowed_msgpack_modules=None))
        saver.setup()
        yield saver
    except sqlite3.DatabaseError as error:
        raise AgentkitError(
            f"the threads in {path} cannot be used: {error}; AGENTKIT_DATA names another folder"
        ) from None
    finally:
        connection.close()
