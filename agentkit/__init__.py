"""agentkit: a workbench to learn how a ReAct agent really works, on your own machine."""

import os

# LangGraph reads this when it is first imported. Without it, loading a checkpoint runs any callable that a row names.
os.environ.setdefault("LANGGRAPH_STRICT_MSGPACK", "true")

__version__ = "0.1.0"
