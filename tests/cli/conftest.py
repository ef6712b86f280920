"""The command line in processes of its own, and a server that speaks the OpenAI chat API: no MLX is needed then."""

import json
import os
import subprocess
import sys
import threading
import time
from types import SimpleNamespace

import pytest

from tests.served import served


def _deltas(answer):
    """The streamed pieces of one prepared answer: a text, or (tool, arguments as JSON text)."""
    if isinstance(answer, str):
        return [{"content": word + " "} for word in answer.split(" ")], "stop"
    name, args = answer
    return [
        {"tool_calls": [{"index": 0, "id": "c1", "type": "function", "function": {"name": name, "arguments": args}}]}
    ], "tool_calls"


@pytest.fixture
def chat_server():
    """Makes a server from answers, given in order, each word `every` seconds after the last.

    `asked` holds the requests, `model` names the server to agentkit.
    """
    pytest.importorskip("langchain_openai")
    open_servers = []

    def make(*answers, every: float = 0):
        queue, asked = list(answers), []

        def chat(handler, request):
            asked.append(request)
            deltas, reason = _deltas(queue.pop(0))
            choices = [{"delta": delta, "finish_reason": None} for delta in deltas] + [
                {"delta": {}, "finish_reason": reason}
            ]
            handler.send_response(200)
            handler.send_header("Content-Type", "text/event-stream")
            handler.send_header("Connection", "close")
            handler.end_headers()
            handler.close_connection = True
            for choice in choices:
                chunk = {
                    "id": f"x{len(asked)}",
                    "object": "chat.completion.chunk",
                    "created": 1,
                    "model": "prepared",
                    "choices": [{"index": 0, **choice}],
                }
                handler.wfile.write(f"data: {json.dumps(chunk)}\n\n".encode())
                handler.wfile.flush()
                time.sleep(every)
            handler.wfile.write(b"data: [DONE]\n\n")

        server = served({"/v1/chat/completions": chat})
        open_servers.append(server)
        return SimpleNamespace(model=f"{server.__enter__()}/v1#prepared", asked=asked)

    yield make
    for server in open_servers:
        server.__exit__(None, None, None)


@pytest.fixture
def place(tmp_path):
    """The folder in which the command line runs."""
    (tmp_path / "place").mkdir()
    return tmp_path / "place"


@pytest.fixture
def start(tmp_path, place):
    """Starts `agentkit ...` and returns the process."""

    def run(*args, **options):
        env = {**os.environ, "AGENTKIT_DATA": str(tmp_path / "data"), **options.pop("env", {})}
        return subprocess.Popen(
            [sys.executable, "-m", "agentkit.cli.main", *args],
            cwd=place,
            env=env,
            stdin=subprocess.PIPE,
            stdout=options.pop("stdout", subprocess.PIPE),
            stderr=subprocess.PIPE,
            **options,
        )

    return run


@pytest.fixture
def agentkit(start):
    """Runs `agentkit ...` to its end: code, out, err (text)."""

    def run(*args, stdin: bytes = b"", **options):
        process = start(*args, **options)
        guard = threading.Timer(120, process.kill)
        guard.start()
        out, err = process.communicate(stdin)
        guard.cancel()
        return SimpleNamespace(code=process.returncode, out=out.decode(), err=err.decode())

    return run
