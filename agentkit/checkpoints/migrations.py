"""State that outlives the code that wrote it: migrations by version, and the shape of the graph that a thread fits.

    @migration(1, 2)
    def count_comes(state):
        return {**state, "count": 0}

    saver = AgentkitSaver(store, schema=2, migrations=[count_comes])
    graph = saver.bind(builder.compile())
"""

import hashlib
import inspect
import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from langgraph.types import Send

from agentkit.checkpoints.errors import GraphChanged, MigrationMissing
from agentkit.checkpoints.merge import control
from agentkit.models.errors import BadField

TASKS = "__pregel_tasks"


@dataclass(frozen=True)
class Migration:
    """One step from a schema version to a later one. `nodes` maps old names of nodes to new ones."""

    start: int
    end: int
    change: Callable[[dict], dict]
    nodes: dict[str, str]

    def __call__(self, state: dict) -> dict:
        """The state (channels that hold data, by name) as the later version has it."""
        return self.change(state)


def migration(start: int, end: int, nodes: dict[str, str] | None = None) -> Callable[[Callable[[dict], dict]], Migration]:
    """Make a function from state to state a Migration; BadField unless it goes forward."""
    if end <= start:
        raise BadField(f"migration({start}, {end}): a migration goes forward, to a later version")
    return lambda change: Migration(start, end, change, nodes or {})


def path(start: int, end: int, known: Iterable[Migration], thread: str) -> list[Migration]:
    """The steps from one version to another; MigrationMissing names the first that is not there."""
    steps, here, known = [], start, list(known)
    while here < end:
        step = max((m for m in known if m.start == here and m.end <= end), key=lambda m: m.end, default=None)
        if step is None:
            raise MigrationMissing(
                f"thread {thread!r} was written under schema version {start}, the code has {end}, and no migration leads "
                f"on from {here}: write one with @migration({here}, {here + 1}) and pass it in migrations=[...]"
            )
        steps.append(step)
        here = step.end
    return steps


def migrated(checkpoint: dict, steps: list[Migration]) -> dict:
    """A checkpoint (with `channel_values`) after these steps, its versions fitting the channels it now has."""
    values, versions = dict(checkpoint["channel_values"]), dict(checkpoint["channel_versions"])
    seen = {node: dict(found) for node, found in checkpoint["versions_seen"].items()}
    newest, updated = max(versions.values(), default=1), checkpoint.get("updated_channels")
    for step in steps:
        steering = {name: value for name, value in values.items() if control(name, value)}
        data = step({name: value for name, value in values.items() if name not in steering})
        if not isinstance(data, dict):
            raise BadField(f"migration({step.start}, {step.end}) gave a {type(data).__name__}; it has to return the state")
        for name in values.keys() - steering.keys() - data.keys():
            versions.pop(name, None)
        for name in data.keys() - values.keys():
            versions.setdefault(name, newest)
        for old, new in step.nodes.items():
            steering = {_renamed(name, old, new): value for name, value in steering.items()}
            versions = {_renamed(name, old, new): version for name, version in versions.items()}
            seen = {new if node == old else node: {_renamed(name, old, new): version for name, version in found.items()}
                    for node, found in seen.items()}
            updated = updated and [_renamed(name, old, new) for name in updated]
            if TASKS in steering:
                steering[TASKS] = [Send(new, s.arg) if isinstance(s, Send) and s.node == old else s
                                   for s in steering[TASKS]]
        values = {**data, **steering}
    return {**checkpoint, "channel_values": values, "channel_versions": versions, "versions_seen": seen,
            "updated_channels": updated}


def _renamed(channel: str, old: str, new: str) -> str:
    return f"branch:to:{new}" if channel == f"branch:to:{old}" else channel


def shape_of(graph: Any) -> dict:
    """What a compiled graph expects of a thread: its nodes, its edges, and each channel with its type and reducer."""
    channels = {name: _channel(channel) for name, channel in graph.channels.items()
                if not name.startswith(("branch:", "join:", "__"))}
    edges = sorted(f"{name}<-{trigger}" for name, node in graph.nodes.items() for trigger in node.triggers)
    return {"nodes": sorted(name for name in graph.nodes if name != "__start__"), "channels": channels, "edges": edges}


def fingerprint_of(shape: dict) -> str:
    """Twelve hex digits that change with the shape."""
    return hashlib.sha256(json.dumps(shape, sort_keys=True).encode()).hexdigest()[:12]


def _channel(channel: Any) -> str:
    kind = type(channel).__name__
    declared = getattr(channel, "typ", Any)
    text = kind + "[" + (f"{declared.__module__}.{declared.__qualname__}" if inspect.isclass(declared) else str(declared)) + "]"
    reducer = getattr(channel, "operator", None)
    if reducer is not None:
        text += f" by {getattr(reducer, '__module__', '')}.{getattr(reducer, '__qualname__', type(reducer).__name__)}"
    return text


def differences(old: dict | None, new: dict) -> str:
    """What changed between two shapes, in words."""
    if not old:
        return "its shape was not recorded"
    found = [f"node {name!r} is gone" for name in old["nodes"] if name not in new["nodes"]]
    found += [f"node {name!r} is new" for name in new["nodes"] if name not in old["nodes"]]
    for name in sorted(old["channels"].keys() | new["channels"].keys()):
        was, now = old["channels"].get(name), new["channels"].get(name)
        if was is None:
            found.append(f"channel {name!r} is new")
        elif now is None:
            found.append(f"channel {name!r} is gone")
        elif was != now:
            found.append(f"channel {name!r} was {was} and is {now}")
    return "; ".join(found) or "its edges changed"


def check_pending(values: dict[str, Any], shape: dict, thread: str) -> None:
    """GraphChanged if something waits in a node that the graph does not have: resumed, it would be lost in silence."""
    waiting = {name.removeprefix("branch:to:") for name in values if name.startswith("branch:to:")}
    waiting |= {task.node for task in values.get(TASKS) or [] if isinstance(task, Send)}
    if gone := sorted(waiting - set(shape["nodes"])):
        raise GraphChanged(
            f"thread {thread!r} waits in node {gone[0]!r}, which this graph does not have (it has "
            f"{', '.join(shape['nodes'])}): resumed, what waits there would be lost. If the node was renamed, say so with "
            f"@migration(..., nodes={{{gone[0]!r}: 'its new name'}}); else finish the turn with the old graph"
        )
