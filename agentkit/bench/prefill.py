"""Figure: how much faster prompts are read with the fast BLAS than with the one inside the plain `mlx-cpu` wheel.

Which BLAS serves a process is settled before MLX is imported, so each side is a process of its own
(`prefill_worker`); both load the same weights once and then read the same prompt in turn.
"""

import json
import statistics
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from agentkit.bench.figure import Figure, Tick, pairs
from agentkit.models.errors import AgentkitError

FIGURES = (Figure("prefill", "prefill with the BLAS fix against the plain wheel", "x", 15.0, higher=True),)


def measure(quick: bool, tick: Tick) -> list[Figure]:
    """Tokens per second with the fix over tokens per second without; it does not apply to a Mac."""
    if sys.platform != "linux":
        return [FIGURES[0].found(None, "not applicable: MLX has its own kernels here")]
    from langchain_core.messages import convert_to_messages

    from agentkit.bench.trace import load_trace
    from agentkit.models import load_model
    from agentkit.models.bundled import bundled_folder

    count, rounds = (64, 2) if quick else (256, 3)
    folder, trace = bundled_folder(), load_trace()
    prompt = load_model("bundled").prompt_tokens(convert_to_messages(trace.messages), trace.tools)[:count]
    with Worker(folder, "fast") as fast, Worker(folder, "plain") as plain:
        if fast.blas != "openblas":
            raise AgentkitError("no OpenBLAS was found, so there is no fix to measure; see agentkit doctor")
        found = pairs(fast.reading(prompt), plain.reading(prompt), rounds, tick)
    fixed, plain = statistics.median(found.first), statistics.median(found.second)
    how = f"{fixed:.0f} against {plain:.1f} tokens/s; {rounds} pairs of {count} tokens, two processes"
    return [FIGURES[0].found(found.ratio, how, found.spread, openblas=found.first, plain=found.second)]


class Worker:
    """A process that reads prompts under one BLAS, "fast" or "plain"; as a context manager, it ends with the block."""

    def __init__(self, folder: Path, blas: str):
        command = [sys.executable, "-m", "agentkit.bench.prefill_worker", str(folder), blas]
        # In a session of its own, so that Ctrl-C ends it through its owner and without a traceback.
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                         start_new_session=True)

    def __enter__(self) -> "Worker":
        try:
            self.blas = self._answer()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_) -> None:
        self._process.terminate()
        self._process.communicate()

    def reading(self, prompt: list[int]) -> Callable[[], float]:
        """A function that has the prompt read once and gives the tokens per second."""

        def read() -> float:
            self._process.stdin.write(json.dumps(prompt) + "\n")
            self._process.stdin.flush()
            return len(prompt) / self._answer()

        return read

    def _answer(self):
        line = self._process.stdout.readline()
        if not line:
            raise AgentkitError(f"the measuring process ended with code {self._process.wait()}")
        return json.loads(line)
