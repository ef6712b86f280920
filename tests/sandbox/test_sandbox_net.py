"""One request through the door to the network, against a real server that misbehaves."""

import socket
import time

import pytest

from agentkit.sandbox.net import NetError, get_json
from tests.served import dripping, served


def _cut(handler, query):
    handler.send_response(200)
    handler.send_header("Content-Length", "1000")
    handler.end_headers()
    handler.wfile.write(b'{"a":')
    handler.close_connection = True


def _silent(handler, query):
    time.sleep(2)


@pytest.mark.parametrize(
    ("answer", "kind", "said"),
    [
        (404, "status", "HTTP 404"),
        (503, "status", "HTTP 503"),
        (302, "status", "HTTP 302"),
        (b"<html>hello", "garbage", "not JSON"),
        (b"", "garbage", "not JSON"),
        (b"\xff\xfe\x00\x01", "garbage", "not JSON"),
        (b" " * 3_000_000, "garbage", "more than 2 MB"),
        (_cut, "garbage", ""),
        (_silent, "timeout", "no answer within 0.4 seconds"),
        (dripping(b" ", 0.05, 100), "timeout", "no complete answer"),
    ],
)
def test_whatever_a_server_does_it_is_one_error_in_time(answer, kind, said):
    with served({"/x": answer}) as base:
        began = time.monotonic()
        with pytest.raises(NetError) as caught:
            get_json(f"{base}/x", {}, timeout=0.4)
    assert (caught.value.kind, said in str(caught.value)) == (kind, True)
    assert time.monotonic() - began < 2


@pytest.mark.parametrize(
    "url", ["http://no-such-host.invalid/", "http://[broken", "ftp://127.0.0.1/", "http://127.0.0.1:{closed}/"]
)
def test_an_address_where_nobody_answers(url):
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        with pytest.raises(NetError) as caught:
            get_json(url.replace("{closed}", str(unused.getsockname()[1])), {}, timeout=5)
    assert caught.value.kind == "unreachable"


def test_parameters_and_unicode_reach_the_server():
    with served({"/x": lambda handler, query: query}) as base:
        assert get_json(f"{base}/x", {"q": "กรุงเทพ & co", "n": 1}, 5) == {"q": "กรุงเทพ & co", "n": "1"}
