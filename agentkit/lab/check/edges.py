"""Lesson 04: who decides which node is due."""

import time
from collections import Counter
from collections.abc import Callable, Sequence

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage
from langchain_core.tools import BaseTool, StructuredTool
from langgraph.errors import GraphRecursionError
from langgraph.graph.state import CompiledStateGraph

from agentkit.lab.verdict import Verdict, not_yet, right
from agentkit.loops.history import is_answer
from agentkit.models import ScriptedChatModel
from agentkit.models.errors import AgentkitError

PREDICTIONS = {
    "no path map": (
        "The same graph, but add_conditional_edges gets the router alone, without the list of its targets. "
        "What does the drawing show behind model?",
        ["the branches to tools and END, as before", "one edge to END, as if it never called a tool",
         "nothing: the graph cannot be compiled"], 1,
        "The drawing shows what is declared. A router is a function, and nobody can see where it will send a run "
        "without running it. At run time the tools are reached all the same."),
    "an unknown name": (
        "The router returns 'tool', but the node is called 'tools'. No targets were declared. What happens to the "
        "call?",
        ["compiling the graph fails", "the run fails with an error that names 'tool'",
         "the run ends without an exception, and the call is never run"], 2,
        "LangGraph writes one warning to the log and ends the run. With declared targets the same slip is an error."),
}
DANGEROUS = "delete_file"
Build = Callable[[ScriptedChatModel, Sequence[BaseTool]], CompiledStateGraph]


def shop() -> tuple[list[BaseTool], Counter]:
    """The tools `pay` and `book`, and a count of how often each ran. The first `book` fails, after `pay` is done."""
    ran: Counter = Counter()

    def pay() -> str:
        """Pay the bill."""
        ran["pay"] += 1
        return "paid"

    def book() -> str:
        """Book the ferry."""
        ran["book"] += 1
        if ran["book"] == 1:
            time.sleep(0.3)  # pay runs at the same time and must be done, so that there is something to lose
            raise ConnectionError("the ferry's server is down")
        return "booked"

    return [StructuredTool.from_function(pay), StructuredTool.from_function(book)], ran


def reviewer(build: Build) -> Verdict:
    """Whether a graph sends an answer under 20 letters back to the model, once, and leaves all else as it was."""
    long, longer = "The ferry leaves at 07:40.", "It leaves at 07:40, every day."
    for tape, told in (
        ([long], "a long answer"),
        ([_call("look"), long], "a call, then a long answer"),
        (["07:40.", longer], "a short answer, then a long one"),
        (["07:40.", "At 07:40."], "two short answers"),
        ([_call("look"), "07:40.", longer], "a call, a short answer, then a long one"),
    ):
        tools, ran = _files("look")
        model = ScriptedChatModel([*tape, "One too many."])
        problem, messages = _run(build, model, tools)
        if problem:
            return not_yet(f"The model gave {told}, and {problem}")
        if model.position > len(tape):
            return not_yet(f"The model gave {told}, and was asked once more all the same. Which messages may go back, "
                           "and how does the router see that one was sent back already?")
        if ran["look"] < sum(not isinstance(step, str) for step in tape):
            return not_yet(f"The model gave {told}, and the call was not run. A message that calls a tool has an empty "
                           "text: is it a short answer?")
        if model.position < len(tape):
            return not_yet(f"The model gave {told}. After {messages[-1].text!r} it should have been asked again, and "
                           "the run was over. Is there a way to the reviewer, and one back to the model?")
        if "07:40." in tape and not isinstance(model.calls[-1].messages[-1], HumanMessage):
            return not_yet("The model was asked again, with its own short answer as the last message. The reviewer "
                           "should speak last, as a HumanMessage.")
    return right("A short answer goes back once, with a reason. Calls and long answers go where they went before.")


def refuses(build: Build) -> Verdict:
    """Whether a graph never runs `delete_file`, answers its calls with an error, and runs all others."""
    for names in (["read_file"], [DANGEROUS], ["read_file", DANGEROUS], [DANGEROUS, "read_file", DANGEROUS]):
        tools, ran = _files("read_file", DANGEROUS)
        model = ScriptedChatModel([_call(*names), "Done."])
        problem, messages = _run(build, model, tools)
        if ran[DANGEROUS]:
            problem = f"{DANGEROUS} ran. Let the router look at the name of each call before it sends it on."
        problem = problem or _unanswered(messages)
        if not problem and ran["read_file"] != names.count("read_file"):
            problem = f"read_file ran {ran['read_file']} times. A harmless call beside a dangerous one may run."
        if not problem and (model.position < 2 or not is_answer(messages[-1])):
            problem = ("the run was over before the model read the results. Where does the way lead from the node that "
                       "refuses?")
        if problem:
            return not_yet(f"The model called {' and '.join(names)}, and {problem}")
    return right(f"{DANGEROUS} never runs, whatever the model writes, and the model is told. The rule stands in code.")


def _unanswered(messages: list[BaseMessage]) -> str:
    """What is wrong with the results of the calls, in words that end a sentence; empty if each has the one it needs."""
    calls = [call for message in messages if isinstance(message, AIMessage) for call in message.tool_calls]
    for call in calls:
        results = [m for m in messages if isinstance(m, ToolMessage) and m.tool_call_id == call["id"]]
        if not results:
            return (f"the call of {call['name']} has no result. Every call needs one: the model must read why nothing "
                    "happened.")
        if len(results) > 1:
            return f"the call of {call['name']} has {len(results)} results. One node answers it, not both."
        if call["name"] == DANGEROUS and results[0].status != "error":
            return f"the refusal has the status {results[0].status!r}, as if {DANGEROUS} had worked."
    return ""


def _call(*names: str) -> AIMessage:
    return AIMessage("", tool_calls=[{"name": name, "args": {}, "id": None} for name in names])


def _files(*names: str) -> tuple[list[BaseTool], Counter]:
    ran: Counter = Counter()

    def made(name: str) -> BaseTool:
        def work() -> str:
            ran[name] += 1
            return f"{name}: done"

        return StructuredTool.from_function(work, name=name, description=f"{name}.")

    return [made(name) for name in names], ran


def _run(build: Build, model: ScriptedChatModel, tools: list[BaseTool]) -> tuple[str, list[BaseMessage]]:
    """What went wrong, in words that end a sentence (empty if nothing did), and the messages of the run."""
    try:
        graph = build(model, tools)
        return "", graph.invoke({"messages": [HumanMessage("q")]}, {"recursion_limit": 16})["messages"]
    except GraphRecursionError:
        return "the run went round until the limit. What in the state tells the router that it is enough?", []
    except AgentkitError:  # the tape is at its end
        return "the model was asked again and again. How does the router see that it is enough?", []
    except KeyError as error:
        return f"the router chose {error}, which is not among the targets you declared.", []
    except Exception as error:  # noqa: BLE001 - a reader's graph may raise anything
        return f"the graph raised {type(error).__name__}: {error}", []
