"""Start mlx-lm's own OpenAI-compatible server on a model folder: for tests, benchmarks and lessons on backends."""

import contextlib
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from agentkit.models.errors import ModelUnavailable
from agentkit.models.hub import problem

# The server's process needs the fast BLAS, too, and before its first import of MLX.
_PROGRAM = "from agentkit.models.blas import use_fast_blas; use_fast_blas(); from mlx_lm.server import main; main()"


def command(folder: Path | str, port: int, *options: str) -> list[str]:
    """The command that serves a model folder at http://127.0.0.1:PORT/v1; `options` go to `mlx_lm.server`."""
    return [
        sys.executable,
        "-c",
        _PROGRAM,
        "--model",
        str(Path(folder).resolve()),
        "--host",
        "127.0.0.1",
        "--port",
        str(port),
        "--log-level",
        "WARNING",
        *options,
    ]


def free_port() -> int:
    """A TCP port of this machine that nobody listens on at the moment."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


@contextlib.contextmanager
def serving(folder: Path | str, *options: str, seconds: float = 120.0) -> Iterator[str]:
    """Serve a model folder while the block runs; gives the base URL `http://127.0.0.1:PORT/v1`.

    The server sees an empty hub cache, so it knows this one model only. Raises `ModelUnavailable` for a folder
    that is not whole, and with the end of the server's log if it does not come up in time.
    """
    if reason := problem(Path(folder)):
        raise ModelUnavailable(f"{folder} cannot be served: {reason}")
    port = free_port()
    with tempfile.TemporaryDirectory() as place, (Path(place) / "log").open("w+") as log:
        (Path(place) / "hub").mkdir()
        env = os.environ | {"HF_HUB_CACHE": f"{place}/hub", "HF_HUB_OFFLINE": "1", "PYTHONWARNINGS": "ignore"}
        process = subprocess.Popen(command(folder, port, *options), stdout=log, stderr=log, env=env)
        try:
            _wait(process, port, log, time.monotonic() + seconds)
            yield f"http://127.0.0.1:{port}/v1"
        finally:
            process.terminate()
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _wait(process: subprocess.Popen, port: int, log, until: float) -> None:
    import httpx2

    while process.poll() is None and time.monotonic() < until:
        try:
            if httpx2.get(f"http://127.0.0.1:{port}/health", timeout=2).status_code == 200:
                return
        except httpx2.HTTPError:
            pass
        time.sleep(0.2)
    log.seek(0)
    end = log.read().strip().splitlines()[-1:]
    state = "did not come up in time" if process.poll() is None else f"ended with code {process.returncode}"
    raise ModelUnavailable(f"mlx_lm.server {state}{': ' + end[0] if end else ''}")
