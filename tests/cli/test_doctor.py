"""`agentkit doctor` on this machine, and the components it lists."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from agentkit import components
from agentkit.cli.main import main
from agentkit.components import COMPONENTS, component


def doctor(*words, **environment):
    command = [sys.executable, "-m", "agentkit.cli.main", "doctor", *words]
    return subprocess.run(command, capture_output=True, text=True, env={**os.environ, **environment}, timeout=120)


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    done = doctor("--json", AGENTKIT_CACHE=str(tmp_path_factory.mktemp("cache")))
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_json_tells_what_is_here(found):
    assert found["python"]["version"] == sys.version.split()[0]
    assert all(found["packages"].values()) and found["torch"] is False
    assert found["blas"]["fast"] and found["blas"]["gflops"] > 0
    assert Path(found["bundled"]["weights"]).is_file() and found["bundled"]["converted"] is None
    needed = {row["name"]: row["needed"] for row in found["components"]}
    assert needed == {part.name: "now" if part.now else "later" for part in COMPONENTS}


def test_looking_makes_nothing(tmp_path):
    doctor("--json", AGENTKIT_CACHE=str(tmp_path / "cache"))
    assert not (tmp_path / "cache").exists()


def test_text_gives_every_install_command_on_one_line(capsys):
    assert main(["doctor"]) == 0
    lines = capsys.readouterr().out.splitlines()
    for part in COMPONENTS:
        assert any(part.name in line and line.endswith(part.install_command()) for line in lines)


def test_every_component_says_who_uses_it_and_how_to_get_it():
    for part in COMPONENTS:
        assert part.used_by
        linux, macos = part.install_command("linux"), part.install_command("darwin")
        assert linux.startswith(("apt-get install -y --no-install-recommends ", "pip install "))
        assert macos.startswith(("brew install ", "pip install ", "xcode-select ", "part of macOS"))


def test_unknown_component_names_the_known_ones():
    with pytest.raises(components.BadField, match="no component 'chrome'; there are .*chromium"):
        component("chrome")


def program(folder, name, script):
    path = folder / name
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return path


@pytest.mark.skipif(sys.platform != "linux", reason="on macOS these programs go by other names or are built in")
class TestDetection:
    def lookup(self, name, folder):
        code = f"from agentkit import components as c; p = c.component({name!r}); print([p.find(), p.lack(), p.version()])"
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True,
                              env={**os.environ, "PATH": str(folder)})
        return done.stdout.strip()

    def test_version_from_stderr(self, tmp_path):
        path = program(tmp_path, "pdftotext", "echo pdftotext version 22.12.0 >&2; exit 99")
        assert self.lookup("pdftotext", tmp_path) == str([str(path), None, "22.12.0"])

    def test_missing(self, tmp_path):
        assert self.lookup("bubblewrap", tmp_path) == "[None, 'missing', None]"

    def test_program_that_cannot_start_has_no_version(self, tmp_path):
        path = tmp_path / "bwrap"
        path.write_bytes(b"\x00\x01\x02")
        path.chmod(0o755)
        assert self.lookup("bubblewrap", tmp_path) == str([str(path), None, None])

    def test_tesseract_without_a_language_is_not_ready(self, tmp_path):
        program(tmp_path, "tesseract", 'case "$1" in --list-langs) echo eng; echo fas;; *) echo tesseract 5.3.0;; esac')
        assert self.lookup("tesseract", tmp_path) == "[None, 'without tha', '5.3.0']"


@pytest.mark.skipif(sys.platform != "linux", reason="apt is Debian's")
def test_install_that_cannot_help_ends_with_the_commands(tmp_path):
    done = doctor("--install", PATH=str(tmp_path))
    assert done.returncode == 2 and "Traceback" not in done.stderr
    assert "chromium: apt-get install -y --no-install-recommends chromium" in done.stderr


@pytest.mark.skipif(sys.platform != "linux" or os.geteuid() != 0, reason="asks apt for packages, which takes root")
def test_install_hands_apt_the_missing_packages(tmp_path):
    make = f'for p in git chromium; do echo "#!/bin/sh" > {tmp_path}/$p; /bin/chmod +x {tmp_path}/$p; done'
    program(tmp_path, "apt-get", f'echo "$DEBIAN_FRONTEND $@" >> {tmp_path}/log; case "$*" in *install*) {make};; esac')
    done = doctor("--install", PATH=str(tmp_path))
    assert done.returncode == 0, done.stderr
    update, install = (tmp_path / "log").read_text().splitlines()
    assert update.startswith("noninteractive") and update.endswith(" update")
    assert install.endswith("install -y --no-install-recommends git chromium")
    assert (tmp_path / "log").read_text().count("\n") == 2
