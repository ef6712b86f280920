"""Figure: how much faster prompts are read with the fast BLAS than with the one inside the plain `mlx-cpu` wheel.

Which BLAS serves a process is settled before MLX is imported, so each side is a process of its own
(`prefill_worker`); both load the same weights once and then read the same prompt in turn.
"""

import json
import statistics
import subprocess
import sys
from collections.abc import Callable

from agentkit.bench.figure import Figure, Tick, pairs
from agentkit.models.errors import AgentkitError

TITLE, GOAL, HIGHER = "prefill with the BLAS fix against the plain wheel", 15.0, True


def measure(quick: bool, tick: Tick) -> list[Figure]:
    """Tokens per second with the fix over tokens per second without; it does not apply to a Mac."""
    if sys.platform != "linux":
        return [Figure("prefill", TITLE, None, "x", GOAL, HIGHER, "not applicable: MLX has its own kernels here")]
    from langchain_core.messages import convert_to_messages

    from agentkit.bench.trace import load_trace
    from agentkit.models import load_model
    from agentkit.models.bundled import bundled_folder

    count, rounds = (64, 2) if quick else (256, 3)
    folder, trace = bundled_folder(), load_trace()
    prompt = load_model("bundled").prompt_tokens(convert_to_messages(trace.messages), trace.tools)[:count]
    with _Worker(folder, "fast") as fast, _Worker(folder, "plain") as plain:
        if fast.blas != "openblas":
            raise AgentkitError("no OpenBLAS was found, so there is no fix to measure; see agentkit doctor")
        found = pairs(fast.reading(prompt), plain.reading(prompt), rounds, tick)
    quick_rate, slow_rate = statistics.median(found.first), statistics.median(found.second)
    how = f"{quick_rate:.0f} against {slow_rate:.1f} tokens/s; {rounds} pairs of {count} tokens, two processes"
    return [Figure("prefill", TITLE, found.ratio, "x", GOAL, HIGHER, how, found.spread,
                   {"with": found.first, "without": found.second})]


class _Worker:
    """A process that reads prompts under one BLAS."""

    def __init__(self, folder, blas: str):
        command = [sys.executable, "-m", "agentkit.bench.prefill_worker", str(folder), blas]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def __enter__(self) -> "_Worker":
        self.blas = self._answer()
        return self

    def __exit__(self, *_) -> None:
        self._process.stdin.close()
        self._process.wait(30)
        self._process.stdout.close()

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
