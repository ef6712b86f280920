"""The stream of events: who hears what, and that everything can be written as JSON."""

import contextvars
import dataclasses
import json
import threading
import typing

from agentkit import events
from agentkit.events import Event, GuardVerdict, Token, emit, heard, listening


def _all_kinds():
    return [
        kind
        for kind in vars(events).values()
        if isinstance(kind, type) and issubclass(kind, Event) and kind is not Event
    ]


def test_every_event_survives_json():
    samples = {str: "ภาษาไทย \x1b\n", int: 3, float: 0.5, bool: True, dict: {"a": [1, None, "é"]}}
    for kind in _all_kinds():
        hints = typing.get_type_hints(kind)
        fields = {f.name: samples[hints[f.name]] for f in dataclasses.fields(kind) if hints[f.name] in samples}
        event = kind(**fields)
        read = json.loads(json.dumps(event.as_dict()))
        assert read.pop("event") == kind.__name__
        assert kind(**read) == event


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
