"""Execute lessons in place, so that all stored outputs have one origin: `python -m tests.notebooks.execute [PATH ...]`.

Without paths: every lesson and every solution. A notebook is written only if all its cells ran.
"""

import sys
from pathlib import Path

import nbformat
from nbclient import NotebookClient

ROOT = Path(__file__).parents[2]
KEPT = {"kernelspec": {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"},
        "language_info": {"name": "python"}}


def lessons() -> list[Path]:
    """Every lesson and solution, in order."""
    found = sorted((ROOT / "notebooks").rglob("*.ipynb"))
    return [path for path in found if ".ipynb_checkpoints" not in path.parts]


def execute(path: Path, timeout: int = 300) -> None:
    """Run a notebook in its own folder and write it back without what differs from run to run (times, widget ids)."""
    book = nbformat.read(path, as_version=4)
    client = NotebookClient(book, timeout=timeout, kernel_name="python3", store_widget_state=False,
                            resources={"metadata": {"path": str(path.parent)}})
    client.execute()
    book.metadata = nbformat.from_dict(KEPT)
    for number, cell in enumerate(book.cells):
        cell["id"] = f"c{number:02d}"
        cell.metadata.pop("execution", None)
        for output in cell.get("outputs", []):
            if view := output.get("data", {}).get("application/vnd.jupyter.widget-view+json"):
                view["model_id"] = f"{number:032x}"
    nbformat.validate(book)
    nbformat.write(book, path)


if __name__ == "__main__":
    chosen = [Path(name).resolve() for name in sys.argv[1:]] or lessons()
    for place, path in enumerate(chosen, 1):
        print(f"[{place}/{len(chosen)}] {path.relative_to(ROOT)}", flush=True)
        execute(path)
