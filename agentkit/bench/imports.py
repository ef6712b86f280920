"""Figure: how long `import agentkit` takes in a fresh process, and that it loads no model library."""

import json
import statistics
import subprocess
import sys

from agentkit.bench.figure import Figure, Tick, quartiles

FIGURES = (Figure("import", "import agentkit", "s", 0.3, higher=False),)
_PROGRAM = """
import sys, time
began = time.perf_counter()
import agentkit
seconds = time.perf_counter() - began
import agentkit.models, json
print(json.dumps([seconds, sorted({name.split(".")[0] for name in sys.modules if name.startswith("mlx")})]))
"""


def measure(quick: bool, tick: Tick) -> list[Figure]:
    """Median seconds of the import statement; a loaded MLX makes the figure fail whatever the time."""
    rounds = 3 if quick else 7
    seconds, loaded = [], set()
    for number in range(rounds):
        got = subprocess.run([sys.executable, "-c", _PROGRAM], capture_output=True, text=True, check=True)
        took, modules = json.loads(got.stdout)
        seconds.append(took)
        loaded |= set(modules)
        tick(number + 1, rounds)
    how = f"median of {rounds} fresh processes; with agentkit.models no MLX module is loaded"
    if loaded:
        how = f"it imports {', '.join(sorted(loaded))}, which must wait until a model is asked for"
    measured = float("inf") if loaded else statistics.median(seconds)
    return [FIGURES[0].found(measured, how, quartiles(seconds), seconds=seconds)]
