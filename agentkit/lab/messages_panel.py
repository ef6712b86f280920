"""The Messages panel: messages, calls and results of a run as a timeline, errors marked."""

from typing import Any

from agentkit.lab.message_story import MessageStory
from agentkit.lab.story_panel import StoryPanel


class MessagesPanel(StoryPanel):
    """Made by `Workbench.messages_panel`. Shows the last run's messages in the order of the history."""

    def __init__(self, bench: Any):
        super().__init__(bench, MessageStory(), "The messages")

    def __repr__(self) -> str:
        return "MessagesPanel()"
