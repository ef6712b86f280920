"""Files of one folder: what may be read, what is refused, by the kernel's check and by the walk of other systems."""

import os
import socket
import sys
import threading
import time

import pytest

from agentkit.sandbox.files import FileRefused, open_inside, read_any, read_inside

MB = 1_000_000


@pytest.fixture(params=["kernel", "walk"])
def read(request, monkeypatch):
    """`read_inside` in both ways; the walk is what macOS uses."""
    if request.param == "kernel" and not sys.platform.startswith("linux"):
        pytest.skip("openat2 is Linux's")
    walk = request.param == "walk"
    monkeypatch.setattr("agentkit.sandbox.files.open_inside", lambda folder, path: open_inside(folder, path, walk=walk))
    return lambda folder, path, most=MB: read_inside(folder, path, most)


@pytest.fixture
def place(tmp_path):
    """A workspace with files, beside a secret that must not be reached from it."""
    (tmp_path / "secret.txt").write_text("secret")
    space = tmp_path / "space"
    (space / "deep" / "er").mkdir(parents=True)
    (space / "a.txt").write_text("a")
    (space / "deep" / "er" / "b.txt").write_text("b")
    return space


@pytest.mark.parametrize("path", ["a.txt", "./a.txt", "deep/../a.txt", "deep//er/../../a.txt"])
def test_plain_ways_to_a_file(read, place, path):
    assert read(place, path) == b"a"
    assert read(place, str(place / path)) == b"a"


def test_links_that_stay_inside_work(read, place):
    (place / "link.txt").symlink_to("deep/er/b.txt")
    (place / "deep" / "up.txt").symlink_to("../a.txt")
    (place / "folder").symlink_to("deep/er")
    assert read(place, "link.txt") == b"b"
    assert read(place, "deep/up.txt") == b"a"
    assert read(place, "folder/b.txt") == b"b"
    assert read(place, "folder/../er/b.txt") == b"b"


@pytest.mark.parametrize(
    "path",
    [
        "../secret.txt",
        "deep/../../secret.txt",
        "out/secret.txt",
        "link.txt",
        "deep/far.txt",
        "absolute.txt",
        "inner.txt",
        "hop/link.txt",
        "/etc/passwd",
        "{space}/../secret.txt",
        "{space}x/secret.txt",
        "/",
    ],
)
def test_no_way_leads_out(read, place, path):
    (place / "out").symlink_to("..")
    (place / "link.txt").symlink_to("../secret.txt")
    (place / "deep" / "far.txt").symlink_to("../../secret.txt")
    (place / "absolute.txt").symlink_to("/etc/passwd")
    (place / "inner.txt").symlink_to(place / "a.txt")  # absolute links are refused even if they point inside
    (place / "hop").symlink_to("deep/..")
    with pytest.raises(FileRefused, match="leads out of the workspace"):
        read(place, path.replace("{space}", str(place)))


def test_the_workspace_itself_may_be_reached_through_a_link(read, place, tmp_path):
    (tmp_path / "alias").symlink_to(place)
    assert read(tmp_path / "alias", "a.txt") == b"a"
    assert read(tmp_path / "alias", str(tmp_path / "alias" / "a.txt")) == b"a"
    assert read(tmp_path / "alias", str(place / "a.txt")) == b"a"


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("none.txt", "does not exist"),
        ("deep/none/b.txt", "does not exist"),
        ("a.txt/b.txt", "does not exist"),
        ("deep", "is a folder"),
        (".", "is a folder"),
        ("deep/..", "is a folder"),
        ("", "the path is empty"),
        ("  ", "the path is empty"),
        ("a\0.txt", "zero byte"),
        ("x" * 5000, "too long"),
        ("ring1", "chain of links"),
        ("pipe", "a pipe"),
        ("plug", "not a file"),
        ("\udc00\ud800", "not a file name"),
    ],
)
def test_what_cannot_be_read_is_told_in_one_line(read, place, path, said):
    (place / "ring1").symlink_to("ring2")
    (place / "ring2").symlink_to("ring1")
    os.mkfifo(place / "pipe")
    # A socket's path may have 108 bytes at most, so it is bound by its short name.
    before = os.getcwd()
    os.chdir(place)
    try:
        with socket.socket(socket.AF_UNIX) as plug:
            plug.bind("plug")
    finally:
        os.chdir(before)
    with pytest.raises(FileRefused, match=said) as caught:
        read(place, path)
    assert "\n" not in str(caught.value) and len(str(caught.value)) < 500


def test_size_is_counted_not_believed(read, place):
    (place / "big").write_bytes(b"x" * 2000)
    assert len(read(place, "big", 2000)) == 2000
    with pytest.raises(FileRefused, match="larger than 0.001999 MB"):
        read(place, "big", 1999)


@pytest.mark.skipif(not os.path.exists("/proc/self/status"), reason="needs /proc")
def test_proc_files_claim_no_size_and_magic_links_are_refused(read):
    from pathlib import Path

    assert b"VmSize" in read(Path("/proc/self"), "status")
    with pytest.raises(FileRefused):
        read(Path("/proc/self"), "root/etc/passwd")
    with pytest.raises(FileRefused):
        read(Path("/proc/self"), "exe")


def test_a_missing_workspace(read, tmp_path):
    with pytest.raises(FileRefused, match="cannot be opened: No such file"):
        read(tmp_path / "gone", "a.txt")


def test_swapping_a_folder_for_a_link_while_it_is_read_never_leads_out(read, place):
    """The race between looking at a path and opening it; checking realpath first loses it hundreds of times."""
    (place / "real").mkdir()
    (place / "real" / "secret.txt").write_text("inside")
    (place / "bad").symlink_to("..")
    stop = threading.Event()

    def swap():
        while not stop.is_set():
            for source in ("real", "bad"):
                os.rename(place / source, place / "now")
                os.rename(place / "now", place / source)

    swapper = threading.Thread(target=swap)
    swapper.start()
    seen = set()
    try:
        end = time.monotonic() + 1
        while time.monotonic() < end:
            try:
                seen.add(read(place, "now/secret.txt"))
            except FileRefused:
                seen.add(None)
    finally:
        stop.set()
        swapper.join()
    assert b"secret" not in seen
    assert b"inside" in seen and None in seen


def test_no_descriptor_is_left_open(read, place):
    (place / "link.txt").symlink_to("deep/er/../../../secret.txt")
    before = len(os.listdir("/dev/fd"))
    for path in ["a.txt", "deep/er/b.txt", "link.txt", "deep", "none", "../x"] * 20:
        try:
            read(place, path)
        except FileRefused:
            pass
    assert len(os.listdir("/dev/fd")) == before


def test_the_users_own_path_may_lie_anywhere_but_must_be_a_file(place):
    assert read_any(str(place / "deep" / ".." / "a.txt"), MB) == b"a"
    for path, said in (
        (str(place), "folder"),
        ("/dev/zero", "device"),
        (str(place / "no"), "does not exist"),
        ("a\0b", "not a file name"),
        ("~nobody-of-that-name/x", "not a file name"),
    ):
        with pytest.raises(FileRefused, match=said):
            read_any(path, MB)
