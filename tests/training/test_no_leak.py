"""What is measured is not trained on: no wording of the held-out cases, or of the benchmark, is in the fine-tuning set."""

import importlib.util
import json
import re
from pathlib import Path

import pytest

from agentkit.evals.tool_calls import load_cases
from agentkit.training.catalog import HOLE, STRETCH

CASES = load_cases()


def words(text):
    return re.findall(r"\w+", text.lower())


def grams(text, size):
    """Runs of `size` words; none crosses a placeholder, which stands for other words each time."""
    found = set()
    for part in HOLE.split(text)[::2]:
        said = words(part)
        found |= {tuple(said[i:i + size]) for i in range(len(said) - size + 1)}
    return found


def readings(template):
    """A request with its optional stretches left out, and with them said."""
    def inside(match):
        return match[2].partition(":")[2] if match[1] else match[2]

    return {STRETCH.sub("", template), STRETCH.sub(inside, template)}


def specs(corpus):
    """(names, descriptions) of every tool of the set, those of chains too."""
    for tool in corpus.tools:
        yield tool.names, tool.descriptions, tool.parameters
    for entry in corpus.chains:
        for call in entry["calls"]:
            yield call["tool"]["names"], call["tool"]["descriptions"], call["tool"].get("parameters", {})


@pytest.fixture(scope="module")
def asked(corpus):
    """All wordings of requests and questions that training draws from."""
    templates = [request for tool in corpus.tools for request in tool.requests]
    templates += [request for entry in corpus.chains for request in entry["requests"]]
    templates += [question for entry in corpus.talk for question in entry["questions"]]
    return sorted({reading for template in templates for reading in readings(template)})


def overlaps(texts, asked, size):
    """Pairs (held-out text, training wording) that share a run of `size` words."""
    index = {}
    for wording in asked:
        for gram in grams(wording, size):
            index.setdefault(gram, wording)
    return sorted({(text, index[gram]) for text in texts for gram in grams(text, size) if gram in index})


def test_the_comparison_finds_what_it_should():
    asked = [*readings("please tell me what {x} costs[ in the small shop at the corner of {y}]"), "how are you"]
    assert overlaps(["Now, in the small SHOP, at the corner of Rome!"], asked, 6)
    assert not overlaps(["please tell me what milk costs"], asked, 6)
    assert grams("a b {x} c", 3) == set()


def test_no_request_shares_six_words_with_training(asked):
    assert overlaps([case.request for case in CASES], asked, 6) == []


def fits(wording):
    """A pattern of the whole wording, a placeholder being one to eight words; None if it says too little to be told apart."""
    parts = [" ".join(words(part)) for part in HOLE.split(wording)[::2]]
    if sum(len(part.split()) for part in parts) < 4:
        return None
    value = r"\S+(?: \S+){0,7}"
    pattern = "".join(f"{part} {value} " if part else f"{value} " for part in parts[:-1]) + parts[-1]
    return re.compile(pattern.strip())


def test_no_request_is_a_training_request_with_values_filled_in(asked):
    """Templates of few words share no six in a row; whole requests must not fit one either."""
    patterns = [(pattern, wording) for wording in asked if (pattern := fits(wording))]
    assert len(patterns) > 1000
    found = [(case.request, wording) for case in CASES for pattern, wording in patterns if pattern.fullmatch(" ".join(words(case.request)))]
    assert found == []


def test_the_patterns_fit_what_they_should():
    assert fits("send an sms to {number} saying \"{text}\"").fullmatch("send an sms to 4477 saying i am late")
    assert not fits("is there a {category} in {place}").fullmatch("is there any mail in rome")
    assert fits("how much is {sum}") is None


def test_no_question_is_a_training_question(asked):
    known = {" ".join(words(wording)) for wording in asked if not HOLE.search(wording)}
    assert len(known) > 500
    assert [case.request for case in CASES if " ".join(words(case.request)) in known] == []


def test_no_tool_description_is_equal(corpus):
    trained = {" ".join(words(text)) for _, descriptions, _ in specs(corpus) for text in descriptions}
    shown = {" ".join(words(tool["function"]["description"])): tool["function"]["name"] for case in CASES for tool in case.tools}
    assert {text: name for text, name in shown.items() if text in trained} == {}


def test_the_new_tools_have_names_that_training_never_shows(corpus):
    """Neither in the same spelling nor in another."""
    def bare(name):
        return re.sub(r"[^a-z0-9]", "", name.lower())

    trained = {bare(name) for names, _, _ in specs(corpus) for name in names}
    new = {expected.name for case in CASES if case.kind == "new_tool" for expected in case.expect}
    assert len(new) >= 30
    assert [name for name in new if bare(name) in trained] == []


def test_no_tool_is_a_training_tool_under_its_name(corpus):
    """A name of the set with the same parameters would be a schema that training has seen.

    The workbench's own tools are trained under their own names; where a case offers one, its words differ.
    """
    house = {name for tool in corpus.tools if tool.family == "house" for name in tool.names}
    trained = {(name, frozenset(parameters)) for names, _, parameters in specs(corpus) for name in names}
    shown = {(tool["function"]["name"], frozenset(tool["function"]["parameters"]["properties"])) for case in CASES for tool in case.tools}
    assert sorted(name for name, parameters in shown & trained if name not in house) == []


@pytest.fixture(scope="module")
def benchmark():
    """Entries of every file of questions that bfcl-eval carries."""
    spec = importlib.util.find_spec("bfcl_eval")
    if spec is None:
        pytest.skip("bfcl-eval is not installed: pip install --no-deps bfcl-eval")
    files = sorted((Path(spec.origin).parent / "data").glob("BFCL_v4_*.json"))
    lines = [line for file in files for line in file.read_text(encoding="utf-8").splitlines()]
    return [json.loads(line) for line in lines if line.startswith('{"id"')]


def contents(node):
    """Every text a user says in an entry, however its turns are nested."""
    if isinstance(node, dict):
        return [node["content"]] if node.get("role") == "user" and isinstance(node.get("content"), str) else []
    return [text for part in node for text in contents(part)] if isinstance(node, list) else []


def test_no_question_of_the_benchmark_shares_eight_words_with_training(asked, benchmark):
    texts = [text for entry in benchmark for text in contents(entry.get("question", []))]
    assert len(texts) > 2000
    assert overlaps(texts, asked, 8) == []


def test_no_function_description_of_the_benchmark_is_trained_on(corpus, benchmark):
    functions = [f for entry in benchmark for f in entry.get("function", []) if isinstance(f, dict)]
    described = {" ".join(words(f["description"])) for f in functions}
    assert len(described) > 500
    trained = {" ".join(words(text)): names[0] for names, descriptions, _ in specs(corpus) for text in descriptions}
    assert {text: name for text, name in trained.items() if text in described and len(text.split()) > 4} == {}
