"""Figure: what `kill -9` at random moments costs a thread on the local store. Counted, not timed.

Each round forks a process that runs a graph step by step with durable writes and reports every superstep once it is
finished; it is killed at a random moment, and the next round goes on where the store says. `python -m
agentkit.bench.kills 300 FOLDER` does the long count.
"""

import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from agentkit.bench.figure import Figure, Tick

FIGURES = (Figure("kills", "finished supersteps lost, stores unreadable, steps run twice, by kill -9", "", 0, higher=False),)


def measure(quick: bool, tick: Tick) -> list[Figure]:
    """The sum of all three; each is in the details."""
    rounds = 20 if quick else 300
    with tempfile.TemporaryDirectory() as folder:
        # A process of its own: forking one that has threads and MLX in it would be another experiment.
        command = [sys.executable, "-m", "agentkit.bench.kills", str(rounds), folder]
        running = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        for line in running.stdout:
            found = json.loads(line)
            tick(found["kills"], rounds)
    bad = found["lost"] + found["unreadable"] + found["twice"]
    how = f"{found['kills']} kills at random moments, {found['supersteps']} supersteps finished in between"
    return [FIGURES[0].found(bad, how, **found)]


def counted(rounds: int, folder: Path, seed: int = 0) -> dict[str, int]:
    """Kill so many processes; prints the count after each as a JSON line and returns the last."""
    chance = random.Random(seed)
    found = {"kills": 0, "supersteps": 0, "lost": 0, "unreadable": 0, "twice": 0}
    reported = 0
    while found["kills"] < rounds:
        began = reported
        read, write = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(read)
            _work(folder, write)
        os.close(write)
        with os.fdopen(read, "rb", buffering=0) as pipe:
            pipe.read(1)  # the graph runs now
            time.sleep(chance.uniform(0, 0.25))
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            rest = b"".join(iter(lambda: pipe.read(65536), b""))
        finished = [int(line) for line in rest.split(b"\n")[:-1]]
        ran = [int(line) for line in _ran(folder)]
        found["twice"] += sum(1 for step in ran if step <= began)  # what had been reported before this round
        reported = max([reported, *finished])
        found["supersteps"], found["kills"] = reported, found["kills"] + 1
        try:
            held = _held(folder)
        except Exception as error:
            found["unreadable"] += 1
            print(f"{type(error).__name__}: {error}", file=sys.stderr)
        else:
            found["lost"] += max(0, reported - held)
        print(json.dumps(found), flush=True)
    return found


def _ran(folder: Path) -> list[str]:
    path = folder / "ran"
    lines = path.read_text().split() if path.exists() else []
    path.unlink(missing_ok=True)
    return lines


_CONFIG: dict[str, Any] = {"configurable": {"thread_id": "killed"}, "recursion_limit": 1_000_000}


def _held(folder: Path) -> int:
    from agentkit.checkpoints.saver import AgentkitSaver

    found = AgentkitSaver(folder / "store").get_tuple(_CONFIG)
    return found.checkpoint["channel_values"].get("number", 0) if found else 0


def _graph(saver: Any, note: Any) -> Any:
    import operator
    from typing import Annotated, TypedDict

    from langgraph.graph import START, StateGraph

    class Steps(TypedDict):
        number: int
        log: Annotated[list[str], operator.add]

    def step(state: dict) -> dict:
        number = state.get("number", 0) + 1
        note(number)
        return {"number": number, "log": [f"step {number} " + "x" * 100]}

    builder = StateGraph(Steps)
    builder.add_node("step", step)
    builder.add_edge(START, "step")
    builder.add_edge("step", "step")
    return builder.compile(checkpointer=saver)


def _work(folder: Path, pipe: int) -> None:
    """Go on with the thread until killed; every finished superstep is told through the pipe."""
    from agentkit.checkpoints.saver import AgentkitSaver

    try:
        with open(folder / "ran", "a") as ran:
            graph = _graph(AgentkitSaver(folder / "store"), lambda number: (ran.write(f"{number}\n"), ran.flush()))
            os.write(pipe, b"\n")
            given = {"log": []} if graph.get_state(_CONFIG).next == () else None
            for payload in graph.stream(given, _CONFIG, stream_mode="values", durability="sync"):
                if payload.get("number"):
                    os.write(pipe, f"{payload['number']}\n".encode())
    finally:
        os._exit(1)


if __name__ == "__main__":
    import langgraph.graph  # noqa: F401 - loaded once, before the forks

    import agentkit.checkpoints.saver  # noqa: F401

    counted(int(sys.argv[1]), Path(sys.argv[2]))
