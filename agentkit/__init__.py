"""agentkit: a workbench to learn how a ReAct agent really works, on your own machine."""

__version__ = "0.1.0"
