"""Every fault against every loop: the run ends in the known way, and its history is valid."""

import threading

import pytest
from langchain_core.language_models.fake_chat_models import FakeListChatModel
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_core.tools import BaseTool, tool
from langgraph.prebuilt import ToolRuntime

from agentkit.events import FaultInjected, GuardVerdict, ToolCalled, ToolReturned, listening
from agentkit.lab import faults
from agentkit.lab.faults import KINDS, Fault
from agentkit.loops import LOOPS, build_agent
from agentkit.loops.handmade import Tool
from agentkit.models import GenerationProfile, LocalChatModel, ScriptedChatModel, load_model
from agentkit.models.errors import BadField
from agentkit.models.messages import invalid_calls
from agentkit.tools import tools_for
from agentkit.tools.calculator import calculator_tool
from tests.histories import assert_valid, call

PLAN = call("plan", kind="simple", steps=[])
ACTION = 'Thought: I need the tool.\nAction: calculator\nAction Input: {"expression": "23*19"}'
ANSWER = "It is 437 and nothing else in the whole wide world."


def tape(loop, calls=1):
    """Calls, then an answer; no two calls are alike."""
    sums = [f"23*{19 + n}" for n in range(calls)]
    if loop == "handmade":
        return [*[ACTION.replace("23*19", each) for each in sums], f"Final Answer: {ANSWER}"]
    return [*[PLAN] * (loop == "planned"), *[call("calculator", expression=each) for each in sums], ANSWER]


def run(loop, fault, calls=1, model=None, cancel=None, on=None):
    """The result and the events of a run with a fault; `cancel` is set at the first event of the kind `on`."""
    model = model or ScriptedChatModel(tape(loop, calls))
    model, tools, profile = fault.apply(model, tools_for(["calculator"]), GenerationProfile())
    stream, events = build_agent(loop, model=model, tools=tools, profile=profile).stream("What is it?", cancel=cancel), []
    while True:
        try:
            events.append(next(stream))
        except StopIteration as end:
            assert_valid(end.value.messages)
            return end.value, events
        if on and isinstance(events[-1], on):
            cancel.set()


def acted(events):
    return [e.fault for e in events if isinstance(e, FaultInjected)]


# For ever, with as many calls as the loop will take, the run must end like this.
ENDS = {
    "raises": "answer", "slow": "answer", "rubbish": "answer", "malformed": "malformed", "cut": "answer", "repeats": "guard"}


@pytest.mark.parametrize("loop", LOOPS)
@pytest.mark.parametrize("kind", KINDS)
def test_every_fault_ends_every_loop_in_the_known_way(loop, kind):
    result, events = run(loop, Fault(kind, seconds=0.01, tokens=6), calls=3)
    # What is left of a cut reply is a text, which is an answer where calls are not text; of the protocol it is nothing.
    reason = "malformed" if (kind, loop) == ("cut", "handmade") else ENDS[kind]
    assert result.reason == reason, result.answer
    assert set(acted(events)) == {kind}


@pytest.mark.parametrize("loop", LOOPS)
def test_a_tool_that_raises_gives_a_result_marked_as_error(loop):
    result, events = run(loop, Fault("raises", tool="calculator", times=1), calls=2)
    told = [(e.status, e.content) for e in events if isinstance(e, ToolReturned)]
    assert told == [("error", "Error: ConnectionError: the server closed the connection"), ("success", "460")]
    assert (result.reason, result.answer, acted(events)) == ("answer", ANSWER, ["raises"])


@pytest.mark.parametrize("loop", LOOPS)
def test_rubbish_is_a_result_like_any_other(loop):
    result, events = run(loop, Fault("rubbish"))
    assert [(e.status, e.content) for e in events if isinstance(e, ToolReturned)] == [("success", faults.RUBBISH)]
    assert result.reason == "answer"


@pytest.mark.parametrize("loop", LOOPS)
def test_stop_ends_a_slow_tool_that_has_hours_to_go_and_it_never_works(loop):
    worked, cancel = [], threading.Event()

    @tool
    def calculator(expression: str) -> str:
        """Work."""
        worked.append(expression)
        return "437"

    model, tools, profile = Fault("slow", seconds=3600).apply(ScriptedChatModel(tape(loop)), [calculator], GenerationProfile())
    agent, events, got = build_agent(loop, model=model, tools=tools, profile=profile), [], []

    def drain():
        stream = agent.stream("What is it?", cancel=cancel)
        while True:
            try:
                events.append(next(stream))
            except StopIteration as end:
                return got.append(end.value)
            if isinstance(events[-1], FaultInjected):
                cancel.set()

    worker = threading.Thread(target=drain, daemon=True)
    worker.start()
    worker.join(60)
    assert got and got[0].reason == "cancel" and worked == [] and acted(events) == ["slow"]
    assert_valid(got[0].messages)


@pytest.mark.parametrize("loop", LOOPS)
def test_a_malformed_call_is_refused_by_the_parser_and_one_of_them_is_survived(loop):
    # After a refused call the tape goes on with another one, as a model would that read the reason.
    result, events = run(loop, Fault("malformed", times=1), calls=2)
    called = [e for e in events if isinstance(e, ToolCalled)]
    assert [bool(e.invalid) for e in called] == [True, False] and "JSON" in called[0].invalid
    assert [e.content for e in events if isinstance(e, ToolReturned)][1:] == ["460"]
    assert (result.reason, result.answer, acted(events)) == ("answer", ANSWER, ["malformed"])


def test_a_malformed_call_keeps_the_text_that_was_torn():
    model = faults.malformed(ScriptedChatModel([call("calculator", expression="{1}")]))
    message = model.bind_tools(tools_for(["calculator"])).invoke("q")
    (refused,) = invalid_calls(message)
    assert message.tool_calls == [] and refused["name"] == "calculator"
    assert refused["args"] == '<tool_call>\n{"name": "calculator", "arguments": {"expression": "{1}"}\n</tool_call>'
    assert refused["error"].startswith("bad JSON")


def test_an_answer_without_a_call_is_not_torn_and_streams_as_it_comes():
    model = faults.malformed(ScriptedChatModel(["one two {three}"] * 2)).bind_tools(tools_for(["calculator"]))
    chunks = [chunk.text for chunk in model.stream("q")]
    assert "".join(chunks) == "one two {three}" == model.invoke("q").text and len([c for c in chunks if c]) == 3


@pytest.mark.parametrize("loop", ["lite", "react", "planned"])
def test_a_cut_call_is_refused_and_never_run(loop):
    model = ScriptedChatModel([*[PLAN] * (loop == "planned"), call("calculator", expression="1 + 2 + 3 + 4 + 5 + 6 + 7"), "Short."])
    result, events = run(loop, Fault("cut", tokens=4), model=model)
    assert [bool(e.invalid) for e in events if isinstance(e, ToolCalled)] == [True]
    assert (result.reason, result.answer, acted(events)) == ("answer", "Short.", ["cut"])


def test_a_cut_reply_of_the_handmade_loop_is_no_action():
    result, events = run("handmade", Fault("cut", tokens=6, times=1), calls=2)
    assert [bool(e.invalid) for e in events if isinstance(e, ToolCalled)] == [True, False]
    assert (result.reason, acted(events)) == ("answer", ["cut"])


@pytest.mark.parametrize("loop", LOOPS)
def test_a_model_that_repeats_itself_meets_the_guard_and_one_repetition_is_survived(loop):
    result, events = run(loop, Fault("repeats"))
    assert [e.verdict for e in events if isinstance(e, GuardVerdict)] == ["hint", "stop"] and result.reason == "guard"
    assert acted(events) == ["repeats"] * 2
    result, events = run(loop, Fault("repeats", times=1))
    assert [e.verdict for e in events if isinstance(e, GuardVerdict)] == ["hint"]
    assert (result.reason, result.answer) == ("answer", ANSWER)


def test_the_planner_is_left_alone():
    for kind in ("malformed", "repeats"):
        tape = [call("plan", kind="complex", steps=["One.", "Two."]), "Done."]
        model, tools, profile = Fault(kind).apply(ScriptedChatModel(tape), tools_for(["calculator"]), GenerationProfile())
        result = build_agent("planned", model=model, tools=tools, profile=profile).run("q")
        assert result.answer == "Done."
        asked = model.calls[1].messages
        assert "1. One.\n2. Two." in asked[0].text


def test_a_new_turn_on_a_repeating_model_begins_with_a_call_of_its_own():
    model = faults.repeats(ScriptedChatModel([call("a"), call("b")]), times=9)
    history = [HumanMessage("q"), AIMessage("", tool_calls=[{"name": "a", "args": {}, "id": "1"}]), ToolMessage("x", tool_call_id="1")]
    assert model.invoke(history).tool_calls[0]["name"] == "a" and model.invoke(history).tool_calls[0]["id"] != "1"
    assert model.position == 0, "the inner model was not asked"
    again = [*history, AIMessage("done"), HumanMessage("and?")]
    assert model.invoke(again).tool_calls[0]["name"] == "a" and model.position == 1


@pytest.mark.parametrize("make", [faults.malformed, faults.repeats, faults.cut])
def test_a_faulty_model_keeps_what_the_inner_one_offers(make):
    class Named(ScriptedChatModel):
        profile: GenerationProfile = GenerationProfile(seed=7)

        def with_profile(self, **changes):
            return self.model_copy(update={"profile": self.profile.but(**changes)})

    inner = Named(["a b c"], model_name="mine", metadata={"k": 1})
    model = make(inner)
    assert (model.model_name, model.profile.seed, model.metadata) == ("mine", 7, inner.metadata)
    other = model.with_profile(temperature=1.5)
    assert type(other) is type(model) and other.profile.temperature == other.inner.profile.temperature == 1.5
    bound = model.bind_tools(tools_for(["calculator"]), tool_choice="any")
    assert type(bound) is type(model) and bound.tool_choice == "any" and bound.tools[0]["function"]["name"] == "calculator"
    assert not hasattr(model, "no_such_thing")


def test_models_that_cannot_stream_or_bind_tools_work_or_say_so():
    plain = FakeListChatModel(responses=["one two three four"])
    assert faults.cut(plain, tokens=2).invoke("q").text == "one two"
    with pytest.raises(NotImplementedError):
        faults.malformed(plain).bind_tools([])


def test_a_limit_of_tokens_goes_into_the_field_that_the_model_has():
    class Served(ScriptedChatModel):
        num_predict: int = 100

    model = faults.cut(Served(["x"]), tokens=5)
    assert model.limited.num_predict == 5 and model.inner.num_predict == 100
    assert Fault("cut", tokens=5).apply(model, [], GenerationProfile())[2].max_tokens == 5


def test_a_faulty_tool_keeps_name_description_schema_and_what_is_injected():
    @tool
    def ask(text: str, runtime: ToolRuntime) -> str:
        """Look at the state."""
        return f"{text}: {len(runtime.state['messages'])} messages"

    made = faults.raises(ask, times=1)
    assert isinstance(made, BaseTool) and type(made) is type(ask)
    assert (made.name, made.description, made.args) == (ask.name, ask.description, ask.args)
    tape = [call("ask", text="one"), call("ask", text="two"), "ok"]
    result = build_agent("react", model=ScriptedChatModel(tape), tools=[made]).run("q")
    assert [m.text for m in result.messages if m.type == "tool"] == [
        "Error: ConnectionError: the server closed the connection", "two: 4 messages"]
    assert ask.name == "ask" and "_run" not in vars(ask), "the tool itself has no fault"


def test_bad_arguments_come_before_the_fault():
    result = build_agent("react", model=ScriptedChatModel([call("calculator", wrong=1), "ok"]), tools=[faults.raises(calculator_tool())]).run("q")
    assert "expression" in next(m for m in result.messages if m.type == "tool").text


def test_a_tool_with_an_artifact_and_one_of_the_handmade_loop():
    (plan,) = tools_for(["create_plan"])
    message = faults.rubbish(plan, text="??").invoke({"name": "create_plan", "args": {"steps": ["a"]}, "id": "1", "type": "tool_call"})
    assert (message.content, message.artifact) == ("??", None)
    own = Tool("t", "d", lambda x: x, {"type": "object"})
    assert faults.rubbish(own, text="??").run(x=1) == "??" and own.run(x="same") == "same"
    with pytest.raises(ConnectionError, match="boom"):
        faults.raises(own, message="boom").run(x=1)


def test_a_fault_acts_as_often_as_it_says_and_tells_each_time():
    heard = []
    spoiled = faults.rubbish(calculator_tool(), text="?", times=2)
    with listening(heard.append):
        assert [spoiled.invoke({"expression": "1+1"}) for _ in range(3)] == ["?", "?", "2"]
    assert [(e.fault, e.detail) for e in heard] == [("rubbish", "calculator returned rubbish")] * 2


@pytest.mark.parametrize(("make", "says"), [
    (lambda: Fault("explodes"), "fault 'explodes' is unknown; known are raises, slow"),
    (lambda: Fault("raises", times=0), "times is 0; allowed is a whole number from 1, or None"),
    (lambda: Fault("raises", tool="bash").apply(None, tools_for(["calculator"]), None), "tool 'bash' is not switched on; calculator are"),
    (lambda: faults.slow(calculator_tool(), seconds=0), "seconds is 0; allowed is above 0"),
    (lambda: faults.cut(ScriptedChatModel(["x"]), tokens=0), "tokens is 0"),
    (lambda: faults.malformed("bundled"), "model is a str; a fault needs a LangChain chat model"),
    (lambda: faults.raises(len), "tool is a builtin_function_or_method"),
])
def test_what_is_not_allowed_is_named(make, says):
    with pytest.raises(BadField, match=says):
        make()


# The same on the bundled model: weights, template, tokens and parser are the real ones.
QUESTION = "What is 23 times 19? Use the calculator."


@pytest.fixture(scope="module")
def local() -> LocalChatModel:
    return load_model("bundled")


def test_a_local_models_call_is_torn_once(local):
    bound = faults.malformed(local, times=1).bind_tools(tools_for(["calculator"]))
    message = bound.invoke(QUESTION)
    (refused,) = invalid_calls(message)
    assert message.tool_calls == [] and "bad JSON" in refused["error"] and message.usage_metadata["output_tokens"] > 5
    assert bound.invoke(QUESTION).tool_calls[0]["name"] == "calculator"


def test_a_local_models_call_is_cut(local):
    faulty = faults.cut(local, tokens=6)
    message = faulty.bind_tools(tools_for(["calculator"])).invoke(QUESTION)
    assert message.usage_metadata["output_tokens"] == 6 and message.tool_calls == []
    assert invalid_calls(message) and message.response_metadata["finish_reason"] == "length"
    assert (faulty.form, faulty.engine, faulty.profile) == (local.form, local.engine, local.profile)


def test_a_local_model_repeats_itself_until_the_guard_ends_it(local):
    result = build_agent("lite", model=faults.repeats(local), tools=tools_for(["calculator"])).run(QUESTION)
    assert result.reason == "guard"
    assert_valid(result.messages)
