"""The workbench outside a kernel: real widgets, real runs, and a tool that waits where a test says so."""

import threading

import pytest
from langchain_core.messages import AIMessage
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver

from agentkit.events import RunEnded, RunStarted, Token, emit
from agentkit.lab import Workbench
from agentkit.models import GenerationProfile, ScriptedChatModel, Step
from agentkit.models.errors import AgentkitError, BadField
from agentkit.tools import tools_for

CALL = AIMessage("", tool_calls=[{"name": "calculator", "args": {"expression": "23*19"}, "id": "1"}])


def bench_of(*tape, loop="lite", tools=("calculator",), **more):
    more.setdefault("question", "What is 23 times 19?")
    return Workbench(ScriptedChatModel(list(tape)), tools_for(tools), loop, **more)


@pytest.mark.parametrize("loop, steps, tokens", [("lite", 3, 5), ("react", 3, 5), ("planned", 4, 7)])
def test_ask_gives_the_result_and_shows_call_result_and_answer(loop, steps, tokens):
    plan = ['{"kind": "simple"}'] if loop == "planned" else []
    bench = bench_of(*plan, CALL, "It is 437.", loop=loop)
    panel = bench.run_panel
    done = bench.ask()
    assert (done.reason, done.answer, bench.result) == ("answer", "It is 437.", done)
    assert panel.text().splitlines()[-4:] == [
        '     call | calculator(expression="23*19")', "   result | 437", "    model | It is 437.",
        f"ended: answer; {steps} of 60 steps; {tokens} tokens"]
    assert isinstance(bench.events[0], RunStarted) and isinstance(bench.events[-1], RunEnded)
    assert bench.agent.loop == loop and not bench.busy


def test_a_panel_made_after_the_run_shows_it_as_one_made_before():
    bench = bench_of(CALL, "It is 437.")
    before = bench.run_panel
    bench.ask()
    assert bench.messages_panel.text().splitlines()[0] == "      you | What is 23 times 19?"
    late = bench_of(CALL, "It is 437.")
    late.ask()
    assert late.run_panel.text() == before.text() and late.run_panel is late.panel("run")


def test_run_returns_at_once_and_stop_ends_a_busy_run():
    bench = bench_of(Step(AIMessage("word " * 500), delay=600))
    panel = bench.run_panel
    panel.run_button.click()
    assert bench.busy and panel.run_button.disabled and not panel.stop_button.disabled
    panel.stop_button.click()
    assert bench.wait(60)
    assert bench.result.reason == "cancel" and "ended: cancel" in panel.text()
    assert not panel.run_button.disabled and panel.stop_button.disabled


def test_stop_ends_a_run_inside_a_slow_tool():
    inside, never = threading.Event(), threading.Event()

    @tool
    def slow() -> str:
        """Takes for ever."""
        inside.set()
        never.wait(600)
        return "late"

    call = AIMessage("", tool_calls=[{"name": "slow", "args": {}, "id": "1"}])
    bench = Workbench(ScriptedChatModel([call, "done"]), [slow], "react", question="go")
    messages = bench.messages_panel
    bench.run_panel.run_button.click()
    assert inside.wait(60)
    bench.run_panel.stop_button.click()
    assert bench.wait(60), "the tool did not listen, and the run must end all the same"
    assert bench.result.reason == "cancel" and not never.is_set()
    assert messages.text().splitlines()[1:] == [
        "     call | slow()", "    error | Error: this call was not finished, it has no result.", "    model | Stopped.",
        "ended: cancel"]
    never.set()


def test_a_second_click_starts_nothing_and_a_second_ask_says_so():
    model = ScriptedChatModel([Step(AIMessage("slow"), delay=600), "two"])
    bench = Workbench(model, question="talk", loop="lite")
    panel = bench.run_panel
    panel.run_button.click()
    panel.run_button.click()
    assert bench.start() is False
    with pytest.raises(AgentkitError, match="a run is under way"):
        bench.ask("again")
    assert bench.settings.question == "talk", "a refused question must not replace the one that runs"
    with pytest.raises(AgentkitError, match="a run is under way"):
        bench.replay(recorded())
    with pytest.raises(AgentkitError, match="not over"):
        bench.recording()
    bench.stop()
    assert bench.wait(60) and len(model.calls) <= 1


def recorded():
    bench = bench_of("hello")
    bench.ask()
    return bench.recording()


@pytest.mark.parametrize("spoil, says", [
    (lambda bench, panel: setattr(panel.prompt, "value", "  "), "the question is empty"),
    (lambda bench, panel: setattr(panel.form.fields["seed"], "value", "abc"), "seed is 'abc'"),
    (lambda bench, panel: setattr(bench, "thread", "t"), "no checkpointer"),
    (lambda bench, panel: setattr(panel.model, "value", "no such model"), "model 'no such model' is unknown"),
    (lambda bench, panel: setattr(bench, "fault", object()), "has no attribute 'apply'"),
])
def test_what_keeps_a_run_from_beginning_is_shown_and_the_panel_stays_usable(spoil, says):
    bench = bench_of("fine", "fine again", models=["no such model"])
    panel = bench.run_panel
    good = bench.settings.trait_values()
    spoil(bench, panel)
    panel.run_button.click()
    assert bench.wait(60) and bench.result is None
    assert says in panel.text() and says in panel.live._status[1]
    assert not panel.run_button.disabled and panel.stop_button.disabled
    with pytest.raises(Exception, match=says.split("'")[0]):
        bench.ask()
    bench.thread = bench.fault = None
    for name in ("question", "fields", "model"):
        setattr(bench.settings, name, good[name])
    assert bench.ask().answer == "fine"
    assert panel.text().startswith("    model | fine\n") and bench.problem == ""


def test_a_model_that_fails_ends_the_run_as_error_and_says_why():
    bench = bench_of(ConnectionError("server gone"))
    panel = bench.run_panel
    assert bench.ask().reason == "error"
    assert panel.text().splitlines() == ["    model | ConnectionError: server gone", "ended: error; 1 of 60 steps; 0 tokens"]


def test_ask_works_from_another_thread_and_from_many_at_once():
    bench = bench_of(*["fine"] * 8)
    panel = bench.run_panel
    answers, refused = [], []

    def ask():
        try:
            answers.append(bench.ask("hello", timeout=60).answer)
        except AgentkitError as error:
            refused.append(str(error))

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not any(thread.is_alive() for thread in threads)
    assert answers and len(answers) + len(refused) == 8 and set(answers) == {"fine"}
    assert "ended: answer" in panel.text()


def test_ask_gives_up_after_its_time_and_the_run_is_told_to_stop():
    bench = bench_of(Step(AIMessage("x"), delay=600))
    with pytest.raises(TimeoutError, match="not over after 0.01 s"):
        bench.ask(timeout=0.01)
    assert bench.wait(60) and bench.result.reason == "cancel"


def test_a_view_that_fails_ends_neither_the_run_nor_the_other_views():
    class Broken:
        def __init__(self, where):
            self.where, self.calls = where, 0

        def take(self, event):
            self.calls += 1
            if self.where == "take":
                raise ValueError("no eyes")

        def flush(self):
            if self.where == "flush":
                raise OSError("no page")

    bench = bench_of(CALL, "It is 437.", "again")
    panel, eyes, page = bench.run_panel, Broken("take"), Broken("flush")
    bench.stage.join(eyes, None, [])
    bench.stage.join(page, None, [])
    assert bench.ask().answer == "It is 437." and "It is 437." in panel.text()
    assert "Broken stopped drawing: ValueError: no eyes" in panel.live._status[1]
    assert "Broken stopped drawing: OSError: no page" in panel.live._status[1]
    assert eyes.calls == 1
    bench.ask("again")
    assert eyes.calls == 2, "the next run gives it another chance"


def test_views_are_drawn_while_no_event_comes():
    drawn, inside = threading.Event(), threading.Event()

    class View:
        def take(self, event):
            pass

        def flush(self):
            if inside.is_set():
                drawn.set()

    @tool
    def waits() -> str:
        """Waits for a drawing."""
        inside.set()
        return "drawn" if drawn.wait(60) else "not drawn"

    bench = Workbench(ScriptedChatModel([AIMessage("", tool_calls=[{"name": "waits", "args": {}, "id": "1"}]), "ok"]),
                      [waits], "lite", question="q")
    bench.stage.join(View(), None, [])
    assert bench.ask().messages[2].content == "drawn"


def test_nothing_is_printed_and_no_thread_stays(capfd):
    bench = bench_of(CALL, "quiet", ConnectionError("x"))
    bench.panels("run", "messages")
    bench.ask()
    bench.ask("fails")
    bench.settings.set_field("seed", "bad")
    bench.start()
    bench.wait(60)
    assert capfd.readouterr() == ("", "")
    assert [thread.name for thread in threading.enumerate() if thread.name in ("agentkit-bench", "agentkit-draw")] == []


def test_the_choices_reach_the_agent_and_panels_follow_the_bench():
    bench = bench_of("ok", tools=("calculator", "read_file"))
    panel = bench.run_panel
    panel.form.fields["temperature"].set_state({"value": 1.5})
    panel.form.fields["recursion_limit"].set_state({"value": 7})
    panel.form.fields["seed"].set_state({"value": "42"})
    panel.tools["calculator"].set_state({"value": False})
    panel.loop.set_state({"index": panel.loop.options.index("react")})
    panel.prompt.set_state({"value": "q"})
    bench.ask()
    agent = bench.agent
    assert (agent.loop, agent.limit, [tool.name for tool in agent.tools]) == ("react", 7, ["read_file"])
    assert (agent.profile.temperature, agent.profile.seed) == (1.5, 42)
    bench.profile = GenerationProfile(temperature=0.3)
    bench.settings.loop, bench.settings.tools = "planned", ("calculator",)
    assert panel.form.fields["temperature"].value == 0.3 and panel.form.fields["seed"].value == ""
    assert panel.loop.value == "planned" and [toggle.value for toggle in panel.tools.values()] == [True, False]


def test_a_profile_reaches_a_model_that_can_follow_one():
    class Local(ScriptedChatModel):
        profile: GenerationProfile = GenerationProfile(max_tokens=99)

        def with_profile(self, **changes):
            return self.model_copy(update={"profile": self.profile.but(**changes)})

    bench = Workbench(Local(["ok", "ok"]), loop="lite", question="q")
    assert bench.profile.max_tokens == 99, "without a profile the model's own"
    bench.run_panel.form.fields["temperature"].value = 1.25
    bench.ask()
    assert bench.agent.model.profile == GenerationProfile(max_tokens=99, temperature=1.25)


def test_what_was_left_alone_follows_the_model_and_what_was_chosen_stays():
    bench = bench_of("ok", models=["bundled"], profile=GenerationProfile(temperature=0.5))
    assert bench.run_panel.model.options == ("scripted", "bundled")
    bench.run_panel.model.value = "bundled"
    assert (bench.profile.constrained, bench.profile.temperature) == (True, 0.5)
    bench.run_panel.model.value = "scripted"
    assert (bench.profile.constrained, bench.profile.temperature) == (False, 0.5)


def test_weights_are_loaded_once_however_often_a_slider_moves(monkeypatch):
    from agentkit.lab import settings

    loaded = []

    class Local(ScriptedChatModel):
        def with_profile(self, **changes):
            return self

    def load(name, profile):
        loaded.append((name, profile.temperature))
        return (Local if name == "local" else ScriptedChatModel)(["ok"] * 9)

    monkeypatch.setattr(settings, "load_model", load)
    bench = Workbench("local", loop="lite", question="q", models=["server"])
    for temperature in (0.1, 0.2, 0.3):
        bench.run_panel.form.fields["temperature"].value = temperature
        bench.ask()
    assert loaded == [("local", 0.1)]
    bench.run_panel.model.value = "server"
    for temperature in (0.3, 0.4, 0.3):
        bench.run_panel.form.fields["temperature"].value = temperature
        bench.ask()
    assert loaded[1:] == [("server", 0.3), ("server", 0.4)], "a server gets its profile when it is connected"


def test_the_graph_is_drawn_before_the_first_run_and_follows_the_chosen_loop():
    bench = bench_of("ok")
    panel = bench.graph_panel
    assert "nodes: START, model, tools, END" in panel.text()
    bench.run_panel.loop.value = "planned"
    assert "planner" in panel.text()
    bench.run_panel.loop.value = "handmade"
    assert "nodes: START, step, END" in panel.text()


def test_a_fault_changes_the_next_run_only_while_it_is_set():
    class Fault:
        def apply(self, model, tools, profile):
            return model, [], profile.but(recursion_limit=3)

    bench = bench_of("one", "two")
    bench.fault = Fault()
    bench.ask()
    assert (bench.agent.tools, bench.agent.limit) == ([], 3)
    bench.fault = None
    bench.ask()
    assert (len(bench.agent.tools), bench.agent.limit) == (1, 60)


def test_a_thread_goes_on_from_run_to_run():
    bench = bench_of("Hello Ada.", "You are Ada.", thread="t", checkpointer=InMemorySaver())
    bench.ask("I am Ada.")
    assert [message.text for message in bench.ask("Who am I?").messages] == [
        "I am Ada.", "Hello Ada.", "Who am I?", "You are Ada."]


def test_a_listener_of_the_caller_hears_the_run():
    from agentkit.events import listening

    heard = []
    with listening(heard.append):
        bench = bench_of("two words")
        bench.ask()
    assert [type(event) for event in heard] == [type(event) for event in bench.events]
    emit(Token(text="after"))
    assert heard[-1] == bench.events[-1]


def test_bad_arguments_are_named():
    with pytest.raises(AgentkitError, match="loop 'x' is unknown"):
        bench_of("a", loop="x")
    with pytest.raises(BadField, match="model is 3"):
        Workbench(3)
    with pytest.raises(BadField, match="panel 'x' is unknown; known are run, graph, messages, faults"):
        bench_of("a").panels("x")
    with pytest.raises(AgentkitError, match="nothing has run yet"):
        bench_of("a").recording()
    with pytest.raises(BadField, match="speed is 0"):
        bench_of("a").replay(recorded(), speed=0)


def test_what_a_notebook_stores_of_panels_is_short_and_stays_the_same():
    bench = bench_of(CALL, "It is 437.")
    column = bench.panels("run", "messages")
    before = column._repr_mimebundle_()["text/plain"]
    bench.ask()
    assert column._repr_mimebundle_()["text/plain"] == before and len(before) < 200
    assert "0x" not in before + repr(bench) + repr(bench.run_panel.live)
    assert repr(bench) == "Workbench(model='scripted', loop='lite', tools=['calculator'])"
