"""Turn a group of dialogues into one row of tokens, rendered by the model's own chat template."""

import re

import mlx.core as mx
import numpy as np

from agentkit.training.dialogues import Group
from agentkit.training.lora import Packed

_ASSISTANT = re.compile(r"(<\|im_start\|>assistant\n)(.*?<\|im_end\|>)\n", re.S)
CALL_WEIGHT, TALK_WEIGHT = 1.0, 0.5


def pack(tokenizer, group: Group, limit: int = 1600) -> Packed:
    """Tokens of a group, at most `limit`: the last dialogues are dropped where it would be longer."""
    head = [{"role": "system", "content": group.system}] if group.system else []
    tokens: list[int] = []
    spans, rows, targets, weights = [], [], [], []
    for dialogue in group.dialogues:
        text = tokenizer.apply_chat_template(head + dialogue, tools=group.tools, tokenize=False)
        cut = text.index("<|im_end|>\n") + len("<|im_end|>\n")
        if not tokens:
            tokens += _encode(tokenizer, text[:cut])
            prefix = len(tokens)
        row, learnt = _dialogue(tokenizer, text[cut:])
        if len(tokens) + len(row) > limit and spans:
            continue
        start = len(tokens)
        tokens += row
        spans.append((start, len(tokens)))
        for at, weight in learnt:
            rows.append(start + at - 1)
            targets.append(row[at])
            weights.append(weight)
    return Packed(mx.array(tokens), prefix, spans, mx.array(rows), mx.array(targets), mx.array(np.array(weights, np.float32)))


def _encode(tokenizer, text):
    return tokenizer.encode(text, add_special_tokens=False)


def _dialogue(tokenizer, text: str) -> tuple[list[int], list[tuple[int, float]]]:
    """Token ids of one dialogue and (index, weight) of those the assistant writes, its end mark among them."""
    row, learnt, at = [], [], 0
    for match in _ASSISTANT.finditer(text):
        row += _encode(tokenizer, text[at:match.end(1)])
        answer = _encode(tokenizer, match[2])
        # What decides is the first token (call or talk) and the call; a spoken answer's exact words matter less.
        weight = CALL_WEIGHT if match[2].startswith("<tool_call>") else TALK_WEIGHT
        learnt += [(len(row) + i, 2.0 if i == 0 else weight) for i in range(len(answer))]
        row += answer
        at = match.end(2)
    return row, learnt
