"""Read the fine-tuning set's YAML and say exactly what is wrong with it."""

import re
from dataclasses import dataclass, field
from pathlib import Path

import yaml

from agentkit.training import values

HOLE = re.compile(r"\{([A-Za-z_]\w*)\}")
STRETCH = re.compile(r"\[(!?)([^\[\]]*)\]")
TYPES = {"string", "integer", "number", "boolean", "array", "object"}


@dataclass
class ToolSpec:
    """One tool of the set: alternatives to draw from, and what a use of it looks like."""

    family: str
    names: list[str]
    descriptions: list[str]
    parameters: dict[str, dict]
    requests: list[str] = field(default_factory=list)
    values: dict[str, str] = field(default_factory=dict)
    outcomes: list[dict] = field(default_factory=list)
    errors: list[dict] = field(default_factory=list)

    @property
    def key(self) -> str:
        return f"{self.family}.{self.names[0]}"


@dataclass
class Corpus:
    """Everything the generator draws from; `problems` are lines a writer can act on."""

    tools: list[ToolSpec]
    chains: list[dict]
    talk: list[dict]
    problems: list[str]


def load(folder: Path) -> Corpus:
    """Read `tools/*.yaml`, `chains.yaml` and `talk.yaml` below `folder`; faulty entries are left out and named."""
    problems, tools = [], []
    for path in sorted((folder / "tools").glob("*.yaml")):
        raw = _read(path, problems) or {}
        if not isinstance(raw, dict):
            problems.append(f"{path.name}: needs `family` and `tools`")
            continue
        for entry in raw.get("tools", []):
            try:
                spec = ToolSpec(raw["family"], **entry)
                found = check_tool(spec)
            except (TypeError, KeyError, AttributeError) as error:
                problems.append(f"{path.name}: {entry.get('names') if isinstance(entry, dict) else entry}: {error!r}")
                continue
            problems += [f"{path.name}: {spec.names[0]}: {line}" for line in found]
            if not found:
                tools.append(spec)
    chains = []
    for number, chain in enumerate(_read(folder / "chains.yaml", problems) or []):
        try:
            found = check_chain(chain)
        except (TypeError, KeyError, AttributeError) as error:
            found = [f"{error!r}"]
        problems += [f"chains.yaml: {number}: {line}" for line in found]
        if not found:
            chains.append(chain)
    talk = []
    for number, entry in enumerate(_read(folder / "talk.yaml", problems) or []):
        if isinstance(entry, dict) and entry.get("questions") and entry.get("answers"):
            talk.append(entry)
        else:
            problems.append(f"talk.yaml: {number}: needs questions and answers")
    return Corpus(tools, chains, talk, problems)


def _read(path: Path, problems: list[str]):
    if not path.is_file():
        return None
    try:
        return yaml.safe_load(path.read_text())
    except yaml.YAMLError as error:
        problems.append(f"{path.name}: {' '.join(str(error).split())}")
        return None


def check_tool(spec: ToolSpec) -> list[str]:
    """Problems of one tool, in words; empty if it can be drawn."""
    lines = check_parameters(spec.parameters)
    leaves = leaf_names(spec.parameters)
    for request in spec.requests:
        fixed = STRETCH.sub("", request)
        for name, parameter in spec.parameters.items():
            needed = leaf_names({name: parameter}, required_only=True)
            if not parameter.get("optional") and any(f"{{{leaf}}}" not in fixed for leaf in needed):
                lines.append(f"request {request!r} does not name the required {name}")
        for hole in HOLE.findall(request):
            if hole not in leaves:
                lines.append(f"request {request!r} names the unknown {hole}")
        for mark, inside in STRETCH.findall(request):
            flag = inside.split(":")[0].split("=")[0].strip()
            if mark and flag not in leaves:
                lines.append(f"request {request!r} sets the unknown flag {flag!r}")
    for outcome in [*spec.outcomes, *spec.errors]:
        for hole in HOLE.findall(str(outcome.get("result", "")) + str(outcome.get("answer", ""))):
            if hole not in leaves and hole not in spec.values:
                lines.append(f"outcome names the unknown {hole}")
    lines += check_kinds(spec.values)
    if len(spec.requests) < 3 or not spec.outcomes:
        lines.append("needs at least 3 requests and 1 outcome")
    return lines


def check_parameters(parameters: dict) -> list[str]:
    """Problems of a parameter table: types, kinds, enums."""
    lines = []
    for name, p in parameters.items():
        if p.get("type") not in TYPES:
            lines.append(f"{name}: type {p.get('type')!r} is not one of {sorted(TYPES)}")
        if p.get("kind") == "enum":
            if not isinstance(p.get("enum"), dict):
                lines.append(f"{name}: kind enum needs `enum: {{value: words}}`")
        elif p.get("kind") == "object" or p.get("type") == "object":
            lines += check_parameters(p.get("fields") or {}) if p.get("fields") else [f"{name}: an object needs `fields`"]
        else:
            lines += check_kinds({name: p.get("kind", "")})
    return lines


def check_kinds(kinds: dict[str, str]) -> list[str]:
    """Problems of a table name -> kind."""
    lines = []
    for name, kind in kinds.items():
        try:
            values.draw(str(kind), values.seed(1))
        except (ValueError, TypeError, IndexError) as error:
            lines.append(f"{name}: {error}")
    return lines


def check_chain(chain: dict) -> list[str]:
    """Problems of one chain: every hole must be one of its values."""
    lines = check_kinds(chain.get("values", {}))
    text = str(chain.get("requests", "")) + str(chain.get("answers", ""))
    for call in chain.get("calls", []):
        text += str(call.get("result", "")) + str(call.get("arguments", ""))
        if not isinstance(call.get("tool"), dict):
            return [*lines, "a call's `tool` must be given inline"]
        unknown = set(call["arguments"]) - set(call["tool"].get("parameters", {}))
        if unknown:
            lines.append(f"arguments {sorted(unknown)} are no parameters of {call['tool']['names'][0]}")
    lines += [f"the unknown {hole}" for hole in set(HOLE.findall(text)) - set(chain.get("values", {}))]
    if len(chain.get("requests", [])) < 3 or not chain.get("answers") or len(chain.get("calls", [])) < 2:
        lines.append("needs 3 requests, an answer and 2 calls")
    return lines


def leaf_names(parameters: dict, required_only: bool = False) -> list[str]:
    """Names that a request may hold: parameters, and the fields of objects in place of the objects."""
    names = []
    for name, p in parameters.items():
        if required_only and p.get("optional"):
            continue
        names += leaf_names(p["fields"], required_only) if p.get("fields") else [name]
    return names
