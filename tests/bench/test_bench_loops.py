"""The sides of the figure for the loops run the same turn; how long it takes is nobody's business here."""

import pytest
from langchain_core.messages import AIMessage

from agentkit import events
from agentkit.bench import loops
from agentkit.models.errors import AgentkitError

SIDES = (
    loops.turn_of_create_agent,
    loops.turn_of_react,
    loops.turn_of_handmade,
    lambda: loops.turn_of_handmade(loops.double),
)


@pytest.mark.parametrize("side", SIDES)
def test_every_side_runs_all_tools_and_answers(side, monkeypatch):
    ran = []
    monkeypatch.setattr(loops.double, "func", lambda number: str(ran.append(number)))
    assert side() > 0
    assert ran == list(range(loops.ROUNDS))


def test_a_turn_that_ends_early_is_no_measurement(monkeypatch):
    monkeypatch.setattr(loops, "_calls", lambda: [AIMessage(loops.ANSWER)])
    for side in SIDES[:2]:
        with pytest.raises(AgentkitError, match="ended with 'done' after 0 tools, not after 50"):
            side()


def test_ours_is_listened_to_and_guarded_by_the_same_limits():
    heard = []
    with events.listening(heard.append):
        loops.turn_of_react()
    assert heard[0].limit == loops.STEPS
    assert [type(event).__name__ for event in heard].count("StepEnded") == loops.STEPS
    assert {"Token", "ToolCalled", "ToolReturned", "RunEnded"} <= {type(event).__name__ for event in heard}


def test_the_figures_are_ratios_and_say_what_a_superstep_took(monkeypatch, quiet):
    monkeypatch.setattr(loops, "turn_of_create_agent", lambda: 1.01)
    monkeypatch.setattr(loops, "turn_of_react", lambda: 0.909)
    monkeypatch.setattr(loops, "turn_of_handmade", lambda with_tool=None: 0.404 if with_tool else 0.303)
    react, handmade = loops.measure(True, quiet)
    assert (react.measured, react.met, handmade.measured, handmade.met) == (
        pytest.approx(0.9), True, pytest.approx(0.3), False)
    assert react.how == "best 9000 against 10000 µs a superstep; 10 pairs of 50 tool rounds"
    assert handmade.how.endswith("; 0.40 with LangChain's tool") and len(handmade.details["with_langchain_tool"]) == 10
