"""The Graph panel: lit in the order of the events, a row a step, the same after a replay, and few bytes a step."""

import json
import re

import comm
import pytest
from langgraph.graph import END, START, MessagesState, StateGraph

from agentkit.events import RunEnded, RunStarted, StepEnded, StepStarted
from agentkit.lab import Workbench
from agentkit.lab.graph_panel import GraphPanel
from agentkit.lab.graph_shape import edges_of, name_of, shape_of
from agentkit.lab.graph_story import GraphStory, change_text
from agentkit.loops import LOOPS, build_agent
from agentkit.models import ScriptedChatModel
from agentkit.tools import tools_for
from tests.histories import call

REACT = "Action: calculator\nAction Input: {\"expression\": \"23*19\"}"
PLAN = call("plan", kind="complex", steps=["Multiply.", "Answer."])


def run(loop, *tape, tools=("calculator", "create_plan")):
    """The agent and its events."""
    if not tape:
        tape = (REACT, "Final Answer: 437") if loop == "handmade" else (call("calculator", expression="23*19"), "It is 437.")
        tape = (PLAN, *tape) if loop in ("react", "planned") else tape
    agent = build_agent(loop, model=ScriptedChatModel(list(tape)), tools=tools_for(tools))
    return agent, list(agent.stream("What is 23 times 19?"))


def fed(agent, events):
    panel = GraphPanel()
    panel.show_shape(agent)
    for event in events:
        panel.take(event)
        panel.flush()
    return panel


@pytest.mark.parametrize("loop", LOOPS)
def test_nodes_are_lit_in_the_order_of_the_steps(loop):
    agent, events = run(loop)
    panel, lit = GraphPanel(), []
    panel.show_shape(agent)
    for event in events:
        before = dict(panel.story.states)
        panel.take(event)
        lit += [node for node, (state, visits) in panel.story.states.items()
                if state == "running" and visits > before.get(node, ("", 0))[1] and node != "react"]
    assert lit == [e.node for e in events if isinstance(e, StepStarted)]
    assert {state for state, _ in panel.story.states.values()} == {"done"}
    assert panel.story.states[END] == ("done", 0)


@pytest.mark.parametrize("loop", LOOPS)
def test_a_replay_from_json_shows_byte_equal_text_and_picture(loop):
    agent, events = run(loop)
    shape = json.loads(json.dumps(shape_of(agent)))
    again = [type(event)(**{k: v for k, v in json.loads(json.dumps(event.as_dict())).items() if k != "event"}) for event in events]
    live, replayed = fed(agent, events), fed(shape, again)
    assert live.text() == replayed.text() == repr(live.still())
    assert live.still()._repr_html_() == replayed.still()._repr_html_()


def test_a_row_says_step_node_and_what_changed():
    agent, events = run("react")
    assert fed(agent, events).text().splitlines()[-10:] == [
        'ran: react done ×1, planner done ×1, tools done ×2, model done ×2',
        '1 planner | kind = "complex"', 'why = "the planner said so"',
        'messages +1  AI: calls create_plan(steps=["Multiply.", "Answer."])',
        "  2 tools | messages +1  create_plan result: The plan is noted. Go on with step 1. 1. Multiply. 2. Answer.",
        'plan = ["Multiply.", "Answer."]',
        '  3 model | messages +1  AI: calls calculator(expression="23*19")',
        "  4 tools | messages +1  calculator result: 437",
        "  5 model | messages +1  AI: It is 437.", "ended after 5 steps: answer"]


def test_the_edges_taken_are_those_of_the_run():
    agent, events = run("react")
    story = fed(agent, events).story
    taken = [f"{name_of(e['from'])}-{name_of(e['to'])}" for n, e in edges_of(story.shape) if n in story.taken]
    assert taken == ["START-react", "react-END", "START-planner", "model-tools", "model-END", "tools-model", "planner-tools"]
    agent, events = run("handmade")
    story = fed(agent, events).story
    assert story.taken == {0, 1, 2}, "step followed step, and the answer came"
    agent, events = run("handmade", "Final Answer: 5")
    assert fed(agent, events).story.taken == {0, 2}


def test_parallel_nodes_and_names_with_markup():
    graph = StateGraph(MessagesState)
    for name in ("<img src=x>", "b", "join"):
        graph.add_node(name, lambda state: {})
    graph.add_edge(START, "<img src=x>")
    graph.add_edge(START, "b")
    graph.add_edge(["<img src=x>", "b"], "join")
    graph.add_edge("join", END)
    started = [StepStarted(step=1, node="<img src=x>"), StepStarted(step=1, node="b")]
    panel = fed(graph, [RunStarted(loop="own", model="m", question="q"), *started])
    assert {n for n, (state, _) in panel.story.states.items() if state == "running"} == {"<img src=x>", "b"}
    rest = [StepEnded(step=1, node="b", change={"x": "<script>"}), StepEnded(step=1, node="<img src=x>", change={}),
            StepStarted(step=2, node="join"), StepEnded(step=2, node="join", change={}),
            RunEnded(reason="answer", answer="a", usage={})]
    for event in rest:
        panel.take(event)
    assert panel.story.taken == {0, 1, 2, 3, 4}
    shown = panel.still()._repr_html_()
    assert "<img" not in shown and "<script" not in shown and "&lt;img src=x&gt;" in shown
    assert 'x = "<script>"' in panel.text()


def test_a_model_that_fails_leaves_its_node_red():
    agent, events = run("planned", PLAN, call("calculator", expression="1+1"), ConnectionError("no route"))
    story = fed(agent, events).story
    assert story.states["model"] == ("error", 2) and story.states["tools"][0] == "done" and END not in story.states
    assert story.rows.rows[-1].text == "error = no route" and story.rows.footer == "ended after 5 steps: error"


def test_another_run_begins_with_nothing_lit():
    agent, events = run("lite")
    panel = fed(agent, events)
    panel.take(events[0])
    assert panel.story.states == {START: ("done", 0)} and panel.story.taken == set() and panel.story.rows.rows == []


def test_changes_in_words():
    ai = {"type": "ai", "content": "", "invalid_tool_calls": [{"name": "f", "args": "{"}]}
    failed = {"type": "tool", "name": "f", "content": "no\nfile", "status": "error"}
    assert change_text({"messages": [ai, failed]}) == (
        "messages +2  AI: malformed call of f\n             f result (error): no file")
    assert change_text({}) == "no change" and change_text({"plan": []}) == "plan = []"
    assert change_text({"error": "GuardError('x')"}) == "error = GuardError('x')"
    assert len(change_text({"messages": [{"type": "human", "content": "x" * 9000}]})) < 300


def test_a_panel_without_a_graph_still_tells_the_steps():
    _, events = run("lite")
    story = GraphStory()
    for event in events:
        story.take(event)
    assert story.text().startswith("no graph yet\nran: model done ×2, tools done ×1\n  1 model | messages +1")


@pytest.fixture
def sent(monkeypatch):
    """What goes to the front end, in order."""
    messages = []

    class Counting(comm.base_comm.BaseComm):
        def publish_msg(self, msg_type, data=None, metadata=None, buffers=None, **keys):
            messages.append(data)

    monkeypatch.setattr(comm, "create_comm", lambda *args, **kwargs: Counting(*args, **kwargs))
    return messages


def test_bytes_a_step_are_flat_in_the_length_of_the_run(sent):
    def cost(rounds):
        tape = [call("calculator", expression=f"{n}+100") for n in range(100, 100 + rounds)]
        agent, events = run("lite", *tape, "Done.")
        panel = GraphPanel()
        panel.show_shape(agent)
        sent.clear()
        for event in events:
            panel.take(event)
            panel.flush()
        return len(json.dumps(sent)), sum(isinstance(e, StepStarted) for e in events)

    (few, steps), (many, more) = cost(5), cost(25)
    # The difference is that of 40 steps, each as large as any other.
    assert (many - few) / (more - steps) < 600 and abs(many / more - few / steps) < 0.25 * few / steps


def test_a_page_that_comes_later_is_told_everything_once_and_then_only_changes(sent):
    agent, events = run("react")
    panel = GraphPanel()
    panel.show_shape(agent)
    for event in events[:8]:
        panel.take(event)
    sent.clear()
    panel.picture._handle_custom_msg({"want": "all"}, [])
    (message,) = [m["content"] for m in sent]
    assert message["all"] and [op[0] for op in message["ops"][:2]] == ["svg", "idle"]
    nodes = {op[1]: tuple(op[2:]) for op in message["ops"] if op[0] == "node"}
    assert nodes == panel.story.states
    sent.clear()
    panel.picture.flush()
    assert sent == [], "nothing changed since"
    for event in events[8:]:
        panel.take(event)
    panel.picture.flush()
    (message,) = [m["content"] for m in sent]
    assert "all" not in message and {op[0] for op in message["ops"]} <= {"node", "edge"}
    assert {op[1] for op in message["ops"] if op[0] == "edge"} <= panel.story.taken


def test_a_workbench_shows_what_would_run_before_anything_has_and_loads_no_model():
    bench = Workbench("no-such-model", tools_for(["calculator"]), "lite")
    assert bench.graph_panel.text().startswith("nodes: START, model, tools, END\nSTART --> model")
    bench.settings.loop = "handmade"
    assert bench.graph_panel.text().startswith("nodes: START, step, END")


def test_the_numbers_of_edges_are_those_in_the_picture():
    agent, events = run("react")
    panel = fed(agent, events)
    picture = panel.still()._repr_html_()
    assert {int(n) for n in re.findall(r'ak-edge ak-taken" data-edge="(\d+)"', picture)} == panel.story.taken
