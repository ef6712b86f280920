"""Shapes of the four loops and of graphs that a learner built, and the still picture made of them."""

import json
import logging
import xml.etree.ElementTree as ET
from itertools import combinations

import pytest
from langgraph.graph import END, START, MessagesState, StateGraph

from agentkit.lab import draw
from agentkit.lab.graph_layout import at, label_size, layout
from agentkit.lab.graph_shape import edges_of, path_to, shape_of
from agentkit.loops import LOOPS, build_agent
from agentkit.models import ScriptedChatModel
from agentkit.models.errors import BadField
from agentkit.tools import tools_for


def agent(loop, *tools):
    return build_agent(loop, model=ScriptedChatModel(["x"]), tools=tools_for(tools or ("calculator",)))


def router():
    """A graph with all that is awkward: labels, markup in names, a loop, a way back, an edge over a layer."""
    graph = StateGraph(MessagesState)
    for name in ("classify", "billing", "<b>refund & 'co'</b>", "คำตอบ", "an_answer_with_a_name_that_is_far_too_long"):
        graph.add_node(name, lambda state: {})
    graph.add_edge(START, "classify")
    graph.add_conditional_edges("classify", lambda state: "", {
        "money": "billing", "angry": "<b>refund & 'co'</b>", "sad": "<b>refund & 'co'</b>", "done": END})
    graph.add_edge("billing", "คำตอบ")
    graph.add_edge("<b>refund & 'co'</b>", "คำตอบ")
    graph.add_edge("คำตอบ", "an_answer_with_a_name_that_is_far_too_long")
    graph.add_conditional_edges("an_answer_with_a_name_that_is_far_too_long", lambda state: "", {
        "again": "classify", "once more": "an_answer_with_a_name_that_is_far_too_long", "good": END})
    return graph


def test_the_shape_of_each_loop():
    assert repr(draw(agent("handmade"))) == (
        "nodes: START, step, END\nSTART --> step\nstep - -> step  (Action)\nstep - -> END  (Final Answer)")
    assert repr(draw(agent("planned"))) == (
        "nodes: START, planner, model, tools, END\nSTART --> planner\nplanner - -> model\nplanner - -> tools\n"
        "model - -> tools\nmodel - -> END\ntools --> model")
    assert repr(draw(agent("lite"))) == (
        "nodes: START, model, tools, END\nSTART --> model\nmodel - -> model\nmodel - -> tools\nmodel - -> END\n"
        "tools - -> model")


def test_react_is_one_node_with_a_graph_inside():
    assert repr(draw(agent("react"), title="The react loop")).splitlines() == [
        "The react loop", "nodes: START, react, END", "START --> react", "react --> END", "inside react:",
        "  nodes: START, model, tools, END", "  START --> model", "  model - -> tools", "  model - -> END",
        "  tools --> model"]
    shape = shape_of(agent("react", "calculator", "create_plan"))
    assert path_to(shape, "planner") == [("", "react"), ("react", "planner")] and path_to(shape, "nowhere") == []


@pytest.mark.parametrize("loop", LOOPS)
def test_a_shape_is_json_and_draws_the_same_after_a_journey(loop):
    shape = shape_of(agent(loop, "calculator", "create_plan"))
    again = json.loads(json.dumps(shape))
    assert draw(again)._repr_html_() == draw(agent(loop, "calculator", "create_plan"))._repr_html_()


def test_a_graph_that_is_not_compiled_is_drawn_like_its_compiled_form_and_left_as_it_was(caplog):
    graph = router()
    with caplog.at_level(logging.WARNING):
        before = draw(graph)
        graph.add_node("later", lambda state: {})
    assert caplog.records == [] and "later" not in repr(before)
    assert repr(draw(router().compile())) == repr(before)
    assert "classify - -> <b>refund & 'co'</b>  (angry / sad)" in repr(before)


def test_what_is_no_graph_and_a_lit_node_that_is_not_there_are_refused():
    with pytest.raises(BadField, match="graph is a int; allowed are an agent and a StateGraph"):
        draw(3)
    with pytest.raises(BadField, match="lit names 'modle'; the graph has START, model, tools, END"):
        draw(agent("planned") and agent("lite"), lit=["modle"])


def test_a_lit_node_has_a_star_and_a_colour():
    plain, lit = draw(agent("react")), draw(agent("react"), lit="tools")
    assert "  nodes: START, model, tools*, END" in repr(lit).splitlines()
    assert 'class="ak-node ak-plain ak-running" data-node="tools"' in lit._repr_html_()
    assert "ak-running" not in plain._repr_html_()


@pytest.mark.parametrize("graph", [router, *(lambda loop=loop: agent(loop, "calculator", "create_plan") for loop in LOOPS)])
def test_the_picture_is_well_formed_escaped_and_says_what_it_is(graph):
    picture = draw(graph(), title="<i>mine</i>")._repr_html_()
    assert "<b>" not in picture and "<i>" not in picture
    root = ET.fromstring(picture)
    (svg,) = root.iter("{http://www.w3.org/2000/svg}svg")
    assert svg.get("role") == "img" and svg.get("aria-label") == "<i>mine</i>" == svg[0].text
    assert len({e.get("data-edge") for e in svg.iter() if e.get("data-edge")}) == len(list(edges_of(shape_of(graph()))))
    assert not [e for e in svg.iter() if e.get("id")], "two pictures on one page must not meet"


@pytest.mark.parametrize("graph", [router, *(lambda loop=loop: agent(loop, "calculator", "create_plan") for loop in LOOPS)])
def test_nothing_overlaps_and_everything_is_inside(graph):
    def check(picture):
        for a, b in combinations(picture.boxes, 2):
            assert abs(a.x - b.x) >= (a.width + b.width) / 2 or abs(a.y - b.y) >= (a.height + b.height) / 2
        for box in picture.boxes:
            x, y = box.corner
            assert x >= 0 and y >= 0 and x + box.width <= picture.width and y + box.height <= picture.height
            if box.inner:
                check(box.inner)
        labels = [(wire.label_at, label_size(wire.edge["label"])) for wire in picture.wires if wire.label_at]
        for (a, size_a), (b, size_b) in combinations(labels, 2):
            assert any(abs(a[n] - b[n]) >= (size_a[n] + size_b[n]) / 2 for n in (0, 1))
        for wire in picture.wires:
            others = [b for b in picture.boxes if b.id not in (wire.edge["from"], wire.edge["to"])]
            for x, y in (at(curve, n / 20) for curve in wire.curves for n in range(21)):
                assert 0 <= x <= picture.width and 0 <= y <= picture.height
                assert not [b.id for b in others if abs(x - b.x) < b.width / 2 and abs(y - b.y) < b.height / 2]

    check(layout(shape_of(graph())))


def test_an_edge_ends_at_its_target_also_when_it_leads_back():
    picture = layout(shape_of(router()))
    boxes = {box.id: box for box in picture.boxes}
    for wire in picture.wires:
        for (x, y), name in ((wire.curves[0][0], wire.edge["from"]), (wire.curves[-1][3], wire.edge["to"])):
            box = boxes[name]
            assert abs(x - box.x) <= box.width / 2 + 0.1 and abs(y - box.y) <= box.height / 2 + 0.1
