"""Programs and files outside Python that agentkit can use: how to find each, who uses it and how to install it.

Whoever needs one asks `component(name)`: its `find()` is where it is or None, its `install_command()` the remedy to
show. `agentkit doctor` prints the whole list; tests ask for one with `@pytest.mark.needs("chromium")`.
"""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from agentkit.models.blas import candidates
from agentkit.models.errors import AgentkitError, BadField

FONT_FOLDERS = ("/usr/share/fonts", "/usr/local/share/fonts", "~/.local/share/fonts", "~/.fonts",
                "/System/Library/Fonts", "/Library/Fonts", "~/Library/Fonts")


@dataclass(frozen=True)
class Component:
    """One system component.

    `finders` name the ways to find it (any will do), `version_flag` makes a found program print its version,
    `complete` says what a found one still lacks (None: nothing). `now` is False for what only later stages use.
    An empty `macos` means that macOS has it built in.
    """

    name: str
    used_by: str
    now: bool
    debian: str
    macos: str
    finders: tuple[Callable[[], str | None], ...] = field(repr=False)
    version_flag: str | None = "--version"
    complete: Callable[[str], str | None] = field(default=lambda where: None, repr=False)

    def find(self) -> str | None:
        """Path of the component if it is here and complete, else None."""
        where = self._found()
        return where if where and self.complete(where) is None else None

    def lack(self) -> str | None:
        """What is missing, in a word or two; None if the component is ready for use."""
        where = self._found()
        return self.complete(where) if where else "missing"

    def version(self) -> str | None:
        """Version the found program reports, None where there is none to be had."""
        where = self._found()
        if not where or not self.version_flag or not os.access(where, os.X_OK):
            return None
        match = re.search(r"\d+(\.\d+)+", _output(where, self.version_flag))
        return match and match[0]

    def install_command(self, platform: str = sys.platform) -> str:
        """The exact command that installs it on Debian, or on macOS for `platform` "darwin"."""
        if platform == "darwin":
            return self.macos or "part of macOS"
        return self.debian if self._by_pip() else f"apt-get install -y --no-install-recommends {self.debian}"

    def _by_pip(self) -> bool:
        return self.debian.startswith("pip ")

    def _found(self) -> str | None:
        return next((where for find in self.finders if (where := find())), None)


def _program(*names: str) -> Callable[[], str | None]:
    """Finds the first of these programs, in this environment's own folder or on the PATH."""
    def find():
        places = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
        return next((path for name in names if (path := shutil.which(name, path=places))), None)
    return find


def _font(pattern: str) -> Callable[[], str | None]:
    """Finds a font file by name in the usual folders."""
    def find():
        folders = (Path(folder).expanduser() for folder in FONT_FOLDERS)
        return next((str(path) for folder in folders if folder.is_dir() for path in folder.rglob(pattern)), None)
    return find


def _output(*command: str) -> str:
    try:
        got = subprocess.run(command, capture_output=True, text=True, timeout=20, stdin=subprocess.DEVNULL)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return got.stdout + got.stderr


def _tesseract_lacks(program: str) -> str | None:
    have = _output(program, "--list-langs").split()
    missing = [language for language in ("eng", "tha", "fas") if language not in have]
    return f"without {', '.join(missing)}" if missing else None


_MAC_APPS = ("/Applications/Chromium.app/Contents/MacOS/Chromium",
             "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome")

COMPONENTS = (
    Component("openblas", "fast matrix products for MLX on Linux", True, "pip install opencv-python",
              "", (lambda: "Accelerate" if sys.platform == "darwin" else next(iter(candidates()), None),), None),
    Component("git", "getting and updating this project", True, "git", "xcode-select --install", (_program("git"),)),
    Component("chromium", "the browser test of JupyterLab and its screenshots", True, "chromium",
              "brew install --cask google-chrome",
              (_program("chromium", "chromium-browser", "google-chrome", "google-chrome-stable"),
               lambda: next((path for path in _MAC_APPS if os.access(path, os.X_OK)), None))),
    Component("bubblewrap", "the process sandbox of bash and python_exec", False, "bubblewrap", "",
              (_program("sandbox-exec" if sys.platform == "darwin" else "bwrap"),)),
    Component("ripgrep", "the grep tool", False, "pip install ripgrep==14.1.0", "pip install ripgrep==14.1.0",
              (_program("rg"),)),
    Component("tesseract", "reading text in pictures: English, Thai, Persian", False,
              "tesseract-ocr tesseract-ocr-tha tesseract-ocr-fas", "brew install tesseract tesseract-lang",
              (_program("tesseract"),), "--version", _tesseract_lacks),
    Component("pdftotext", "reading PDF files", False, "poppler-utils", "brew install poppler",
              (_program("pdftotext"),), "-v"),
    Component("espeak-ng", "the speak tool", False, "espeak-ng", "",
              (_program("say" if sys.platform == "darwin" else "espeak-ng"),)),
    Component("fonts-noto", "Persian and other scripts in plots and pictures", False, "fonts-noto-core", "",
              (_font("NotoNaskhArabic*"), _font("GeezaPro*")), None),
    Component("fonts-thai", "Thai in plots and pictures", False, "fonts-thai-tlwg", "",
              (_font("Garuda*"), _font("NotoSansThai*"), _font("Thonburi*")), None),
)


def component(name: str) -> Component:
    """The component of this name. Raises `BadField` if the list has none."""
    for part in COMPONENTS:
        if part.name == name:
            return part
    raise BadField(f"no component {name!r}; there are {', '.join(part.name for part in COMPONENTS)}")


def missing_now() -> list[Component]:
    """What the present stage needs and this machine lacks."""
    return [part for part in COMPONENTS if part.now and part.find() is None]


def install(parts: list[Component]) -> None:
    """Install these with apt, showing its output. Raises `AgentkitError` with the commands for what it could not."""
    by_apt = [part for part in parts if not part._by_pip()]
    left = parts
    if by_apt and sys.platform == "linux" and shutil.which("apt-get") and os.geteuid() == 0:
        apt = ["apt-get", "-q", "-o", "DPkg::Lock::Timeout=300"]
        wanted = " ".join(part.debian for part in by_apt).split()
        for command in ([*apt, "update"], [*apt, "install", "-y", "--no-install-recommends", *wanted]):
            print("$", *command, file=sys.stderr, flush=True)
            subprocess.run(command, env={**os.environ, "DEBIAN_FRONTEND": "noninteractive"}, stdin=subprocess.DEVNULL,
                           stdout=sys.stderr)
        left = [part for part in parts if part.find() is None]
    if left:
        by_hand = "; ".join(f"{part.name}: {part.install_command()}" for part in left)
        raise AgentkitError(f"could not install what is missing (that takes root and apt). By hand: {by_hand}")
