"""`agentkit eval` from arguments to output."""

import argparse
import json

import pytest
from langchain_core.messages import AIMessage

from agentkit.cli.eval import add_parser
from agentkit.models.errors import AgentkitError, BadField


@pytest.fixture
def agentkit_eval(monkeypatch, replay):
    loaded = []

    def load_model(name, *, profile, confirm):
        loaded.append(name)
        command.profile = profile
        return replay(answer=lambda messages, tools: AIMessage("No idea."))

    monkeypatch.setattr("agentkit.models.load_model", load_model, raising=False)

    def command(*words):
        parser = argparse.ArgumentParser(prog="agentkit")
        add_parser(parser.add_subparsers(required=True))
        args = parser.parse_args(["eval", *words])
        return args.run(args)

    command.loaded = loaded
    return command


def test_table_on_stdout_and_progress_on_stderr(agentkit_eval, capsys):
    assert agentkit_eval("tools", "--kind", "none", "--limit", "3", "--model", "tiny") == 0
    out, err = capsys.readouterr()
    lines = out.splitlines()
    assert lines[0] == "tools, model tiny"
    assert lines[1].split() == ["kind", "cases", "well_formed", "right_tool", "exact"]
    assert lines[2].split() == ["none", "3", *["3", "(100.0%)"] * 3]
    assert agentkit_eval.loaded == ["tiny"]
    assert "3/3" in err and "3/3" not in out


def test_json_lists_the_failures(agentkit_eval, capsys):
    assert agentkit_eval("tools", "--kind", "single", "--limit", "2", "--json") == 0
    data = json.loads(capsys.readouterr().out)
    assert data["overall"]["exact"] == {"right": 0, "percent": 0.0}
    assert [f["kind"] for f in data["failures"]] == ["single", "single"]
    assert all(f["reason"].startswith("called nothing, expected ") for f in data["failures"])
    assert data["model"] == agentkit_eval.loaded[0]


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["tools", "--kind", "double"], "--kind is 'double'; choose one of single, none, new_tool, two_calls"),
        (["tools", "--limit", "0"], "--limit is '0'; it must be a whole number of 1 or more"),
        (["bfcl", "--limit", "many"], "--limit is 'many'"),
        (["bfcl", "--category", "rust"], "category is 'rust'; choose one of simple_python, multiple, irrelevance"),
    ],
)
def test_bad_input_is_told_before_a_model_is_loaded(agentkit_eval, words, says):
    with pytest.raises(AgentkitError) as caught:
        agentkit_eval(*words)
    assert says in str(caught.value)
    assert "\n" not in str(caught.value)
    assert agentkit_eval.loaded == []


def test_without_a_set_the_command_is_refused(agentkit_eval, capsys):
    with pytest.raises(SystemExit) as caught:
        agentkit_eval()
    assert caught.value.code == 2


def test_the_profile_reaches_the_model_and_a_bad_field_is_named(agentkit_eval):
    agentkit_eval("tools", "--limit", "1", "--profile", "constrained=false", "--profile", "seed=3")
    assert (agentkit_eval.profile.constrained, agentkit_eval.profile.seed) == (False, 3)
    agentkit_eval("tools", "--limit", "1")
    assert agentkit_eval.profile.constrained is True, "the catalog's own setting for the bundled model"
    with pytest.raises(BadField, match="temperature is '9'"):
        agentkit_eval("tools", "--profile", "temperature=9")
