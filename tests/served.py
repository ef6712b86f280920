"""A real HTTP server in the test's process: paths and what each answers."""

import contextlib
import json
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qsl, urlsplit


@contextlib.contextmanager
def served(answers: dict[str, Callable | bytes | dict | int]) -> Iterator[str]:
    """Serve on 127.0.0.1 and give the base URL.

    An answer is a body, JSON-ready data, a status code, or a function of (handler, query) that writes by itself or
    returns one of these. For a POST the query is the JSON that came.
    """

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_):
            pass

        def do_GET(self):
            address = urlsplit(self.path)
            answer = answers.get(address.path, 404)
            if callable(answer):
                answer = answer(self, dict(parse_qsl(address.query, keep_blank_values=True)))
            if answer is not None:
                self.reply(answer)

        def do_POST(self):
            sent = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            answer = answers[self.path](self, sent)
            if answer is not None:
                self.reply(answer)

        def reply(self, answer):
            status = answer if isinstance(answer, int) else 200
            body = (
                answer if isinstance(answer, bytes) else b"" if isinstance(answer, int) else json.dumps(answer).encode()
            )
            self.send_response(status)
            if status in (301, 302):
                self.send_header("Location", "/elsewhere")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


def dripping(piece: bytes, every: float, times: int) -> Callable:
    """An answer that comes piece by piece, slower than anybody waits."""

    def answer(handler, query):
        handler.send_response(200)
        handler.send_header("Content-Length", str(len(piece) * times))
        handler.end_headers()
        with contextlib.suppress(OSError):  # the client has gone
            for _ in range(times):
                handler.wfile.write(piece)
                handler.wfile.flush()
                time.sleep(every)

    return answer
