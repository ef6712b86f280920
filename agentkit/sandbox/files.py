"""Open files of one folder only: neither `..`, nor a symlink, nor a race between check and use leads out of it."""

import ctypes
import errno
import os
import stat
import sys
from pathlib import Path, PurePath

from agentkit.models.errors import AgentkitError

_RESOLVE_NO_MAGICLINKS, _RESOLVE_BENEATH = 0x02, 0x08
_OPENAT2 = 437  # the same number on every architecture we run on
_FLAGS = os.O_RDONLY | os.O_CLOEXEC | os.O_NOCTTY | os.O_NONBLOCK  # NONBLOCK: a FIFO must not hang the open
_FOLDER = os.O_RDONLY | os.O_CLOEXEC | os.O_DIRECTORY


class FileRefused(AgentkitError):
    """A file that may not or cannot be read here; the text says why in one line."""


def read_inside(folder: Path, path: str, most: int) -> bytes:
    """The bytes of the regular file `path` in `folder`; symlinks work as long as they stay inside.

    Raises FileRefused for anything else: missing, outside, a folder, a device, larger than `most` bytes.
    """
    try:
        handle = open_inside(folder, path)
    except OSError as error:
        raise FileRefused(_reason(error, path)) from None
    return _all_of(handle, path, most)


def read_any(path: str, most: int) -> bytes:
    """The bytes of a regular file anywhere, for a path that the user, not a model, gave. Raises FileRefused."""
    try:
        handle = os.open(Path(path).expanduser(), _FLAGS)
    except (OSError, ValueError, RuntimeError) as error:
        raise FileRefused(
            _reason(error, path) if isinstance(error, OSError) else f"{path!r} is not a file name"
        ) from None
    return _all_of(handle, path, most)


def _all_of(handle: int, path: str, most: int) -> bytes:
    """Everything in the file, which is closed then. Its claimed size is not asked: in /proc it is 0; it may grow."""
    parts, total = [], 0
    try:
        mode = os.fstat(handle).st_mode
        if stat.S_ISDIR(mode):
            raise FileRefused(f"{path} is a folder; name a file in it")
        if not stat.S_ISREG(mode):
            raise FileRefused(f"{path} is a device or a pipe, not a file")
        while part := os.read(handle, 1 << 20):
            parts.append(part)
            total += len(part)
            if total > most:
                raise FileRefused(f"{path} is larger than {most / 1e6:g} MB, more than can be read at once")
    except OSError as error:
        raise FileRefused(_reason(error, path)) from None
    finally:
        os.close(handle)
    return b"".join(parts)


def open_inside(folder: Path, path: str, walk: bool = False) -> int:
    """A file descriptor (for reading) of `path` beneath `folder`, checked by the kernel while it resolves the path.

    Raises FileRefused for a path that leads out and OSError for one that cannot be opened. `walk` takes the way of
    systems without openat2: component by component, each opened without following links.
    """
    inner = _relative(folder, path)
    try:
        root = os.open(folder, _FOLDER)
    except OSError as error:
        raise FileRefused(f"the workspace {folder} cannot be opened: {error.strerror}") from None
    try:
        if walk or not sys.platform.startswith("linux"):
            return _walk(root, inner)
        try:
            return _openat2(root, inner)
        except OSError as error:
            # ENOSYS: older than Linux 5.6. EPERM: the seccomp filter of an old container engine.
            if error.errno not in (errno.ENOSYS, errno.EPERM):
                raise
            return _walk(root, inner)
    except OSError as error:
        if error.errno == errno.EXDEV:
            raise FileRefused(
                f"{path} leads out of the workspace {folder}; only files inside it can be opened"
            ) from None
        raise
    finally:
        os.close(root)


def _relative(folder: Path, path: str) -> bytes:
    """`path` as seen from `folder`; an absolute one is taken if it names the folder in front."""
    if not path.strip() or "\0" in path:
        raise FileRefused("the path is empty" if not path.strip() else "the path holds a zero byte")
    try:
        if not path.startswith("/"):
            return os.fsencode(path)
        for base in (Path(folder).absolute(), Path(folder).resolve()):
            if PurePath(path).is_relative_to(base):
                return os.fsencode(PurePath(path).relative_to(base))
    except UnicodeEncodeError:
        raise FileRefused(f"{path!r} is not a file name") from None
    raise FileRefused(f"{path} leads out of the workspace {folder}; only files inside it can be opened")


class _How(ctypes.Structure):
    _fields_ = [("flags", ctypes.c_uint64), ("mode", ctypes.c_uint64), ("resolve", ctypes.c_uint64)]


def _openat2(root: int, path: bytes) -> int:
    syscall = ctypes.CDLL(None, use_errno=True).syscall
    syscall.restype = ctypes.c_long
    how = _How(_FLAGS, 0, _RESOLVE_BENEATH | _RESOLVE_NO_MAGICLINKS)
    problem = errno.EAGAIN
    for _ in range(1000):
        handle = syscall(
            ctypes.c_long(_OPENAT2),
            ctypes.c_int(root),
            ctypes.c_char_p(path),
            ctypes.byref(how),
            ctypes.c_size_t(ctypes.sizeof(how)),
        )
        if handle >= 0:
            return handle
        problem = ctypes.get_errno()
        # EAGAIN: somebody renamed a folder while the kernel walked through `..`, so it could not be sure.
        if problem not in (errno.EAGAIN, errno.EINTR):
            break
    raise OSError(problem, os.strerror(problem))


def _walk(root: int, path: bytes) -> int:
    held, todo, links = [os.dup(root)], path.split(b"/")[::-1], 0
    try:
        while todo:
            part = todo.pop()
            if part in (b"", b"."):
                continue
            if part == b"..":
                if len(held) == 1:
                    raise OSError(errno.EXDEV, os.strerror(errno.EXDEV))
                os.close(held.pop())
                continue
            last = all(rest in (b"", b".") for rest in todo)
            try:
                handle = os.open(part, (_FLAGS if last else _FOLDER) | os.O_NOFOLLOW, dir_fd=held[-1])
            except OSError as error:
                target = _link_target(part, held[-1])
                if target is None:
                    raise error
                links += 1
                if links > 40:
                    raise OSError(errno.ELOOP, os.strerror(errno.ELOOP)) from None
                if target.startswith(b"/"):
                    raise OSError(errno.EXDEV, os.strerror(errno.EXDEV)) from None
                todo += target.split(b"/")[::-1]
                continue
            held.append(handle)
        return held.pop()
    finally:
        for handle in held:
            os.close(handle)


def _link_target(part: bytes, folder: int) -> bytes | None:
    try:
        return os.readlink(part, dir_fd=folder)
    except OSError:
        return None


def _reason(error: OSError, path: str) -> str:
    known = {
        errno.ENOENT: "does not exist",
        errno.ENOTDIR: "does not exist: a part before the last / is no folder",
        errno.EACCES: "may not be read: permission denied",
        errno.EPERM: "may not be read: permission denied",
        errno.ELOOP: "is a chain of links that leads nowhere",
        errno.ENAMETOOLONG: "is too long for a file name",
        errno.EISDIR: "is a folder; name a file in it",
        errno.ENXIO: "is a pipe or a socket, not a file",
    }
    shown = path if len(path) <= 200 else path[:200] + "…"
    return f"{shown} {known.get(error.errno, f'cannot be read: {error.strerror}')}"
