"""The door to the network: one request with a deadline and a size limit, and errors that say what happened."""

import json
import time
from typing import Any

from agentkit.models.errors import AgentkitError

_MOST_BYTES = 2_000_000


class NetError(AgentkitError):
    """A request that gave no usable answer; `kind` is "unreachable", "timeout", "status" or "garbage"."""

    def __init__(self, kind: str, text: str):
        super().__init__(text)
        self.kind = kind


def get_json(url: str, params: dict[str, Any], timeout: float) -> Any:
    """GET an address and read its JSON, all within `timeout` seconds and 2 MB. Raises NetError."""
    import httpx2

    deadline = time.monotonic() + timeout
    try:
        with httpx2.Client(timeout=timeout) as client, client.stream("GET", url, params=params) as answer:
            if answer.status_code != 200:
                raise NetError("status", f"HTTP {answer.status_code}")
            body = bytearray()
            # httpx limits the wait for each piece; a server that drips would keep us for ever without this.
            for piece in answer.iter_bytes():
                body += piece
                if time.monotonic() > deadline:
                    raise NetError("timeout", f"no complete answer within {timeout:g} seconds")
                if len(body) > _MOST_BYTES:
                    raise NetError("garbage", "more than 2 MB")
    except httpx2.TimeoutException:
        raise NetError("timeout", f"no answer within {timeout:g} seconds") from None
    except (httpx2.HTTPError, httpx2.InvalidURL, httpx2.StreamError) as error:
        kind = "garbage" if isinstance(error, (httpx2.RemoteProtocolError, httpx2.DecodingError)) else "unreachable"
        raise NetError(kind, str(error) or type(error).__name__) from None
    try:
        return json.loads(body)
    except ValueError:
        raise NetError("garbage", "something that is not JSON") from None
