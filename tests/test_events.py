"""The stream of events: who hears what, and that everything can be written as JSON."""

import contextvars
import dataclasses
import json
import threading
import typing

import pytest

from agentkit import events
from agentkit.events import Event, GuardVerdict, Token, emit, from_dict, heard, listening


def _all_kinds():
    return [
        kind
        for kind in vars(events).values()
        if isinstance(kind, type) and issubclass(kind, Event) and kind is not Event
    ]


SAMPLES = {str: "ภาษาไทย \x1b\n", int: 3, float: 0.5, bool: True, dict: {"a": [1, None, "é"]}}


@pytest.mark.parametrize("kind", _all_kinds(), ids=lambda kind: kind.__name__)
@pytest.mark.parametrize("optional", ["given", "left out"])
def test_every_event_survives_json(kind, optional):
    fields = {}
    for f in dataclasses.fields(kind):
        types = typing.get_args(hint := typing.get_type_hints(kind)[f.name]) or (hint,)
        if optional == "given" or type(None) not in types:
            fields[f.name] = SAMPLES[types[0]]
    event = kind(**fields)
    assert from_dict(json.loads(json.dumps(event.as_dict()))) == event


@pytest.mark.parametrize("data, says", [
    ([], "not an event"),
    ({"at": 1.0}, "not an event"),
    ({"event": "Event", "at": 1.0}, "event 'Event' is unknown; known are RunStarted"),
    ({"event": "StepStarted", "at": 1.0, "step": 1, "node": "n", "x": 1}, "StepStarted has no field 'x'"),
    ({"event": "StepStarted", "at": 1.0, "step": 1}, "StepStarted has no node"),
    ({"event": "StepStarted", "step": 1, "node": "n"}, "StepStarted has no at"),
    ({"event": "StepStarted", "at": "now", "step": 1, "node": "n"}, "StepStarted.at is 'now', not float"),
    ({"event": "StepStarted", "at": 1, "step": True, "node": "n"}, "StepStarted.step is 'True', not int"),
    ({"event": "Token", "at": 1.0, "text": "x", "id": "a"}, "Token.id is 'a', not int or null"),
])
def test_what_is_no_event_is_refused_by_name(data, says):
    with pytest.raises(ValueError, match=says):
        from_dict(data)


def test_whole_numbers_are_fine_where_a_fraction_may_stand():
    assert from_dict({"event": "Token", "at": 1, "text": "x", "probability": 1}).probability == 1


def test_without_a_listener_nothing_happens_and_the_cost_can_be_skipped():
    assert not heard()
    emit(Token(text="lost"))
    with listening(lambda event: None):
        assert heard()
    assert not heard()


def test_a_listener_inside_another_hears_first_and_both_hear():
    order = []
    with listening(lambda e: order.append(("outer", e.text))):
        emit(Token(text="1"))
        with listening(lambda e: order.append(("inner", e.text))):
            emit(Token(text="2"))
        emit(Token(text="3"))
    assert order == [("outer", "1"), ("inner", "2"), ("outer", "2"), ("outer", "3")]


def test_a_thread_is_heard_only_with_a_copy_of_the_context():
    got = []

    def work(name):
        emit(GuardVerdict(guard=name, verdict="hint", detail=""))

    with listening(got.append):
        for name, run in (("bare", lambda f, n: f(n)), ("copied", contextvars.copy_context().run)):
            thread = threading.Thread(target=run, args=(work, name))
            thread.start()
            thread.join()
    assert [event.guard for event in got] == ["copied"]


def test_a_listener_that_fails_does_not_stay_behind():
    def fail(event):
        raise RuntimeError("view broke")

    try:
        with listening(fail):
            emit(Token(text="x"))
    except RuntimeError:
        pass
    assert not heard()
