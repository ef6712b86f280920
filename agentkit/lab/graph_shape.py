"""The shape of a graph: its nodes and edges as JSON-ready data, from an agent or from any LangGraph.

A shape is {"nodes": [{"id": ..., "inner": shape or None}], "edges": [{"from", "to", "label", "conditional"}]}. A node
that runs a graph of its own holds that graph's shape as `inner`. A recording stores it, so a replay needs no agent.
"""

import copy
from collections.abc import Iterator
from typing import Any

from langgraph.graph import END, START, StateGraph
from langgraph.graph.state import CompiledStateGraph
from langgraph.pregel import Pregel

from agentkit.loops.handmade import Handmade
from agentkit.models.errors import BadField

NAMES = {START: "START", END: "END"}


def shape_of(graph: Any) -> dict:
    """The shape of an agent, of a StateGraph (compiled or not), or of what is a shape already.

    Raises BadField for anything else; a StateGraph that LangGraph cannot compile raises LangGraph's own ValueError.
    """
    if isinstance(graph, dict) and "nodes" in graph and "edges" in graph:
        return graph
    if isinstance(graph, Handmade):
        return _handmade()
    graph = getattr(graph, "graph", graph)  # an agent holds its own
    if isinstance(graph, StateGraph):
        # A copy, because LangGraph warns when a graph grows after it was compiled.
        graph = copy.copy(graph).compile()
    if not isinstance(graph, Pregel):
        raise BadField(f"graph is a {type(graph).__name__}; allowed are an agent and a StateGraph, compiled or not")
    return _compiled(graph)


def name_of(node: str) -> str:
    """What a node is called in a picture."""
    return NAMES.get(node, node)


def edges_of(shape: dict) -> Iterator[tuple[int, dict]]:
    """All edges with their numbers: those of the shape itself first, then those inside its nodes."""
    return enumerate(edge for level in levels_of(shape).values() for edge in level["edges"])


def levels_of(shape: dict, inside: str = "") -> dict[str, dict]:
    """The shape and the shapes inside it, each by the name of the node that holds it ("" for the outermost)."""
    found = {inside: shape}
    for node in shape["nodes"]:
        if node["inner"]:
            found |= levels_of(node["inner"], node["id"])
    return found


def path_to(shape: dict, node: str) -> list[tuple[str, str]]:
    """Where a node is: (holder, id) from the outermost level down to the node itself; empty if it is nowhere."""
    return _path(shape, node, "")


def as_lines(shape: dict, lit: Any = (), indent: str = "") -> list[str]:
    """The shape as text: its nodes on one line (a lit one has a star), then an edge a line, then what is inside."""
    nodes = [name_of(node["id"]) + "*" * (node["id"] in lit) for node in shape["nodes"]]
    lines = [f"{indent}nodes: {', '.join(nodes)}"]
    for edge in shape["edges"]:
        arrow = "- ->" if edge["conditional"] else "-->"
        label = f"  ({edge['label']})" if edge["label"] else ""
        lines.append(f"{indent}{name_of(edge['from'])} {arrow} {name_of(edge['to'])}{label}")
    for node in shape["nodes"]:
        if node["inner"]:
            lines += [f"{indent}inside {node['id']}:", *as_lines(node["inner"], lit, indent + "  ")]
    return lines


def _compiled(graph: Pregel) -> dict:
    drawn, inner, labels = (
        graph.get_graph(),
        {name: _compiled(sub) for name, sub in graph.get_subgraphs()},
        _labels(graph),
    )
    place = {id: number for number, id in enumerate(drawn.nodes)}
    # Sorted: LangGraph gives the edges in an order of their names, which says nothing.
    edges = sorted(drawn.edges, key=lambda edge: (place[edge.source], place[edge.target]))
    made = [
        _edge(edge.source, edge.target, " / ".join(labels.get((edge.source, edge.target), [])), edge.conditional)
        for edge in edges
    ]
    return {"nodes": [{"id": id, "inner": inner.get(id)} for id in drawn.nodes], "edges": made}


def _labels(graph: Pregel) -> dict[tuple[str, str], list[str]]:
    """What a router answers to take each edge, if that is not the node's name. LangGraph's drawing keeps only one."""
    found: dict[tuple[str, str], list[str]] = {}
    for source, branches in graph.builder.branches.items() if isinstance(graph, CompiledStateGraph) else ():
        for branch in branches.values():
            for answer, target in (branch.ends or {}).items():
                if answer != target:
                    found.setdefault((source, target), []).append(str(answer))
    return found


def _handmade() -> dict:
    """The loop in plain Python as a graph: one node that follows itself until the reply holds an answer."""
    edges = [
        _edge(START, "step"),
        _edge("step", "step", "Action", True),
        _edge("step", END, "Final Answer", True),
    ]
    return {"nodes": [{"id": id, "inner": None} for id in (START, "step", END)], "edges": edges}


def _edge(source: str, target: str, label: str = "", conditional: bool = False) -> dict:
    return {"from": source, "to": target, "label": label, "conditional": conditional}


def _path(shape: dict, wanted: str, holder: str) -> list[tuple[str, str]]:
    if any(node["id"] == wanted for node in shape["nodes"]):
        return [(holder, wanted)]
    for node in shape["nodes"]:
        if node["inner"] and (found := _path(node["inner"], wanted, node["id"])):
            return [(holder, node["id"]), *found]
    return []
