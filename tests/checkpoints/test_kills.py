"""kill -9 at random moments: no finished superstep is lost, no store becomes unreadable, nothing finished runs again."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from agentkit.checkpoints.saver import AgentkitSaver
from agentkit.checkpoints.upkeep import verify


@pytest.fixture(scope="module")
def killed(tmp_path_factory):
    folder = tmp_path_factory.mktemp("killed")
    done = subprocess.run([sys.executable, "-m", "agentkit.bench.kills", "20", str(folder)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return folder, json.loads(done.stdout.splitlines()[-1])


def test_twenty_kills_cost_nothing(killed):
    _, found = killed
    assert found["kills"] == 20 and found["supersteps"] > 20
    assert (found["lost"], found["unreadable"], found["twice"]) == (0, 0, 0)


def test_every_byte_is_good_afterwards(killed):
    folder, found = killed
    (checked,) = verify(AgentkitSaver(Path(folder) / "store"))
    assert checked.problems == () and checked.checkpoints > found["supersteps"]
