"""The microscope shows what the real parser does: every chunk once, nothing told before it is certain, one message."""

import comm
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentkit.lab import Microscope
from agentkit.lab.dissect import MOST, at_random, by_size, by_token, chunkings, disagreement, dissect
from agentkit.lab.raw_texts import RAW_TEXTS
from agentkit.models.chat import LocalChatModel
from agentkit.models.errors import BadField
from agentkit.models.owner import owner
from agentkit.models.tool_calls import ToolCallParser
from tests import tiny


@given(st.text(max_size=60), st.integers(1, 9), st.integers(0, 99))
def test_pieces_are_the_text(text, size, seed):
    assert "".join(by_size(text, size)) == "".join(at_random(text, seed)) == text
    assert all("".join(pieces) == text for pieces in chunkings(text))


def test_several_sizes_are_used_in_turn_and_the_last_for_the_rest():
    assert by_size("abcdefgh", [1, 3, 2]) == ["a", "bcd", "ef", "gh"]
    with pytest.raises(BadField, match="sizes"):
        by_size("abc", 0)


@pytest.mark.parametrize("name", RAW_TEXTS)
def test_every_preset_gives_one_message_however_it_is_cut(name):
    raw = RAW_TEXTS[name]
    count, other = disagreement(raw.text, raw.finish, thinking=raw.thinking, tools=list(raw.tools) or None)
    assert count > len(raw.text) and other is None


@pytest.mark.parametrize(("name", "calls", "refused", "content"), [
    ("a call", 1, 0, ""), ("text and two calls", 2, 0, "I will work out both."),
    ("a mention in a thought", 0, 0, "Hello! What shall we work out?"), ("a call in a thought", 1, 0, ""),
    ("a call that is cut", 0, 1, ""), ("a mention in backticks", 1, 0, "A call begins with `<tool_call>` and a brace."),
    ("another family's call", 0, 1, ""), ("two functions in one block", 2, 0, ""),
])
def test_presets_say_what_their_names_promise(name, calls, refused, content):
    parsed = Microscope(preset=name).seen.parsed
    assert (len(parsed.tool_calls), len(parsed.invalid_tool_calls), parsed.content) == (calls, refused, content)


@pytest.mark.parametrize("name", RAW_TEXTS)
def test_kinds_spell_the_text_and_the_slide_never_takes_back(name):
    view = Microscope(preset=name, sizes=1).slide.view
    assert "".join(text for _, text in view["kinds"]) == RAW_TEXTS[name].text
    told = [done for _, done, _, _ in view["frames"]]
    assert told == sorted(told) and told[-1] == len(RAW_TEXTS[name].text)
    assert all(done <= fed for fed, done, _, _ in view["frames"])


def test_a_halved_tag_is_held_back_until_it_is_whole():
    seen = dissect(['Yes. <tool', '_call>{"name": "f"}</tool_call>'])
    assert (seen.frames[0].told, seen.frames[0].held) == ([("text", "Yes.")], "<tool")
    assert seen.frames[1].told == [("call", "f()")] and seen.frames[1].held == ""


def test_a_thought_that_the_template_opened_is_shown_as_one():
    seen = dissect(by_size("so it is</think>\nYes", 1))
    assert ("was a thought", "so it is") in [told for frame in seen.frames for told in frame.told]
    assert seen.kinds() == [("thought", "so it is"), ("tag", "</think>\n"), ("text", "Yes")]


def test_a_parser_that_depends_on_chunks_is_found_out(monkeypatch):
    feed = ToolCallParser.feed
    monkeypatch.setattr(ToolCallParser, "feed", lambda self, text: feed(self, text.removeprefix("b")))
    assert disagreement("aba") == (1, ["a", "b", "a"])
    assert "another message" in Microscope("aba").text()


def test_text_shows_each_stretch_and_the_message():
    shown = Microscope('<tool_call>{"name": "f", "arguments": {}}</tool_call>', sizes=11).text()
    assert shown.splitlines()[0] == "        1 | call?     | gets '<tool_call>' · holds '<tool_call>'"
    assert "tells call f()" in shown and "Cut in 105 other ways, the text gives the same message each time." in shown


def test_still_reads_without_a_kernel_and_shows_markup_as_text():
    still = Microscope("<b>bold</b>", sizes=3).still()
    assert repr(still) == Microscope("<b>bold</b>", sizes=3).text()
    assert "<b>bold" not in still._repr_html_() and "&lt;b&gt;" in still._repr_html_()


def test_controls_change_what_is_seen():
    scope = Microscope(preset="a call that is cut", sizes=5)
    assert scope.seen.parsed.invalid_tool_calls
    scope.finish.value = "stop"
    assert not any("limit" in call["error"] for call in scope.seen.parsed.invalid_tool_calls)
    scope.raw.value = "Just text."
    assert scope.preset.value == "your own text" and scope.seen.parsed.content == "Just text."
    scope.size.value = 1
    assert len(scope.seen.frames) == len("Just text.") + 1
    scope.cut.value, scope.seed.value = "random pieces", 3
    assert [frame.chunk for frame in scope.seen.frames[:-1]] == at_random("Just text.", 3)
    scope.preset.value = "a mention in a thought"
    assert scope.thinking.value and "thought" in scope.text()


def test_a_text_too_long_is_refused_and_the_panel_stays_usable():
    with pytest.raises(BadField, match=str(MOST)):
        Microscope("x" * (MOST + 1))
    scope = Microscope("short")
    scope.raw.value = "x" * (MOST + 1)
    assert str(MOST) in scope.text() and str(MOST) in scope.still()._repr_html_()
    scope.raw.value = "short again"
    assert scope.seen.parsed.content == "short again"
    with pytest.raises(BadField, match="preset"):
        Microscope(preset="nothing of the kind")


def test_one_change_is_sent_to_the_front_end_once(monkeypatch):
    sent = []

    class Comm(comm.base_comm.BaseComm):
        def publish_msg(self, msg_type, data=None, metadata=None, buffers=None, **keys):
            sent.append(data or {})

    monkeypatch.setattr(comm, "create_comm", Comm)
    scope = Microscope(preset="text and two calls")
    sent.clear()
    scope.preset.value = "a mention in a thought"
    views = [data for data in sent if "view" in (data.get("state") or {})]
    assert len(views) == 1 and len(str(views[0])) < 20_000


@pytest.fixture(scope="module")
def local(tmp_path_factory):
    return LocalChatModel.load(owner().call(tiny.make, tmp_path_factory.mktemp("tiny"), tiny.QWEN3))


@pytest.mark.parametrize("text", ["", "the quick fox", "สวัสดี 😀 Žluťoučký", '<tool_call>{"name": "ls"}</tool_call>'])
def test_tokens_of_a_model_are_pieces_of_the_text_and_letters_stay_whole(local, text):
    pieces = by_token(text, local)
    assert "".join(pieces) == text and len(pieces) <= len(local.get_token_ids(text))
    assert not any("\ufffd" in piece for piece in pieces)


def test_the_microscope_cuts_as_the_model_writes(local):
    scope = Microscope(preset="a call", tokens=local)
    assert [frame.chunk for frame in scope.seen.frames[:-1]] == by_token(scope.raw.value, local)
    assert scope.seen.frames[0].chunk == "<tool_call>"
