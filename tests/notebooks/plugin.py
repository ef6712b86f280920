"""What nbval lacks, as a pytest plugin (`-p tests.notebooks.plugin`): kernels without a network, patience, a second try, and an end.

After a cell that raised, or was not over in time, the rest of its notebook is skipped: what follows from the first
failure would only hide it. A cell whose output differs stops nothing.

nbval gives a finished cell five seconds to hand over its output, which no option changes (nbval issue 231). With two
kernels on two busy cores that is short, and a cell that is too slow is found by `--nbval-cell-timeout` anyway.
"""

from pathlib import Path

import nbval.kernel
import pytest
from nbval.plugin import IPyNbCell, NbCellError, nocolors

OUTPUT_SECONDS = 30
# Handed to a kernel as text: its folder is the notebook's, from where it cannot import the tests.
OFFLINE = f"exec({Path(__file__).with_name('offline.py').read_text(encoding='utf-8')!r}, {{}})"
_guarded = pytest.StashKey[bool]()
_ended = pytest.StashKey[str]()


def _start(*args, start=nbval.kernel.start_new_kernel, **options):
    # Jupyter looks for free ports and lets them go before the kernel takes them: where much starts at once, another
    # program may be quicker, and the kernel dies at birth.
    try:
        return start(*args, **options)
    except RuntimeError:
        return start(*args, **options)


nbval.kernel.start_new_kernel = _start


def pytest_itemcollected(item):
    """Every cell of a notebook gets more time for its output; its report is plain text, as it may go into a file."""
    if isinstance(item, IPyNbCell):
        item.output_timeout, item.colors = OUTPUT_SECONDS, nocolors


@pytest.hookimpl(trylast=True)
def pytest_runtest_setup(item):
    """Before a notebook's first cell, once its kernel runs: take the network away. Behind the end: skip."""
    if not isinstance(item, IPyNbCell):
        return
    if ended := item.parent.stash.get(_ended, None):
        pytest.skip(ended)
    if not item.parent.stash.get(_guarded, False):
        kernel = item.parent.kernel
        kernel.await_reply(kernel.kc.execute(OFFLINE, silent=True, store_history=False), timeout=OUTPUT_SECONDS)
        item.parent.stash[_guarded] = True


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_makereport(item, call):
    """Note the cell that ended its notebook."""
    if isinstance(item, IPyNbCell) and call.when == "call" and call.excinfo and not _only_differs(call.excinfo.value):
        item.parent.stash[_ended] = f"the notebook ended in {item.name}"


def _only_differs(error: BaseException) -> bool:
    """Whether the cell ran to its end, and only its output is another than the stored one."""
    return isinstance(error, NbCellError) and str(error) == "Cell outputs differ" or isinstance(error, pytest.skip.Exception)
