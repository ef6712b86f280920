"""Compose training dialogues: one list of tools, and several independent requests to it.

A request without its tool, small talk, a failing tool, two requests at once and chains are mixed in by the shares
in `SHARES`. Names are masked at random (made-up tool and parameter names under the true descriptions), the known way
to make a small model read schemas instead of recalling names (Hammer, Lin et al. 2024).
"""

import json
import random
from dataclasses import dataclass

from agentkit.training.catalog import HOLE, STRETCH, Corpus, ToolSpec
from agentkit.training.values import Value, draw, syllables

SHARES = {"call": 0.48, "error": 0.03, "two": 0.17, "talk": 0.11, "missing": 0.21}
# A stretch names an optional value: a model that sees most of them kept learns to look for them.
STRETCH_KEPT = 0.68
NEAR_MISS = 0.6
CHAIN_SHARE = 0.5
MASK_SHARE = 0.3
HOUSE_SHARE = 0.12
BARE_SHARE = 0.05
FINISHED_SHARE = 0.4
SYSTEMS = ["You are a careful assistant. Use tools when they help.", "You are a local agent. Be brief.",
           "Answer in one or two sentences. Use a tool if it is needed.", "You are an assistant with access to tools.",
           "Help the user. Think about which tool fits, then call it.", "You work on the user's own machine."]
REFUSALS = ["None of my tools can do that.", "I have no tool for that here.", "That needs a tool I do not have.",
            "I can't do that with the tools I have.", "Sorry, none of the tools here fits that request.",
            "The tools I was given do not cover that.", "I don't have a way to do that: no tool here fits.",
            "No tool in my list can do this, so I won't guess."]
OPENERS = ["Hi, ", "Hello! ", "Hey, ", "Quick one: ", "Please help: ", "Ok, ", "Next: ", "One more thing. ", "Good morning. "]
CLOSERS = [" Thanks!", " please", " Thank you.", " It's for tomorrow.", " No rush.", " I need it now.", " :)"]
FIRST = ["First, ", "First ", "Start with this: ", "Two things. First: "]
JOINERS = [" Then ", " And ", " Also, ", " After that, ", " and then ", "; also ", " Next, ", " Once that's done, ", "\n"]


@dataclass
class Group:
    """`tools` (OpenAI schemas), `system` (None: the template's own) and dialogues that do not see each other."""

    tools: list[dict]
    system: str | None
    dialogues: list[list[dict]]


@dataclass
class Realised:
    """A tool as one group sees it: the spec under drawn names. `parameter[name]` is the name shown."""

    spec: ToolSpec
    schema: dict
    parameter: dict[str, str]

    @property
    def name(self) -> str:
        return self.schema["function"]["name"]


def realise(spec: ToolSpec, rng: random.Random, mask: bool = False) -> Realised:
    """Draw names, descriptions and schema style of a tool."""
    style = {"describe": rng.random() < 0.65, "mask": mask, "enum": rng.random() < 0.8}
    renamed: dict[str, str] = {}
    parameters = _schema(spec.parameters, rng, style, renamed)
    name = _masked(rng) if mask else rng.choice(spec.names)
    function = {"name": name, "description": rng.choice(spec.descriptions), "parameters": parameters}
    return Realised(spec, {"type": "function", "function": function}, renamed)


def _masked(rng):
    return rng.choice([syllables(rng, 2, 3), f"{syllables(rng, 1, 2)}_{syllables(rng, 1, 2)}", f"fn_{rng.randint(1, 99)}",
                       f"{syllables(rng, 1, 2)}.{syllables(rng, 1, 2)}", f"tool{rng.choice('ABCDEFXYZ')}{rng.randint(1, 9)}"])


def _schema(parameters, rng, style, renamed):
    properties, required = {}, []
    for name, p in parameters.items():
        describe = p.get("description")
        if isinstance(describe, list):
            describe = rng.choice(describe)
        shown = rng.choice(p.get("names") or [name])
        if style["mask"] and describe and rng.random() < 0.7:
            shown = rng.choice([syllables(rng, 1, 2), f"p{rng.randint(1, 9)}", f"arg_{syllables(rng, 1, 1)}"])
        while shown in properties:
            shown += "_" + syllables(rng, 1, 1)
        renamed[name] = shown
        if p.get("fields"):
            entry = _schema(p["fields"], rng, style, renamed)
        else:
            entry = {"type": p["type"]}
            if p["type"] == "array":
                entry["items"] = {"type": _item_type(p["kind"])}
            if p.get("kind") == "enum" and style["enum"]:
                entry["enum"] = list(p["enum"])
            elif p.get("kind") == "enum":
                describe = f"{describe or 'Choice'} One of: {', '.join(map(str, p['enum']))}."
        if describe and (style["describe"] or style["mask"] or p.get("kind") == "enum" and not style["enum"]):
            entry["description"] = describe
        properties[shown] = entry
        if not p.get("optional"):
            required.append(shown)
    return {"type": "object", "properties": properties, "required": required}


def _item_type(kind: str) -> str:
    inner = kind.removeprefix("list(").split("(")[0].split(",")[0]
    return {"int": "integer", "year": "integer", "number": "number", "money": "number", "percent": "number"}.get(inner, "string")


@dataclass
class Use:
    """One request and its call; `result` is the tool's text, `answer` what the assistant says then.

    `opens_with_value`: the request's first word is to be copied, so its case must stay.
    """

    request: str
    call: dict
    result: str
    answer: str
    error: tuple[str, str] | None
    opens_with_value: bool


def use(tool: Realised, rng: random.Random) -> Use:
    """Draw a request to a tool with fresh values."""
    spec = tool.spec
    drawn = {name: _draw(p, rng) for name, p in _leaves(spec.parameters)}
    flags: dict[str, bool] = {}

    def stretch(match):
        mark, inside = match.groups()
        if rng.random() >= STRETCH_KEPT:
            return ""
        if not mark:
            return inside
        head, _, text = inside.partition(":")
        flag, _, setting = head.partition("=")
        flags[flag.strip()] = setting.strip().lower() != "false"
        return text

    request = " ".join(STRETCH.sub(stretch, rng.choice(spec.requests)).split())
    asked = {name: value.said for name, value in drawn.items()}
    arguments = _arguments(spec.parameters, tool.parameter, drawn, set(HOLE.findall(request)), flags)
    drawn |= {name: draw(str(kind), rng) for name, kind in spec.values.items()}
    written = {name: _text(value.value) for name, value in drawn.items()}
    said = {name: value.said for name, value in drawn.items()}
    outcome = rng.choice(spec.outcomes)
    error = rng.choice(spec.errors) if spec.errors else None
    # Wrapped before its values stand in it: a full stop may belong to one ("Sp. z o.o.").
    request = _wrap(request, rng)
    return Use(_fill(request, asked), {"name": tool.name, "arguments": arguments},
               _fill(str(outcome["result"]), written), _fill(str(outcome["answer"]), said),
               (_fill(str(error["result"]), written), _fill(str(error["answer"]), said)) if error else None,
               request.startswith("{"))


def _leaves(parameters):
    for name, p in parameters.items():
        yield from _leaves(p["fields"]) if p.get("fields") else [(name, p)]


def _draw(p, rng) -> Value:
    if p.get("kind") == "enum":
        value = rng.choice(list(p["enum"]))
        return Value(str(p["enum"][value]), value)
    value = draw(str(p["kind"]), rng)
    if p["type"] == "integer" and isinstance(value.value, float):
        return Value(str(int(value.value)), int(value.value))
    if p["type"] == "string" and not isinstance(value.value, str):
        return Value(str(value.value) if isinstance(value.value, int) else value.said, str(value.value))
    return value


def _arguments(parameters, renamed, drawn, present, flags):
    arguments = {}
    for name, p in parameters.items():
        if p.get("fields"):
            inside = _arguments(p["fields"], renamed, drawn, present, flags)
            if inside:
                arguments[renamed[name]] = inside
        elif name in flags:
            arguments[renamed[name]] = flags[name]
        elif name in present:
            arguments[renamed[name]] = drawn[name].value
    return arguments


def _fill(text: str, holes: dict[str, str]) -> str:
    return HOLE.sub(lambda match: holes.get(match[1], match[0]), text)


def _text(value) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _wrap(request: str, rng) -> str:
    if rng.random() < 0.15:
        request = rng.choice(OPENERS) + request
    if rng.random() < 0.15:
        request = request + rng.choice(CLOSERS)
    if rng.random() < 0.1:
        request = request.rstrip(".?!")
    return request


def user(text):
    """A message of the user."""
    return {"role": "user", "content": text}


def said(text):
    """A message of the assistant without a call."""
    return {"role": "assistant", "content": text}


def called(call):
    """A message of the assistant that holds one call."""
    return {"role": "assistant", "content": "", "tool_calls": [{"function": call}]}


def returned(text):
    """A tool's result."""
    return {"role": "tool", "content": text}


def group(corpus: Corpus, rng: random.Random, dialogues: int = 8) -> Group:
    """Draw one group: 1 to 8 tools, and independent dialogues over them."""
    if corpus.talk and rng.random() < BARE_SHARE:
        return bare(corpus, rng, dialogues)
    mask = rng.random() < MASK_SHARE
    count = rng.choice([1, 1, 2, 3, 4, 4, 5, 5, 6, 6, 7, 8])
    families = rng.sample(corpus.tools, min(len(corpus.tools), count + 14))
    # Half the groups hold close neighbours: a family's tools look alike and cannot stand in for each other.
    if rng.random() < 0.5:
        family = rng.choice(corpus.tools).family
        near = [spec for spec in corpus.tools if spec.family == family]
        families = rng.sample(near, len(near)) + families
    house = [spec for spec in corpus.tools if spec.family == "house"]
    if house and rng.random() < HOUSE_SHARE:
        # The workbench's own tools, two or three of them and often nothing else.
        mask, count = False, max(2, rng.choice([2, 3, 3, 4, 6]))
        families = rng.sample(house, len(house)) + rng.sample(corpus.tools, count + 10)
    specs: list[ToolSpec] = list({spec.key: spec for spec in families}.values())
    here, absent = specs[:count], [spec for spec in specs[count:]]
    rng.shuffle(here)
    tools = [realise(spec, rng, mask) for spec in here]
    taken, kept = set(), []
    for tool in tools:
        if tool.name not in taken:
            taken.add(tool.name)
            kept.append(tool)
    tools = kept
    made: list[list[dict]] = []
    schemas = [tool.schema for tool in tools]
    if corpus.chains and rng.random() < CHAIN_SHARE:
        extra, talks = chain(rng.choice(corpus.chains), rng, mask, copies=1)
        if not taken & {schema["function"]["name"] for schema in extra}:
            schemas += extra
            rng.shuffle(schemas)
            made += talks
    while len(made) < dialogues:
        made.append(dialogue(corpus, tools, absent, rng))
    system = rng.choice(SYSTEMS) if rng.random() < 0.3 else None
    return Group(schemas, system, made)


def bare(corpus: Corpus, rng: random.Random, dialogues: int) -> Group:
    """A group without tools: talk, and small sums that are answered at once, as an assistant without tools would."""
    made = []
    while len(made) < dialogues:
        if rng.random() < 0.25:
            a, b = rng.randint(2, 60), rng.randint(2, 60)
            word, value = rng.choice([("plus", a + b), ("minus", a - b), ("times", a * b)])
            asked = rng.choice([f"What is {a} {word} {b}?", f"{a} {word} {b}?", f"How much is {a} {word} {b}?"])
            made.append([user(asked), said(f"{a} {word} {b} is {value}.")])
        else:
            entry = rng.choice(corpus.talk)
            made.append([user(rng.choice(entry["questions"])), said(rng.choice(entry["answers"]))])
    return Group([], None, made)


def dialogue(corpus: Corpus, tools: list[Realised], absent: list[ToolSpec], rng: random.Random) -> list[dict]:
    """One conversation of a kind drawn by SHARES; some start with an earlier, finished exchange."""
    messages: list[dict] = []
    if corpus.talk and rng.random() < 0.06:
        entry = rng.choice(corpus.talk)
        messages += [user(rng.choice(entry["questions"])), said(rng.choice(entry["answers"]))]
    elif rng.random() < 0.05:
        before = use(rng.choice(tools), rng)
        messages += [user(before.request), called(before.call), returned(before.result), said(before.answer)]
    shares = SHARES | ({"missing": 0.4} if len(tools) <= 2 else {})
    kind = rng.choices(list(shares), list(shares.values()))[0]
    if kind == "talk" and corpus.talk:
        entry = rng.choice(corpus.talk)
        return [*messages, user(rng.choice(entry["questions"])), said(rng.choice(entry["answers"]))]
    if kind == "missing" and absent:
        # Mostly from a shown tool's own family: what looks almost right is the refusal worth learning.
        shown, families = {tool.spec.key for tool in tools}, {tool.spec.family for tool in tools}
        near = [spec for spec in corpus.tools if spec.family in families and spec.key not in shown]
        asked = rng.choice(near if near and rng.random() < NEAR_MISS else absent)
        return [*messages, user(use(realise(asked, rng), rng).request), said(rng.choice(REFUSALS))]
    first = use(rng.choice(tools), rng)
    if kind == "two":
        second = use(rng.choice(tools), rng)
        joiner = rng.choice(JOINERS)
        kept = rng.random() < 0.5 or second.opens_with_value
        tail = second.request if kept else second.request[:1].lower() + second.request[1:]
        head = rng.choice(FIRST) + first.request[:1].lower() + first.request[1:] if rng.random() < 0.25 and not first.opens_with_value else first.request
        return [*messages, user(head + joiner + tail), called(first.call), returned(first.result),
                called(second.call), returned(second.result), said(first.answer + " " + second.answer)]
    messages += [user(first.request), called(first.call)]
    if kind == "error" and first.error:
        return [*messages, returned(first.error[0]), said(first.error[1])]
    if rng.random() < FINISHED_SHARE:
        messages += [returned(first.result), said(first.answer)]
    return messages


def chain(entry: dict, rng: random.Random, mask: bool, copies: int) -> tuple[list[dict], list[list[dict]]]:
    """The chain's tools as schemas, and `copies` dialogues in which a call needs an earlier result."""
    tools = [realise(ToolSpec("chain", call["tool"]["names"], call["tool"]["descriptions"], call["tool"].get("parameters", {})), rng, mask)
             for call in entry["calls"]]
    made = []
    for _ in range(copies):
        drawn = {name: draw(str(kind), rng) for name, kind in entry["values"].items()}
        written = {name: _text(value.value) for name, value in drawn.items()}
        spoken = {name: value.said for name, value in drawn.items()}
        messages = [user(_fill(_wrap(rng.choice(entry["requests"]), rng), spoken))]
        for call, tool in zip(entry["calls"], tools):
            arguments = {tool.parameter[name]: _argument(text, drawn) for name, text in call["arguments"].items()}
            messages += [called({"name": tool.name, "arguments": arguments}), returned(_fill(str(call["result"]), written))]
        made.append([*messages, said(_fill(rng.choice(entry["answers"]), spoken))])
    unique = {tool.name: tool.schema for tool in tools}
    return list(unique.values()), made


def _argument(text, drawn):
    """A template argument: a lone hole keeps the value's type, anything else is text or the constant itself."""
    if not isinstance(text, str):
        return text
    whole = HOLE.fullmatch(text)
    return drawn[whole[1]].value if whole else _fill(text, {name: _text(v.value) for name, v in drawn.items()})
