"""The Messages panel: messages, calls and results of a run as a timeline, errors marked."""

import ipywidgets as widgets

from agentkit.events import Event
from agentkit.lab.live import LiveRows
from agentkit.lab.message_story import MessageStory
from agentkit.lab.rows import Still


class MessagesPanel(widgets.VBox):
    """Made by `Workbench.messages_panel`. Shows the last run's messages in the order of the history."""

    def __init__(self, bench):
        self.story = MessageStory()
        self.live = LiveRows(self.story.rows, "The messages", bench.stage.lock)
        super().__init__([self.live])

    def take(self, event: Event) -> None:
        """Follow one event of the run."""
        self.story.take(event)

    def flush(self) -> None:
        """Draw what changed."""
        self.live.flush()

    def text(self) -> str:
        """The timeline as plain text."""
        return self.live.text()

    def still(self) -> Still:
        """The timeline as a still picture."""
        return self.live.still()

    def __repr__(self) -> str:
        return "MessagesPanel()"
