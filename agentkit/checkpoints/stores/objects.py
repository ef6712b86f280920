"""A store in a bucket (S3, GCS, Azure) through obstore: many machines, one bucket, no server of one's own.

A head is replaced with If-Match on its ETag and created with If-None-Match. A store that ignores either is refused
when it is opened.
"""

import contextlib
import threading
from collections.abc import Iterator
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from agentkit.checkpoints.errors import StoreRefused, StoreUnavailable
from agentkit.checkpoints.stores.base import UNCHANGED, Changed, Head, Store
from agentkit.checkpoints.stores.lease import ObjectLease
from agentkit.models.errors import ModelUnavailable

if TYPE_CHECKING:
    from obstore.store import ObjectStore as Bucket


class ObjectStore(Store):
    """Threads below `prefix` of an obstore store. Give credentials as obstore takes them (environment or options)."""

    def __init__(self, bucket: "Bucket", prefix: str = "", name: str = "the bucket", checked: bool = False):
        self.bucket, self.prefix, self.name = bucket, prefix.strip("/"), name
        if not checked:
            self.check()

    @classmethod
    def at(cls, address: str, **options: Any) -> "ObjectStore":
        """The store at `s3://bucket/prefix` and the like; `options` are obstore's (endpoint, region, ...)."""
        try:
            from obstore.store import from_url
        except ImportError:
            raise ModelUnavailable(
                f"{address} needs the package obstore; install it with: pip install 'agentkit[checkpoints]'"
            ) from None
        scheme, _, rest = address.partition("://")
        bucket, _, prefix = rest.partition("/")
        options.setdefault("client_options", {"allow_http": True})
        # obstore's own patience is three minutes: too long for a run that waits for its store.
        options.setdefault("retry_config", {"max_retries": 4, "retry_timeout": timedelta(seconds=20)})
        return cls(from_url(f"{scheme}://{bucket}", **options), prefix, address)

    def get_blob(self, key: str, name: str) -> bytes | None:
        found = self._get(self._path(key, "blobs", name))
        return found[0] if found else None

    def put_blob(self, key: str, name: str, data: bytes) -> None:
        with contextlib.suppress(Changed):
            self._put(self._path(key, "blobs", name), data, "create")

    def read_head(self, key: str, known: str | None = None) -> Head | None | object:
        import obstore
        from obstore.exceptions import NotModifiedError

        path = self._path(key, "head")
        if known is None:
            found = self._get(path)
        else:
            try:
                with self._told():
                    got = obstore.get(self.bucket, path, options={"if_none_match": known})
                    found = bytes(got.bytes()), got.meta["e_tag"]
            except NotModifiedError:
                return UNCHANGED
            except FileNotFoundError:
                found = None
        return Head(*found) if found else None

    def put_head(self, key: str, data: bytes, tag: str | None) -> str:
        path = self._path(key, "head")
        try:
            return self._put(path, data, "create" if tag is None else {"e_tag": tag})
        except Changed:
            # An answer may get lost after the write was done, and the client then tries again and meets its own write.
            found = self._get(path)
            if found and found[0] == data:
                return found[1]
            raise

    def keys(self) -> Iterator[str]:
        import obstore

        with self._told():
            found = obstore.list_with_delimiter(self.bucket, prefix=self._path())
        return iter(sorted(place.rstrip("/").rsplit("/", 1)[1] for place in found["common_prefixes"]))

    def blobs(self, key: str) -> list[str]:
        return sorted(path.rsplit("/", 1)[1] for path in self._paths(self._path(key, "blobs")))

    def delete_blob(self, key: str, name: str) -> None:
        self._delete([self._path(key, "blobs", name)])

    def delete(self, key: str) -> None:
        self._delete([self._path(key, "head")])
        self._delete(self._paths(self._path(key)))

    def lease(self, key: str, cancel: threading.Event, seconds: float) -> "contextlib.AbstractContextManager":
        beside = ObjectStore(self.bucket, f"{self.prefix}/leases", self.name, checked=True)
        return ObjectLease(beside, key).held(cancel, seconds)

    def check(self) -> None:
        from obstore.exceptions import NotSupportedError

        try:
            super().check()
        except (NotSupportedError, NotImplementedError) as error:
            raise StoreRefused(f"{self.name} has no conditional writes ({error}): two writers would lose turns") from None

    def _path(self, *parts: str) -> str:
        return "/".join([*([self.prefix] if self.prefix else []), "threads", *parts])

    def _paths(self, prefix: str) -> list[str]:
        import obstore

        with self._told():
            return [entry["path"] for page in obstore.list(self.bucket, prefix=prefix) for entry in page]

    def _get(self, path: str) -> tuple[bytes, str] | None:
        import obstore

        try:
            with self._told():
                got = obstore.get(self.bucket, path)
                return bytes(got.bytes()), got.meta["e_tag"]
        except FileNotFoundError:
            return None

    def _put(self, path: str, data: bytes, mode: Any) -> str:
        import obstore
        from obstore.exceptions import AlreadyExistsError, PreconditionError

        try:
            with self._told():
                return obstore.put(self.bucket, path, data, mode=mode, use_multipart=False)["e_tag"]
        except (AlreadyExistsError, PreconditionError):
            raise Changed from None

    def _delete(self, paths: list[str]) -> None:
        import obstore

        if paths:
            with self._told(), contextlib.suppress(FileNotFoundError):
                obstore.delete(self.bucket, paths)

    @contextlib.contextmanager
    def _told(self) -> Iterator[None]:
        from obstore import exceptions as known

        expected = (known.AlreadyExistsError, known.PreconditionError, known.NotModifiedError, FileNotFoundError,
                    known.NotSupportedError, NotImplementedError)
        try:
            yield
        except expected:
            raise
        except known.BaseError as error:
            if "409" in str(error):  # S3: another conditional write on this object is under way
                raise Changed from None
            text = str(error).strip().splitlines()[0][:300]
            raise StoreUnavailable(f"threads cannot be kept in {self.name}: {text}; the last revision is intact") from error
