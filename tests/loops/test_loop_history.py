"""Any history, however broken, becomes one that every chat template and server accepts."""

from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage

from agentkit.loops.history import BROKEN_OFF, UNFINISHED, closed, repaired
from tests.histories import assert_valid

_ids = st.integers(0, 6).map(lambda n: f"c{n}")
_call = _ids.map(lambda id: {"name": "f", "args": {}, "id": id})
_refused = _ids.map(lambda id: {"name": None, "args": "{", "id": id, "error": "cut", "type": "invalid_tool_call"})
_messages = st.lists(
    st.one_of(
        st.builds(HumanMessage, st.just("q")),
        st.builds(AIMessage, st.just("a")),
        st.builds(SystemMessage, st.just("s")),
        st.builds(lambda id: ToolMessage("r", tool_call_id=id), _ids),
        st.builds(
            lambda calls, refused: AIMessage("", tool_calls=calls, invalid_tool_calls=refused),
            st.lists(_call, max_size=3, unique_by=lambda c: c["id"]),
            st.lists(_refused, max_size=1),
        ),
    ),
    max_size=12,
)


@given(_messages)
def test_whatever_broke_it_becomes_valid_and_stays_as_it_is_then(messages):
    fixed = repaired(messages)
    waiting = set()
    for message in fixed:
        if isinstance(message, ToolMessage):
            waiting.remove(message.tool_call_id)
        else:
            assert not waiting
            waiting = {
                c["id"] for c in [*getattr(message, "tool_calls", []), *getattr(message, "invalid_tool_calls", [])]
            }
    assert not waiting
    assert [id(m) for m in repaired(fixed)] == [id(m) for m in fixed]
    # Nothing that was said is lost, and no result that belongs to a call.
    assert [m for m in fixed if not isinstance(m, ToolMessage)] == [
        m for m in messages if not isinstance(m, ToolMessage)
    ]
    assert [m for m in fixed if isinstance(m, ToolMessage) and m.content != UNFINISHED] == [
        m for m in messages if isinstance(m, ToolMessage) and any(m is kept for kept in fixed)
    ]


def _two_calls():
    return AIMessage("", tool_calls=[{"name": "f", "args": {}, "id": "1"}, {"name": "g", "args": {}, "id": "2"}])


def test_a_missing_result_is_put_where_it_belongs():
    history = [HumanMessage("q"), _two_calls(), ToolMessage("one", tool_call_id="1"), HumanMessage("next")]
    fixed = repaired(history)
    assert [(m.type, m.content) for m in fixed[2:]] == [("tool", "one"), ("tool", UNFINISHED), ("human", "next")]
    assert (fixed[3].tool_call_id, fixed[3].name, fixed[3].status) == ("2", "g", "error")


def test_a_turn_without_a_last_word_gets_one_and_a_finished_turn_does_not():
    broken = closed([HumanMessage("q"), _two_calls()])
    assert_valid(broken)
    assert broken[-1].content == BROKEN_OFF
    asked = closed([HumanMessage("q")], "Stopped.", "cancel")
    assert (asked[-1].content, asked[-1].response_metadata) == ("Stopped.", {"ended": "cancel"})
    whole = [HumanMessage("q"), AIMessage("a")]
    assert closed(whole) == whole and closed([]) == []
