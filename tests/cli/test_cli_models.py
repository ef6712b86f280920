import json

from agentkit.cli.main import main
from agentkit.models import catalog


def test_json_tells_what_the_catalog_tells(capsys):
    assert main(["models", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [row["name"] for row in found["models"]] == [entry.name for entry in catalog.entries()]
    memory = catalog.machine_memory()
    for row, entry in zip(found["models"], catalog.entries(), strict=True):
        assert row["fits"] == catalog.fits(entry, memory) and row["on_disk"] == catalog.on_disk(entry)
    assert found["backends"] == list(catalog.BACKENDS) and found["default"] == catalog.default_name()


def test_the_table_has_a_line_for_each_model_and_names_the_backends(capsys):
    assert main(["models"]) == 0
    captured = capsys.readouterr()
    for entry in catalog.entries():
        line = next(line for line in captured.out.splitlines() if line.startswith(entry.name))
        assert all(ability in line for ability in entry.abilities) and entry.note in line
    assert all(backend in captured.out for backend in catalog.BACKENDS) and captured.err == ""
