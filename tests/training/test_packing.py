"""Packing: one row of tokens per group, learnt exactly where the assistant writes."""

import json

import pytest

from agentkit.training import values
from agentkit.training.dialogues import Group, called, group, returned, said, user
from agentkit.training.packing import CALL_WEIGHT, TALK_WEIGHT, pack

WIDE = 10**9


def written(message):
    """What the model must write for an assistant message, end mark included."""
    text = message["content"]
    for call in message.get("tool_calls", []):
        f = call["function"]
        text += f'<tool_call>\n{{"name": "{f["name"]}", "arguments": {json.dumps(f["arguments"], ensure_ascii=False)}}}\n</tool_call>'
    return text + "<|im_end|>"


def learnt(packed, tokenizer):
    """Learnt text per dialogue, and its weights."""
    rows, targets, weights = packed.rows.tolist(), packed.targets.tolist(), packed.weights.tolist()
    for start, stop in packed.spans:
        inside = [i for i, row in enumerate(rows) if start <= row < stop or row == start - 1]
        yield tokenizer.decode([targets[i] for i in inside]), [weights[i] for i in inside]


@pytest.fixture(scope="module")
def groups(corpus):
    return [group(corpus, values.seed(number)) for number in range(40)]


def test_the_row_is_what_the_chat_template_renders(groups, tokenizer):
    """Prefix and dialogue together are the tokens that the engine would make of the same conversation."""
    for made in groups:
        packed = pack(tokenizer, made, limit=WIDE)
        tokens = packed.tokens.tolist()
        head = [{"role": "system", "content": made.system}] if made.system else []
        assert len(packed.spans) == len(made.dialogues)
        for (start, stop), dialogue in zip(packed.spans, made.dialogues):
            text = tokenizer.apply_chat_template(head + dialogue, tools=made.tools, tokenize=False)
            assert tokens[:packed.prefix] + tokens[start:stop] == tokenizer.encode(text.removesuffix("\n"), add_special_tokens=False)


def test_the_prefix_stands_once_and_spans_follow_one_another(groups, tokenizer):
    for made in groups:
        packed = pack(tokenizer, made, limit=WIDE)
        text = tokenizer.decode(packed.tokens.tolist())
        assert text.count("<|im_start|>system") == 1
        assert [a for a, _ in packed.spans] == [packed.prefix, *(b for _, b in packed.spans[:-1])]
        assert packed.spans[-1][1] == packed.tokens.size


def test_exactly_the_assistants_text_is_learnt(groups, tokenizer):
    for made in groups:
        packed = pack(tokenizer, made, limit=WIDE)
        for (text, _), dialogue in zip(learnt(packed, tokenizer), made.dialogues, strict=True):
            assert text == "".join(written(m) for m in dialogue if m["role"] == "assistant")


def test_a_row_predicts_the_token_behind_it(groups, tokenizer):
    for made in groups:
        packed = pack(tokenizer, made, limit=WIDE)
        tokens = packed.tokens.tolist()
        assert [tokens[row + 1] for row in packed.rows.tolist()] == packed.targets.tolist()
        assert packed.rows.size == packed.weights.size


def test_the_first_token_weighs_most_and_calls_more_than_talk(tokenizer):
    one = Group([], None, [[user("hi"), called({"name": "f", "arguments": {"x": 1}}), returned("2"), said("It is two.")]])
    [(text, weights)] = learnt(pack(tokenizer, one), tokenizer)
    first = len(tokenizer.encode(text.split("<|im_end|>")[0], add_special_tokens=False)) + 1
    assert weights[:first] == [2.0] + [CALL_WEIGHT] * (first - 1)
    assert weights[first:] == [2.0] + [TALK_WEIGHT] * (len(weights) - first - 1)


def test_the_limit_drops_whole_dialogues_and_never_all(groups, tokenizer):
    dropped = 0
    for made in groups:
        whole, cut = pack(tokenizer, made, limit=WIDE), pack(tokenizer, made, limit=600)
        assert cut.prefix == whole.prefix
        tokens, every = cut.tokens.tolist(), whole.tokens.tolist()
        kept = [every[a:b] for a, b in whole.spans]
        assert all(tokens[a:b] in kept for a, b in cut.spans)
        assert len(cut.spans) == 1 or cut.tokens.size <= 600
        dropped += len(whole.spans) - len(cut.spans)
        assert cut.spans and cut.rows.size == sum(1 for _ in cut.rows.tolist()) > 0
    assert dropped > 20


def test_a_dialogue_that_speaks_of_the_marks_is_learnt_as_text(tokenizer):
    """Thai, digits and quotes survive the way through template and tokenizer."""
    dialogue = [user("สวัสดี 😀 12"), called({"name": "f", "arguments": {"s": 'say "สวัสดี"\n😀', "n": [1, 2.5, True, None]}}), returned("ok\nดี"), said("เสร็จ 😀")]
    [(text, _)] = learnt(pack(tokenizer, Group([], "Sei kurz.", [dialogue])), tokenizer)
    assert text == written(dialogue[1]) + written(dialogue[3])
