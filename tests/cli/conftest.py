"""A real HTTP server that speaks the OpenAI chat API and gives prepared answers: the command line needs no MLX then."""

import json
import os
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest


def _deltas(answer):
    """The streamed deltas of one prepared answer: a text, or (tool, arguments as text)."""
    if isinstance(answer, str):
        return [{"content": part} for part in answer.split(" ") for part in (part + " ",)]
    name, args = answer
    return [{"tool_calls": [{"index": 0, "id": "c1", "type": "function", "function": {"name": name, "arguments": args}}]}]


@pytest.fixture
def chat_server():
    """Makes a server from answers, given in order; `server.asked` holds the requests, `server.model` names it to agentkit."""
    servers = []

    def make(*answers, wait: float = 0):
        queue, asked, go = list(answers), [], threading.Event()

        class Handler(BaseHTTPRequestHandler):
            def log_message(self, *_):
                pass

            def do_GET(self):
                self._send("application/json", json.dumps({"object": "list", "data": [{"id": "prepared", "object": "model"}]}))

            def do_POST(self):
                asked.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
                answer, lines = queue.pop(0), []
                if wait:
                    go.wait(wait)
                for delta in [{"role": "assistant", "content": ""}, *_deltas(answer)]:
                    lines.append({"choices": [{"index": 0, "delta": delta, "finish_reason": None}]})
                lines.append({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop" if isinstance(answer, str) else "tool_calls"}]})
                head = {"id": f"x{len(asked)}", "object": "chat.completion.chunk", "created": 1, "model": "prepared"}
                self._send("text/event-stream", "".join(f"data: {json.dumps(head | line)}\n\n" for line in lines) + "data: [DONE]\n\n")

            def _send(self, kind, text):
                body = text.encode()
                self.send_response(200)
                self.send_header("Content-Type", kind)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        server.asked, server.go = asked, go
        server.model = f"http://127.0.0.1:{server.server_port}/v1#prepared"
        servers.append(server)
        return server

    yield make
    for server in servers:
        server.go.set()
        server.shutdown()
        server.server_close()


@pytest.fixture
def agentkit(tmp_path):
    """Runs the command line in a process of its own, in an empty folder, and returns the finished process."""

    def run(*args, stdin: bytes = b"", **env):
        made = {**os.environ, "AGENTKIT_DATA": str(tmp_path / "data"), "OPENAI_API_KEY": "none", **env}
        (tmp_path / "place").mkdir(exist_ok=True)
        return subprocess.run([sys.executable, "-m", "agentkit.cli.main", *args], input=stdin, capture_output=True,
                              cwd=tmp_path / "place", env=made, timeout=120)

    return run
