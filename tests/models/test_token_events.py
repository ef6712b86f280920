"""Tokens as events: every token once, in the channel of what it is part of, and no markup in the answer's channel."""

from agentkit import events
from agentkit.models.owner import owner
from agentkit.models.token_events import TokenTeller
from agentkit.models.tool_calls import ToolCallParser

CALL = '<tool_call>\n{"name": "ls", "arguments": {}}\n</tool_call>'


class Piece:
    logprob, token, origin = -0.5, 1, "sampled"

    def __init__(self, text):
        self.text = text


def told(pieces, **options):
    """Channels and texts of the events for a text in pieces, neighbours of one channel joined."""
    parser, teller, heard = ToolCallParser("hermes", **options), TokenTeller(), []
    with events.listening(heard.append):
        for piece in pieces:
            before = parser.state
            parser.feed(piece)
            teller.saw(Piece(piece), before, parser)
        teller.flush()
    assert [event.text for event in heard] == list(pieces)
    joined = []
    for event in heard:
        if joined and joined[-1][0] == event.channel:
            joined[-1] = (event.channel, joined[-1][1] + event.text)
        else:
            joined.append((event.channel, event.text))
    return joined


def test_a_call_in_pieces_of_any_size_is_all_call():
    for size in (1, 2, 3, 5, 20):
        assert told([CALL[i:i + size] for i in range(0, len(CALL), size)]) == [("call", CALL)]


def test_speech_before_a_call_stays_speech():
    assert told(["Let me see.", "\n", "<tool", "_call>", '\n{"name": "ls", "arguments": {}}\n', "</tool_call>"]) == [
        ("answer", "Let me see.\n"), ("call", CALL)]


def test_a_thought_and_its_tags_are_thought():
    assert told(["<th", "ink>", "hm", "</th", "ink>", "Yes", "."]) == [("thought", "<think>hm</think>"), ("answer", "Yes.")]
    assert told(["hm", "</think>", "Yes."], thinking=True) == [("thought", "hm</think>"), ("answer", "Yes.")]


def test_a_mention_that_is_no_call_ends_as_answer():
    assert told(["a < b", " and <tool", "box>"]) == [("answer", "a < b and <toolbox>")]


def test_forced_tokens_obey_max_tokens(engines, generate):
    """A grammar with one continuation forces everything at once; the limit cuts it like any other text."""
    _, pieces, finished = generate("qwen3", "the", grammar='start: "the quick brown fox jumps over the lazy dog"\n', max_tokens=3)
    assert (len(pieces), finished.generated, finished.reason) == (3, 3, "length")
    _, pieces, finished = generate("qwen3", "the", grammar='start: "the quick brown fox"\n', max_tokens=50)
    assert (finished.text, finished.reason) == ("the quick brown fox", "stop")


def test_bytes_per_token_counts_attention_layers_and_bits(engines):
    from agentkit.models.kv_cache import bytes_per_token

    def of(name, bits=None):
        return owner().call(lambda: bytes_per_token(engines[name].model, bits))

    assert of("qwen3") == 2 * 3 * 2 * 8 * 4
    assert of("hybrid") == 2 * 2 * 2 * 8 * 4, "two of four layers keep keys and values"
    assert of("qwen3", 8) < of("qwen3") / 3
