"""Every store keeps the same promises: written once, replaced only if unchanged, durable, private, damage noticed."""

import os
import stat
import threading

import pytest

from agentkit.checkpoints.envelope import blob_name, check_blob, pack, unpack
from agentkit.checkpoints.errors import SchemaNewer, StoreDamaged, StoreRefused, StoreUnavailable, ThreadBusy
from agentkit.checkpoints.stores import UNCHANGED, Changed, open_store
from agentkit.checkpoints.stores.base import key_of
from agentkit.checkpoints.stores.lease import LeaseCancelled, ObjectLease
from agentkit.checkpoints.stores.memory import MemoryStore
from agentkit.models.errors import BadField

KEY = key_of("a thread")


def _head(text="x", revision=1, size=0):
    return pack("head", text.encode() + b"." * size, thread="t", revision=revision)


def test_a_head_is_replaced_only_if_unchanged(store):
    assert store.read_head(KEY) is None
    first = store.put_head(KEY, _head("1"), None)
    with pytest.raises(Changed):
        store.put_head(KEY, _head("again"), None)
    second = store.put_head(KEY, _head("2", 2), first)
    with pytest.raises(Changed):
        store.put_head(KEY, _head("late", 2), first)
    assert store.read_head(KEY, second) is UNCHANGED
    assert unpack(store.read_head(KEY, first).data, "head", kind="head", thread="t").body == b"2"
    assert list(store.keys()) == [KEY]
    store.delete(KEY)
    assert store.read_head(KEY) is None and list(store.keys()) == []
    with pytest.raises(Changed):
        store.put_head(KEY, _head("from before the deletion", 3), second)


def test_blobs_are_written_once_and_go_with_their_thread(store):
    data = pack("value", b"v" * 9000, thread="t")
    name = blob_name(data)
    assert store.get_blob(KEY, name) is None
    store.put_blob(KEY, name, data)
    store.put_blob(KEY, name, b"something else")
    assert check_blob(store.get_blob(KEY, name), name, "blob") == data
    assert store.blobs(KEY) == [name]
    store.delete_blob(KEY, name)
    store.delete_blob(KEY, name)
    assert store.blobs(KEY) == []


def test_a_counter_under_racing_writers_loses_nothing(store):
    def count():
        for _ in range(8):
            while True:
                head = store.read_head(KEY)
                number = int(unpack(head.data, "h", kind="head", thread="t").body) if head else 0
                try:
                    store.put_head(KEY, _head(str(number + 1)), head.tag if head else None)
                    break
                except Changed:
                    continue

    writers = [threading.Thread(target=count) for _ in range(4)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    assert unpack(store.read_head(KEY).data, "h", kind="head", thread="t").body == b"32"


def test_heads_of_many_sizes_survive_a_reopening(store, place):
    tag = None
    for revision, size in enumerate((10, 5000, 4000, 200_000, 30, 90_000), 1):
        tag = store.put_head(KEY, _head("n", revision, size), tag)
        again = store if place[0] == "memory:" else open_store(place[0], **place[1])
        assert len(unpack(again.read_head(KEY).data, "h", kind="head", thread="t").body) == size + 1


def test_a_lease_lets_one_writer_pass(store):
    inside, most, never = [], [], threading.Event()

    def turn():
        with store.lease(KEY, never, 60):
            inside.append(1)
            most.append(len(inside))
            inside.pop()

    workers = [threading.Thread(target=turn) for _ in range(5)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert most == [1] * 5
    with store.lease(KEY, never, 60):
        with pytest.raises(ThreadBusy, match="another writer has held it"), store.lease(KEY, never, 0.05):
            pass
        stop = threading.Event()
        stop.set()
        with pytest.raises(LeaseCancelled), store.lease(KEY, stop, 60):
            pass


def test_a_lease_on_a_bucket_passes_on_when_its_holder_has_died():
    store = MemoryStore()
    dead = ObjectLease(store, KEY, term=0.2)
    assert dead._take()  # and never renews it
    with ObjectLease(store, KEY, term=0.2).held(threading.Event(), 30):
        with pytest.raises(Changed):
            store.put_head(KEY, dead._text("dead"), dead._tag)


class _LastWriterWins(MemoryStore):
    """A store as S3 was for years: conditions are ignored."""

    name = "the old bucket"

    def put_head(self, key, data, tag):
        head = self._heads.get(key)
        return super().put_head(key, data, head.tag if head else None)


def test_a_store_without_conditional_writes_is_refused_by_probing():
    with pytest.raises(StoreRefused, match="the old bucket accepted a second creation: it has no conditional writes"):
        _LastWriterWins().check()


def test_a_bucket_that_cannot_compare_is_refused_at_start(tmp_path):
    """obstore's own LocalStore creates conditionally, but cannot update so."""
    from obstore.store import LocalStore

    from agentkit.checkpoints.stores.objects import ObjectStore

    with pytest.raises(StoreRefused, match="conditional writes"):
        ObjectStore(LocalStore(str(tmp_path)))


def test_every_kind_passes_its_own_probe(store):
    store.check()
    assert list(store.keys()) == []


def test_addresses_of_no_kind_and_places_that_cannot_be(tmp_path):
    with pytest.raises(BadField, match="'ftp' is no known kind"):
        open_store("ftp://there/x")
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreUnavailable, match="cannot be kept in"):
        open_store(tmp_path / "file" / "below")
    with pytest.raises(StoreUnavailable, match="cannot be kept in"):
        open_store(f"sqlite:{tmp_path / 'file' / 'x'}")


@pytest.mark.parametrize("kind", ["local", "sqlite"])
def test_files_are_private(kind, tmp_path):
    before = os.umask(0)
    try:
        store = open_store({"local": tmp_path / "s", "sqlite": f"sqlite:{tmp_path / 's' / 'x.sqlite'}"}[kind])
        store.put_blob(KEY, "ab", b"data")
        store.put_head(KEY, _head(), None)
        with store.lease(KEY, threading.Event(), 1):
            pass
    finally:
        os.umask(before)
    files = [path for path in (tmp_path / "s").rglob("*") if path.is_file()]
    assert len(files) >= 3
    assert {stat.S_IMODE(path.stat().st_mode) for path in files} == {0o600}


# What can happen to a stored object.
DAMAGE = {
    "truncated": lambda data: data[:-7],
    "emptied": lambda data: b"",
    "flipped early": lambda data: data[:3] + bytes([data[3] ^ 2]) + data[4:],
    "flipped in the stamp": lambda data: data[:7] + bytes([data[7] ^ 2]) + data[8:],
    "flipped in the length": lambda data: data[:10] + bytes([data[10] ^ 8]) + data[11:],
    "flipped late": lambda data: data[:150] + bytes([data[150] ^ 1]) + data[151:],
    "missing": lambda data: None,
}


def _damage(path, how):
    data = DAMAGE[how](path.read_bytes())
    path.unlink() if data is None else path.write_bytes(data)


def _checked(store):
    return unpack(store.read_head(KEY).data, "the head of t", kind="head", thread="t").body


@pytest.mark.parametrize("how", DAMAGE)
def test_a_damaged_slot_is_never_passed_over_in_silence(how, tmp_path):
    store = open_store(tmp_path)
    tag = store.put_head(KEY, _head("1", 1, 5000), None)
    tag = store.put_head(KEY, _head("2", 2, 5000), tag)
    store.put_head(KEY, _head("3", 3, 5000), tag)
    _damage(tmp_path / KEY / "head.0", "truncated" if how == "truncated" else how)
    if how == "truncated":  # the slot has room behind its data: cut into the data itself
        path = tmp_path / KEY / "head.0"
        path.write_bytes(path.read_bytes()[:5000])
    with pytest.raises(StoreDamaged):
        _checked(store)


def test_a_write_that_a_crash_cut_off_leaves_the_last_revision(tmp_path):
    store = open_store(tmp_path)
    tag = store.put_head(KEY, _head("1", 1, 9000), None)
    store.put_head(KEY, _head("2", 2, 9000), tag)
    newest = (tmp_path / KEY / "head.1").read_bytes()
    older = (tmp_path / KEY / "head.0").read_bytes()
    third = open_store(tmp_path / "other")
    tag = third.put_head(KEY, _head("1", 1, 9000), None)
    tag = third.put_head(KEY, _head("2", 2, 9000), tag)
    third.put_head(KEY, _head("3", 3, 9000), tag)
    whole = (tmp_path / "other" / KEY / "head.0").read_bytes()
    for cut in range(0, 3 * 4096, 4096):
        for mixed in (whole[:cut] + older[cut:], older[:cut] + whole[cut:]):
            (tmp_path / KEY / "head.0").write_bytes(mixed)
            assert _checked(store)[:1] in (b"2", b"3" if mixed == whole else b"2")
    assert (tmp_path / KEY / "head.1").read_bytes() == newest


@pytest.mark.parametrize("how", [how for how in DAMAGE if "stamp" not in how and "length" not in how])
def test_a_damaged_blob_is_named(how):
    data = pack("segment", b"b" * 400, thread="t")
    with pytest.raises(StoreDamaged, match="segment 1 of thread 't' is damaged"):
        check_blob(DAMAGE[how](data), blob_name(data), "segment 1 of thread 't'")
    with pytest.raises(StoreDamaged):
        unpack(DAMAGE[how](data), "it", kind="segment", thread="t")


def test_swapped_objects_are_told_by_name_and_kind():
    other = pack("head", b"b", thread="other")
    with pytest.raises(StoreDamaged, match="it is the head of thread 'other', not the head of 't' .swapped."):
        unpack(other, "the head of 't'", kind="head", thread="t")
    with pytest.raises(StoreDamaged, match="not those it was written with"):
        check_blob(other, blob_name(_head()), "blob")


def test_a_later_format_is_refused(monkeypatch):
    monkeypatch.setattr("agentkit.checkpoints.envelope.FORMAT", 2)
    data = _head()
    monkeypatch.undo()
    with pytest.raises(SchemaNewer, match="format 2, this agentkit reads up to 1: update agentkit"):
        unpack(data, "the head", kind="head", thread="t")


def test_read_only_folder_and_full_disk_leave_the_last_revision(tmp_path, monkeypatch):
    store = open_store(tmp_path)
    tag = store.put_head(KEY, _head("1"), None)
    tag = store.put_head(KEY, _head("2", 2), tag)

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "pwrite", full)
    with pytest.raises(StoreUnavailable, match="No space left on device; the last revision is intact"):
        store.put_head(KEY, _head("3", 3), tag)
    monkeypatch.undo()
    assert _checked(store) == b"2"
    store.put_head(KEY, _head("3", 3), tag)
    assert _checked(store) == b"3"
