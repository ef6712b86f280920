"""What the Run and Messages panels show, and what they send to the front end for it."""

import json
import random
import threading

import pytest
from langchain_core.messages import AIMessage
from langchain_core.tools import tool

from agentkit.events import (
    FaultInjected,
    GuardVerdict,
    PrefixReuse,
    RunEnded,
    RunStarted,
    StepEnded,
    StepStarted,
    Token,
    ToolCalled,
    ToolReturned,
)
from agentkit.lab import Workbench, timeline
from agentkit.lab.live import LiveRows
from agentkit.lab.message_story import MessageStory
from agentkit.lab.profile_form import OFTEN
from agentkit.lab.rows import COLOURS, Row, Rows, Still
from agentkit.lab.run_story import RunStory
from agentkit.models import GenerationProfile, ScriptedChatModel
from agentkit.tools import tools_for

USAGE = {"generated_tokens": 4, "tokens_per_second": 20.0, "seconds": 1.0}


def call(name="calculator", id="1", content="", **args):
    return AIMessage(content, tool_calls=[{"name": name, "args": args or {"expression": "23*19"}, "id": id}])


def told(story, *events):
    for event in events:
        story.take(event)
    return story.rows.text().splitlines()


# --- bytes

def stream(bench, tokens, drawn_every):
    """A run of so many tokens, drawn as often as a slow model's would be."""
    bench.stage.begin(None)
    bench._hear(RunStarted(loop="lite", model="m", question="q", limit=60, at=0.0))
    bench._hear(StepStarted(step=1, node="model", at=0.0))
    for number in range(tokens):
        bench._hear(Token(text=" word", at=number / 60))
        if number % drawn_every == 0:
            bench.stage.flush()
    bench._hear(RunEnded(reason="answer", answer=" word" * tokens, usage=USAGE, at=tokens / 60))
    bench.stage.flush()


def test_2000_tokens_drawn_twelve_times_a_second_stay_far_below_the_limit(wire):
    bench = Workbench(ScriptedChatModel(["x"]), tools_for(["calculator"]), "lite")
    panels = bench.panels()
    wire.clear()
    bench.phase = "running"
    stream(bench, 2000, drawn_every=5)  # 60 tokens a second and 12 drawings
    assert bench.run_panel.text().count("word") == 2000 and len(panels.children) == 4
    assert 400 <= len(wire.messages) <= 450
    assert 10_000 < wire.bytes < 100_000


def test_2000_tokens_of_a_real_run_through_all_panels(wire):
    bench = Workbench(ScriptedChatModel(["word " * 2000]), tools_for(["calculator"]), "lite", question="q")
    bench.panels()
    wire.clear()
    bench.ask()
    assert bench.run_panel.text().count("word") == 2000
    assert 20_000 < wire.bytes < 100_000


def test_without_a_change_nothing_is_sent(wire):
    bench = Workbench(ScriptedChatModel(["x"]), loop="lite")
    bench.panels()
    bench.stage.flush()
    wire.clear()
    bench.stage.flush()
    assert wire.messages == []


# --- deltas

def applied(shown, message):
    """What `front/rows.js` does with a message."""
    for name, *values in message["ops"]:
        if name == "clear":
            shown["rows"] = []
        elif name == "foot":
            shown["foot"] = values[0]
        elif name == "stat":
            shown["stat"] = values
        elif name == "add":
            key, before, *row = values
            keys = [item[0] for item in shown["rows"]]
            shown["rows"].insert(len(keys) if before < 0 else keys.index(before), [key, *row])
        else:
            row = next(item for item in shown["rows"] if item[0] == values[0])
            if name == "text":
                row[3] += values[1]
            elif name == "set":
                row[1:] = values[1:]
            else:
                shown["rows"].remove(row)
    return shown


def test_deltas_lead_to_what_the_rows_hold_whenever_a_page_joins(wire):
    chance = random.Random(5)
    for _ in range(60):
        rows = Rows("empty")
        live = LiveRows(rows, "test", threading.RLock())
        live.flush()
        wire.clear()
        pages, keys = [], []
        for turn in range(chance.randrange(5, 60)):
            act = chance.random()
            if act < 0.3 or not keys:
                before = chance.choice(keys) if keys and chance.random() < 0.3 else None
                keys.append(rows.add(chance.choice(list(COLOURS)), "who", chance.choice(["", "a", "é\u2028"]), before=before))
            elif act < 0.7:
                rows.append(chance.choice(keys), chance.choice(["x", "ไทย", "\n"]))
            elif act < 0.85:
                rows.set(chance.choice(keys), kind="error", text="changed")
            elif act < 0.88:
                rows.clear()
                keys = []
            elif act < 0.9:
                rows.foot(str(turn))
            elif act < 0.95:
                live.flush()
            else:
                pages.append(len(wire.custom()))
                live._asked(live, {"want": "all"}, [])
        live.flush()
        messages = wire.custom()
        numbers = [message["n"] for message in messages]
        assert numbers == list(range(numbers[0], numbers[0] + len(numbers))) if numbers else True
        for joined in pages:
            shown = {"rows": [], "foot": "", "stat": []}
            assert messages[joined]["all"] is True
            for message in messages[joined:]:
                applied(shown, message)
            assert [Row(*row[1:]) for row in shown["rows"]] == rows.rows and shown["foot"] == rows.footer


def test_no_trait_holds_the_text(wire):
    bench = Workbench(ScriptedChatModel(["secret words"]), loop="lite", question="q")
    bench.panels("run", "messages")
    bench.ask()
    for panel in (bench.run_panel, bench.messages_panel):
        assert "secret" not in json.dumps({k: str(v) for k, v in panel.live.get_state().items() if k != "_esm"})
    assert "secret words" in json.dumps(wire.custom())


def test_half_a_surrogate_pair_can_be_sent(wire):
    bench = Workbench(ScriptedChatModel(["half \ud83d pair"]), loop="lite", question="q")
    panel = bench.run_panel
    bench.ask()
    json.dumps(wire.custom()).encode()
    json.dumps(wire.custom(), ensure_ascii=False).encode()
    assert "half" in panel.text() and bench.stage.failed == {}


def test_markup_in_a_model_s_text_is_text():
    bench = Workbench(ScriptedChatModel(["<img src=x onerror=alert(1)>"]), loop="lite", question="<b>q</b>")
    bench.panels("run", "messages")
    bench.ask()
    for panel in (bench.run_panel, bench.messages_panel):
        html = panel.still()._repr_html_()
        assert "<img" not in html and "<b>" not in html and "&lt;img" in html
        assert repr(panel.still()) == panel.text()


# --- the Run panel

def test_tokens_grow_a_row_for_each_channel_and_a_call_takes_the_place_of_what_was_written():
    lines = told(
        RunStory(), RunStarted(loop="lite", model="m", question="q", limit=9), StepStarted(step=1, node="model"),
        PrefixReuse(prompt=10, reused=4, reason="hit"), Token(text="hm", channel="thought"), Token(text="Let "),
        Token(text="me"), Token(text='{"a', channel="call"), Token(text='":1}', channel="call"),
        ToolCalled(id="1", name="f", args={"a": "é"}), ToolCalled(id="2", name="g", args={}, invalid="cut"),
        ToolReturned(id="1", name="f", content="1", seconds=0.25), ToolReturned(id="2", name="g", content="Error", status="error"),
        GuardVerdict(guard="repeated_call", verdict="hint", detail="again"), StepEnded(step=1, node="model", change={}),
        FaultInjected(fault="cut", detail="cut at 3 tokens"), StepStarted(step=2, node="model"), Token(text="Done"), RunEnded(reason="answer", answer="Done", usage=USAGE))
    assert lines == [
        "   prompt | 10 tokens, 4 of them reused", "  thought | hm", "    model | Let me", '     call | f(a="é")',
        "  refused | cut: g", "   result | 1", "    error | Error", "     hint | repeated_call: again",
        "    fault | cut at 3 tokens", "    model | Done",
        "ended: answer; 2 of 9 steps; 4 tokens"]


def test_the_status_line_tells_step_tokens_speed_and_memory():
    bench = Workbench(ScriptedChatModel(["x"]), loop="lite")
    panel = bench.run_panel
    bench.phase = "running"
    for event in [RunStarted(loop="lite", model="m", question="q", limit=60), StepStarted(step=3, node="model"),
                  *(Token(text="x", at=100 + number / 20) for number in range(40))]:
        panel.take(event)
    panel.flush()
    share, words = panel.live._status
    assert share == 0.05 and words.startswith("step 3 of 60 · model · 40 tokens · 20 tokens a second · ")
    assert words.split(" · ")[4].endswith("MB of memory")
    bench.phase = "loading"
    panel.flush()
    assert panel.live._status[1] == "loading the model"


def test_text_holds_nothing_that_differs_from_run_to_run():
    texts = []
    for _ in range(2):
        bench = Workbench(ScriptedChatModel([call(), "It is 437."]), tools_for(["calculator"]), "react", question="q")
        bench.ask()
        texts.append((bench.run_panel.text(), bench.messages_panel.text(), bench.run_panel.still()._repr_html_()))
    assert texts[0] == texts[1]


def test_every_field_of_the_profile_has_a_widget_within_its_range():
    bench = Workbench(ScriptedChatModel(["x"]), loop="lite")
    form = bench.run_panel.form
    ranges = GenerationProfile.ranges()
    assert list(form.fields) == list(ranges)
    for name, about in ranges.items():
        widget = form.fields[name]
        assert widget.tooltip == about["help"] and widget.description == name
        if not isinstance(about["default"], bool | str) and not about.get("optional"):
            assert (widget.min, widget.max, widget.value) == (about["low"], about["high"], about["default"])
    assert form.rest.selected_index is None and [widget.description for widget in form.often.children] == list(OFTEN)


@pytest.mark.parametrize("name", list(GenerationProfile.ranges()))
def test_each_widget_changes_its_own_field(name):
    bench = Workbench(ScriptedChatModel(["x"]), loop="lite")
    about = GenerationProfile.ranges()[name]
    value = {bool: not about["default"], str: "more"}.get(type(about["default"]), about.get("high"))
    text = name == "seed"
    bench.run_panel.form.fields[name].set_state({"value": str(value) if text else value})
    assert bench.profile == GenerationProfile().but(**{name: value})
    bench.profile = GenerationProfile()
    assert bench.run_panel.form.fields[name].value in (about["default"], "" if text else about["default"])


# --- the Messages panel

def rows_of_history(result):
    return [(row.who, row.text) for row in timeline(result.messages).rows]


@tool
def fails(text: str = "") -> str:
    """Fails."""
    raise ValueError("nothing here")


TOO_OFTEN = [call("fails", str(number)) for number in range(5)]
BAD = AIMessage("", invalid_tool_calls=[{"name": "f", "args": "{", "id": "x", "error": "torn", "type": "invalid_tool_call"}])
TWO = AIMessage("Both.", tool_calls=[{"name": "calculator", "args": {"expression": e}, "id": e} for e in ("1+1", "2+2")])


@pytest.mark.parametrize("loop", ["lite", "planned", "react"])
@pytest.mark.parametrize("tape, reason", [
    ([call(content="Let me see."), "It is 437."], "answer"),
    ([TWO, call(id="3"), "437"], "answer"),
    ([call("fails"), "It failed."], "answer"),
    ([call("unknown_tool"), "There is none."], "answer"),
    ([BAD, call(id="y"), "437"], "answer"),
    ([BAD, BAD, BAD], "malformed"),
    (TOO_OFTEN, "guard"),
    ([call(id=str(n), expression=f"{n}+1") for n in range(9)], "limit"),
    ([call(), ConnectionError("gone")], "error"),
    ([call(), ""], "answer"),
])
def test_the_timeline_told_by_events_is_the_timeline_of_the_history(loop, tape, reason):
    model = ScriptedChatModel((['{"kind": "simple"}'] if loop == "planned" else []) + tape)
    bench = Workbench(model, [*tools_for(["calculator"]), fails], loop, question="q",
                      profile=GenerationProfile(recursion_limit=9))
    panel = bench.messages_panel
    result = bench.ask()
    assert result.reason == reason
    assert [(row.who, row.text) for row in panel.still().rows] == rows_of_history(result)
    assert panel.text().splitlines()[-1] == f"ended: {reason}"


def test_the_loop_by_hand_tells_each_result_once():
    model = ScriptedChatModel(['Thought: x\nAction: calculator\nAction Input: 23*19', "nonsense", "Final Answer: 437"])
    bench = Workbench(model, tools_for(["calculator"]), "handmade", question="q")
    panel = bench.messages_panel
    bench.ask()
    assert [row.who for row in panel.still().rows] == [
        "you", "model", "call", "result", "model", "refused", "error", "model"]


def test_a_call_is_shown_before_the_step_ends_and_in_its_place_after():
    story = MessageStory()
    started = [RunStarted(loop="lite", model="m", question="q"), StepStarted(step=1, node="model"),
               ToolCalled(id="1", name="f", args={})]
    assert told(story, *started) == ["      you | q", "     call | f()", "step 1: model"]
    message = {"type": "ai", "content": "Let me.", "tool_calls": [{"name": "f", "args": {}, "id": "1", "type": "tool_call"}]}
    assert told(story, StepEnded(step=1, node="model", change={"messages": [message]})) == [
        "      you | q", "    model | Let me.", "     call | f()", "step 1: model"]


def test_a_message_that_cannot_be_read_is_shown_as_it_is():
    story = MessageStory()
    lines = told(story, RunStarted(loop="lite", model="m", question="q"),
                 StepEnded(step=1, node="n", change={"messages": [{"type": "ai", "content": 3}, "x", {"type": "?"}]}))
    assert [line[:9].strip() for line in lines] == ["you", "unread", "unread", "unread"]


def test_a_still_knows_every_kind():
    html = Still([Row(kind, "who", kind) for kind in COLOURS], "foot")._repr_html_()
    assert all(colour in html for colour in COLOURS.values()) and html.count('dir="auto"') == len(COLOURS)
