"""The Graph panel: the graph lit node by node while it runs, and below it what each step changed in the state."""

import html
import threading
from typing import Any

import ipywidgets as widgets

from agentkit.events import Event
from agentkit.lab.graph_picture import svg
from agentkit.lab.graph_shape import shape_of
from agentkit.lab.graph_story import GraphStory
from agentkit.lab.live import FRONT, Live, LiveRows, script
from agentkit.lab.rows import Still


class LiveGraph(Live):
    """Draws a story's graph. The SVG is sent once a graph; then only nodes whose state changed, and edges newly taken.

    `front/graph.js` is the other half.
    """

    _esm = script("graph.js")
    _css = FRONT / "graph.css"

    def __init__(self, story: GraphStory, lock: Any):
        self.story = story
        self._shape: dict | None = None  # what was drawn last
        self._states: dict[str, tuple[str, int]] = {}
        self._taken: set[int] = set()
        super().__init__("The agent's graph", lock)

    def _whole(self) -> list[list]:
        return self._changes(all=True)

    def _changes(self, all: bool = False) -> list[list]:
        story, ops = self.story, []
        if all or story.shape is not self._shape:
            ops.append(["svg", svg(story.shape) if story.shape else ""])
        if ops or self._states.keys() - story.states.keys() or self._taken - story.taken:
            ops.append(["idle"])  # another run begins: nothing ran, no edge was taken
            self._states, self._taken = {}, set()
        changed = {node: state for node, state in story.states.items() if self._states.get(node) != state}
        ops += [["node", node, *state] for node, state in changed.items()]
        ops += [["edge", number] for number in sorted(story.taken - self._taken)]
        self._shape, self._states, self._taken = story.shape, dict(story.states), set(story.taken)
        return ops


class GraphPanel(widgets.VBox):
    """Made by `Workbench.graph_panel`. Without a workbench it is fed by hand: `show_shape`, `take`, `flush`."""

    def __init__(self, bench: Any = None):
        lock = bench.stage.lock if bench is not None else threading.RLock()
        self.story = GraphStory()
        self.picture = LiveGraph(self.story, lock)
        self.steps = LiveRows(self.story.rows, "What each step changed", lock)
        super().__init__([self.picture, self.steps])

    def show_shape(self, graph: Any) -> None:
        """Show a graph on which nothing has run: an agent, a StateGraph, or a shape as a recording holds it."""
        with self.picture.lock:
            self.story.begin(shape_of(graph))
            self.flush()

    def begin(self, shape: dict | None) -> None:
        """A run on the graph of this shape is about to begin."""
        self.story.begin(shape)

    def take(self, event: Event) -> None:
        """Follow one event of the run."""
        self.story.take(event)

    def flush(self) -> None:
        """Draw what changed."""
        self.picture.flush()
        self.steps.flush()

    def text(self) -> str:
        """The graph, what each node did, and the steps, as plain text."""
        with self.picture.lock:
            return self.story.text()

    def still(self) -> "GraphStill":
        """The panel as a still picture."""
        with self.picture.lock:
            return GraphStill(self.story)

    def __repr__(self) -> str:
        return "GraphPanel()"


class GraphStill:
    """A Graph panel that stands still: SVG and rows in a notebook, also without a kernel, and text elsewhere."""

    def __init__(self, story: GraphStory):
        self._text = story.text()
        picture = svg(story.shape, story.states, story.taken) if story.shape else html.escape("no graph yet")
        rows = Still(story.rows.rows, story.rows.footer)._repr_html_()
        self._html = f'<div style="overflow-x:auto">{picture}</div>{rows}'

    def __repr__(self) -> str:
        return self._text

    def _repr_html_(self) -> str:
        return self._html
