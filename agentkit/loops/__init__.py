"""What happens next: loops that let a model call tools until it answers."""

from agentkit.loops.build import LOOPS, build_agent

__all__ = ["LOOPS", "build_agent"]
