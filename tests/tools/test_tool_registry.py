"""The registry: every tool of every family, made for a workspace."""

import pytest
from langchain_core.utils.function_calling import convert_to_openai_tool

from agentkit.models.errors import AgentkitError
from agentkit.tools.base import ToolSpec
from agentkit.tools.registry import all_tools, default_tools, tools_for


def test_every_listed_tool_makes_a_tool_of_its_name_with_a_short_described_schema(tmp_path):
    for name, spec in all_tools().items():
        (tool,) = tools_for([name], tmp_path)
        shown = convert_to_openai_tool(tool)["function"]
        assert shown["name"] == name and spec.family and spec.touches
        assert 0 < len(shown["description"]) <= 80 and "\n" not in shown["description"]
        for field in shown["parameters"]["properties"].values():
            assert field["description"] and "anyOf" not in field


def test_tools_see_the_workspace_they_were_made_for(tmp_path):
    (tmp_path / "a.txt").write_text("here")
    (tool,) = tools_for(["read_file"], tmp_path)
    assert tool.invoke({"path": "a.txt"}) == "here"


def test_order_is_kept_and_doubles_are_dropped():
    assert [tool.name for tool in tools_for(["read_file", "calculator", "read_file"])] == ["read_file", "calculator"]
    assert [tool.name for tool in default_tools()] == ["calculator", "get_weather", "read_file"]


@pytest.mark.parametrize(
    ("names", "workspace", "said"),
    [
        (["calculator", "calc"], None, "tool 'calc' is unknown; known are .*calculator"),
        (["calculator"], "/no/such/folder", "is not a folder"),
        (["calculator"], __file__, "is not a folder"),
    ],
)
def test_bad_names_and_places_are_told(names, workspace, said):
    with pytest.raises(AgentkitError, match=said):
        tools_for(names, workspace)


def test_a_new_family_is_one_module_more(tmp_path, monkeypatch):
    """Add a package folder with a module, as a later family will, and find its tool."""
    import agentkit.tools

    (tmp_path / "echoes.py").write_text(
        "from langchain_core.tools import StructuredTool\nfrom agentkit.tools.base import ToolSpec\n"
        "def echo(text: str) -> str:\n    'Say it again.'\n    return text\n"
        "TOOLS = (ToolSpec('echo', 'test', lambda context: StructuredTool.from_function(echo), touches='nothing'),)\n"
    )
    monkeypatch.setattr(agentkit.tools, "__path__", [*agentkit.tools.__path__, str(tmp_path)])
    all_tools.cache_clear()
    try:
        assert isinstance(all_tools()["echo"], ToolSpec)
        assert tools_for(["echo"])[0].invoke({"text": "hi"}) == "hi"
    finally:
        all_tools.cache_clear()
