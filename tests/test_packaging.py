"""A plain `pip install` of the project ends in a working agentkit: the wheel holds every room and the data it needs."""

import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

ROOT = Path(__file__).parent.parent


def test_every_room_is_listed():
    listed = set(tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["packages"])
    rooms = {".".join(path.parent.relative_to(ROOT).parts) for path in (ROOT / "agentkit").rglob("__init__.py")}
    assert rooms == {name for name in listed if "._data" not in name}


def test_the_wheel_holds_adapter_template_and_cases(tmp_path):
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "--wheel-dir", str(tmp_path), str(ROOT)]
    got = subprocess.run(command, capture_output=True, text=True)
    assert got.returncode == 0, got.stderr
    names = zipfile.ZipFile(next(tmp_path.glob("*.whl"))).namelist()
    for needed in ("agentkit/_data/adapters/tools.safetensors", "agentkit/_data/evals/tool_calls.jsonl",
                   "agentkit/_data/tapes/trace_10_turns.json", "agentkit/models/bundled_template.jinja",
                   "agentkit/cli/main.py"):
        assert needed in names
    adapter = ROOT / "data" / "adapters" / "tools.safetensors"
    assert adapter.stat().st_size < 12e6
