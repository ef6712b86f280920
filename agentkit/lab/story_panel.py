"""What the panels of rows have in common: a story that follows the run's events, and live rows that show it."""

from typing import Any

import ipywidgets as widgets

from agentkit.events import Event
from agentkit.lab.live import LiveRows
from agentkit.lab.rows import Still


class StoryPanel(widgets.VBox):
    """A view of the stage. `story` has `take(event)` and `rows`; `live` shows the rows under `label`."""

    def __init__(self, bench: Any, story: Any, label: str):
        self.bench, self.story = bench, story
        self.live = LiveRows(story.rows, label, bench.stage.lock)
        super().__init__([self.live])

    def take(self, event: Event) -> None:
        """Follow one event of the run."""
        self.story.take(event)

    def flush(self) -> None:
        """Draw what changed."""
        self.live.flush()

    def text(self) -> str:
        """What the panel shows, as plain text."""
        return self.live.text()

    def still(self) -> Still:
        """What the panel shows, as a still picture."""
        return self.live.still()
