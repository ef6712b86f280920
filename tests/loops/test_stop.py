"""Work that may be left behind: its threads are used again, except by a call while another one still holds them."""

import os
import threading
import time
import weakref

import pytest

from agentkit.cancel import cancelled_by
from agentkit.loops.stop import GRACE, Cancelled, or_cancelled


def test_a_thread_is_used_again_and_knows_the_context_of_each_call():
    first = or_cancelled(threading.get_ident)
    assert first != threading.get_ident() and or_cancelled(threading.get_ident) == first


def test_an_error_comes_out_and_the_thread_goes_on():
    for _ in range(3):
        with pytest.raises(SystemExit):
            or_cancelled(lambda: exit(1))
    assert or_cancelled(lambda: "well") == "well"


def test_a_deaf_call_is_left_behind_and_the_next_one_does_not_wait_for_it():
    stop, free = threading.Event(), threading.Event()
    threading.Timer(0.1, stop.set).start()
    began = time.monotonic()
    with cancelled_by(stop), pytest.raises(Cancelled):
        or_cancelled(lambda: free.wait(30))
    assert time.monotonic() - began < GRACE + 2
    assert or_cancelled(lambda: "at once") == "at once" and time.monotonic() - began < GRACE + 3
    free.set()


def test_nothing_is_begun_after_the_stop():
    stop, ran = threading.Event(), []
    stop.set()
    with cancelled_by(stop), pytest.raises(Cancelled):
        or_cancelled(lambda: ran.append(1))
    assert ran == []


def test_the_thread_holds_nothing_of_the_last_call():
    class Large:
        pass

    made = or_cancelled(Large)
    kept = weakref.ref(made)
    del made
    deadline = time.monotonic() + 5
    while kept() is not None and time.monotonic() < deadline:
        time.sleep(0.01)
    assert kept() is None


def test_many_at_once_and_then_few():
    gate = threading.Barrier(20, timeout=20)
    done = []
    threads = [threading.Thread(target=lambda: done.append(or_cancelled(gate.wait))) for _ in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(done) == list(range(20))
    assert [or_cancelled(lambda n=n: n) for n in range(50)] == list(range(50))


@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_a_forked_process_has_threads_of_its_own():
    or_cancelled(lambda: None)
    if not (child := os.fork()):
        os._exit(7 if or_cancelled(lambda: "well") == "well" else 1)
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        pid, status = os.waitpid(child, os.WNOHANG)
        if pid:
            assert os.waitstatus_to_exitcode(status) == 7
            return
        time.sleep(0.02)
    os.kill(child, 9)
    os.waitpid(child, 0)
    pytest.fail("the forked process hangs")
