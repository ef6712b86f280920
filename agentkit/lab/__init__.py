"""What a learner sees: panels, timelines and checks, fed by the stream of events. Names load when they are asked for."""

import importlib

_HOME = {"versions": "show", "timeline": "show", "predict": "predictions", "Predict": "predictions",
         "Workbench": "workbench", "Recording": "recording", "draw": "graph_picture",
         "Microscope": "microscope", "table": "tables"}

__all__ = sorted([*_HOME, "faults"])


def __getattr__(name: str):
    if name in _HOME:
        return getattr(importlib.import_module(f"agentkit.lab.{_HOME[name]}"), name)
    if name == "faults":
        return importlib.import_module("agentkit.lab.faults")
    raise AttributeError(f"module 'agentkit.lab' has no attribute {name!r}")
