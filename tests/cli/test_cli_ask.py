"""`agentkit ask` as its user meets it: in a process of its own, on a pipe and on a terminal."""

import json
import os
import pty
import re
import signal
import sys
import time

import pytest

SUM = ("calculator", '{"expression": "23*19"}')


def test_the_answer_goes_to_stdout_and_the_way_to_it_to_stderr(agentkit, chat_server):
    server = chat_server(SUM, "23 times 19 is 437.")
    done = agentkit("ask", "What is 23 times 19?", "--model", server.model)
    assert (done.code, done.out) == (0, "23 times 19 is 437.\n")
    assert '→ calculator(expression="23*19")' in done.err and "← 437" in done.err and "1 tool call" in done.err
    assert [tool["function"]["name"] for tool in server.asked[0]["tools"]] == ["calculator", "get_weather", "read_file"]


def test_json_is_one_event_a_line(agentkit, chat_server):
    server = chat_server(SUM, "สวัสดี 437")
    done = agentkit("ask", "q", "--model", server.model, "--json", "--tools", "calculator")
    events = [json.loads(line) for line in done.out.splitlines()]
    assert (events[0]["event"], events[-1]["event"], events[-1]["answer"].strip()) == (
        "RunStarted",
        "RunEnded",
        "สวัสดี 437",
    )
    assert [e["content"] for e in events if e["event"] == "ToolReturned"] == ["437"]
    assert (
        "".join(e["text"] for e in events if e["event"] == "Token" and e["channel"] == "answer").strip() == "สวัสดี 437"
    )
    assert done.err == ""


def _on_a_terminal(argv, folder, env):
    """What a terminal shows of a command, and its exit code."""
    child, master = pty.fork()
    if child == 0:
        os.chdir(folder)
        os.execve(
            sys.executable,
            [sys.executable, "-m", "agentkit.cli.main", *argv],
            {**os.environ, "TERM": "xterm", "COLUMNS": "100", **env},
        )
    shown = b""
    while True:
        try:
            part = os.read(master, 4096)
        except OSError:
            break
        if not part:
            break
        shown += part
    return shown.decode(), os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def test_on_a_terminal_the_answer_streams_and_stands_there_once(chat_server, tmp_path):
    server = chat_server(SUM, "23 times 19 is 437.", every=0.05)
    shown, code = _on_a_terminal(["ask", "q", "--model", server.model], tmp_path, {"AGENTKIT_DATA": str(tmp_path)})
    plain = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", shown)
    assert code == 0 and plain.count("23 times 19 is 437.") == 1 and "loading http" in plain
    assert (
        plain.index("→ calculator") < plain.index("← 437") < plain.index("23 times 19 is") < plain.index("tool call ·")
    )


def test_on_a_terminal_the_final_reply_of_the_handmade_loop_stands_there_once(chat_server, tmp_path):
    said = ['Thought: Sum.\nAction: calculator\nAction Input: {"expression": "23*19"}', "Thought: Known.\nFinal Answer: It is 437."]
    argv = ["ask", "q", "--model", chat_server(*said, every=0.01).model, "--loop", "handmade"]
    shown, code = _on_a_terminal(argv, tmp_path, {"AGENTKIT_DATA": str(tmp_path)})
    plain = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", shown)
    assert code == 0 and plain.count("It is 437.") == 1
    assert plain.index("← 437") < plain.index("Final Answer: It is 437.") < plain.index("tool call ·")


def test_escape_sequences_from_files_and_models_do_not_reach_the_terminal(agentkit, chat_server, place):
    (place / "evil.txt").write_bytes(b"\x1b]0;owned\x07\x1b[2Jhello")
    server = chat_server(("read_file", '{"path": "evil.txt"}'), "It says \x1b[31mhello\x9b.")
    done = agentkit("ask", "q", "--model", server.model)
    assert done.code == 0 and "hello" in done.out
    assert not set("\x1b\x07\x9b") & set(done.out + done.err)


def test_a_long_result_is_cut_on_the_screen_only(agentkit, chat_server, place):
    (place / "long.txt").write_text("word " * 1000)
    server = chat_server(("read_file", '{"path": "long.txt"}'), "Long.")
    done = agentkit("ask", "q", "--model", server.model)
    assert "… (" in done.err and max(map(len, done.err.splitlines())) < 400
    assert len(server.asked[1]["messages"][-1]["content"]) > 3900


def test_a_thread_goes_on_in_the_next_process(agentkit, chat_server):
    server = chat_server("Hello Ana.", "Ana.", "Who?")
    for question in ("My name is Ana.", "What is my name?"):
        assert agentkit("ask", question, "--model", server.model, "--thread", "t").code == 0
    assert agentkit("ask", "What is my name?", "--model", server.model).code == 0
    assert [len(request["messages"]) for request in server.asked] == [1, 3, 1]


def test_question_from_stdin_with_a_file(agentkit, chat_server, place):
    (place / "note.txt").write_bytes("Größe: 3 µm".encode("latin-1"))
    server = chat_server("Three.")
    done = agentkit("ask", "-", "--file", "note.txt", "--model", server.model, stdin="How large? ภาษาไทย\n".encode())
    assert done.code == 0
    assert server.asked[0]["messages"][0]["content"] == "How large? ภาษาไทย\n\nFile note.txt:\nGröße: 3 µm"


def test_no_network_is_told_to_the_model_and_the_run_goes_on(agentkit, chat_server):
    server = chat_server(("get_weather", '{"city": "Lima"}'), "I could not find out.")
    nowhere = {"HTTPS_PROXY": "http://127.0.0.1:9", "ALL_PROXY": "http://127.0.0.1:9", "NO_PROXY": "127.0.0.1"}
    done = agentkit("ask", "Weather in Lima?", "--model", server.model, env=nowhere)
    assert (done.code, done.out) == (0, "I could not find out.\n")
    assert "cannot be reached, there may be no network" in server.asked[1]["messages"][-1]["content"]


def test_the_loop_is_react_unless_another_is_named(agentkit, chat_server):
    for named, loop in ([], "react"), (["--loop", "lite"], "lite"):
        done = agentkit("ask", "q", "--model", chat_server("hello").model, "--json", *named)
        assert json.loads(done.out.splitlines()[0])["loop"] == loop


def test_profile_and_tools_reach_the_run(agentkit, chat_server):
    server = chat_server(SUM, SUM, SUM)
    done = agentkit(
        "ask",
        "q",
        "--model",
        server.model,
        "--profile",
        "recursion_limit=3",
        "--profile",
        "temperature=0.7",
        "--tools",
        "calculator",
    )
    assert (done.code, done.out) == (1, "") and "too large for one turn" in done.err
    assert server.asked[0]["temperature"] == 0.7 and len(server.asked[0]["tools"]) == 1


def test_the_handmade_loop_acts_by_text(agentkit, chat_server):
    server = chat_server('Thought: Sum.\nAction: calculator\nAction Input: {"expression": "23*19"}', "Final Answer: 437")
    done = agentkit("ask", "q", "--model", server.model, "--loop", "handmade")
    assert (done.code, done.out) == (0, "437\n") and '→ calculator(expression="23*19")' in done.err
    assert server.asked[1]["messages"][-1] == {"role": "user", "content": "Observation: 437"}
    assert "tools" not in server.asked[0] and server.asked[0]["stop"] == ["\nObservation:"]


def test_the_profile_says_how_many_steps_the_handmade_loop_may_take(agentkit, chat_server):
    server = chat_server('Action: calculator\nAction Input: {"expression": "23*19"}')
    done = agentkit("ask", "q", "--model", server.model, "--loop", "handmade", "--profile", "max_steps=1")
    assert (done.code, done.out) == (1, "") and "1 steps were used up" in done.err


@pytest.mark.parametrize(
    ("args", "said"),
    [
        ([], "the question is empty"),
        (["  "], "the question is empty"),
        (["-"], "the question is empty"),
        (["q", "--loop", "nope"], "loop 'nope' is unknown; known are lite"),
        (["q", "--model", "nope"], "model 'nope' is unknown"),
        (["q", "--tools", "calculator,nope"], "tool 'nope' is unknown; known are"),
        (["q", "--workspace", "nope"], "'nope' is not a folder"),
        (["q", "--profile", "temp=1"], "profile field 'temp' is unknown"),
        (["q", "--profile", "temperature=9"], "allowed is 0.0 to 2.0"),
        (["q", "--profile", "x"], "key=value"),
        (["q", "--file", "nope.txt"], "nope.txt does not exist"),
        (["q", "--file", "."], "is a folder"),
        (["q", "--file", "/dev/zero"], "is a device"),
        (["q", "--file", sys.executable], "not a text file"),
        (["q", "--thread", " "], "1 to 200 characters"),
        (["q", "--thread", "t", "--loop", "handmade"], "the handmade loop keeps no threads"),
        (["q", "--model", "http://127.0.0.1:9/v1#m"], "127.0.0.1:9"),
    ],
)
def test_what_the_user_can_put_right_is_one_line_and_exit_code_2(agentkit, args, said):
    done = agentkit("ask", *args)
    assert (done.code, done.out) == (2, "")
    (line,) = done.err.splitlines()
    assert line.startswith("agentkit ask: ") and said in line


def test_threads_that_cannot_be_kept(agentkit, place):
    (place / "file").write_text("")
    done = agentkit("ask", "q", "--thread", "t", env={"AGENTKIT_DATA": str(place / "file")})
    assert done.code == 2 and len(done.err.splitlines()) == 1 and "AGENTKIT_DATA names another folder" in done.err


def test_a_server_that_goes_away_in_the_middle(agentkit, chat_server):
    server = chat_server(SUM)  # the second request finds nothing prepared and the connection breaks
    done = agentkit("ask", "q", "--model", server.model)
    assert done.code == 2 and "Traceback" not in done.err and done.err.splitlines()[-1].startswith("agentkit ask: ")


def _until(stream, text):
    seen = b""
    while text not in seen:
        part = stream.read1(4096)
        assert part, seen.decode()
        seen += part
    return seen


@pytest.mark.parametrize("moment", ["model", "tool"])
def test_ctrl_c_stops_cleanly(start, agentkit, chat_server, place, moment):
    if moment == "model":
        server = chat_server("word " * 200, "Here.", every=0.05)
        process = start("ask", "q", "--model", server.model, "--thread", "t", "--json")
        _until(process.stdout, b'"Token"')
    else:
        server = chat_server(("get_weather", '{"city": "Lima"}'), "Here.")
        # A proxy that accepts and never answers: the tool would wait for its full timeout.
        import socket

        hole = socket.create_server(("127.0.0.1", 0))
        nowhere = {"HTTPS_PROXY": f"http://127.0.0.1:{hole.getsockname()[1]}", "NO_PROXY": "127.0.0.1"}
        process = start("ask", "q", "--model", server.model, "--thread", "t", "--json", env=nowhere)
        _until(process.stdout, b'"ToolCalled"')
        time.sleep(0.3)
    began = time.monotonic()
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=30)
    assert process.returncode == 130 and time.monotonic() - began < 5
    assert b"Traceback" not in err and json.loads(out.splitlines()[-1])["reason"] == "cancel"
    again = agentkit("ask", "Still there?", "--model", server.model, "--thread", "t")
    assert (again.code, again.out) == (0, "Here.\n")


def test_a_reader_that_leaves_causes_no_noise(start, chat_server):
    server = chat_server("word " * 100)
    process = start("ask", "q", "--model", server.model, "--json")
    process.stdout.readline()
    process.stdout.close()
    assert b"Traceback" not in process.stderr.read()
    assert process.wait(30) in (0, 1)


def test_help_lists_the_loops_quickly(agentkit):
    from agentkit.loops.build import LOOPS

    done = agentkit("ask", "--help")
    assert done.code == 0 and all(loop in done.out for loop in LOOPS)


@pytest.mark.model
def test_the_bundled_model_calculates_with_the_tool(agentkit):
    done = agentkit("ask", "What is 23 times 19?", "--json", "--profile", "seed=1")
    events = [json.loads(line) for line in done.out.splitlines()]
    assert done.code == 0, done.err
    assert [e["name"] for e in events if e["event"] == "ToolCalled"] == ["calculator"]
    assert "437" in events[-1]["answer"]
    assert events[-1]["usage"]["generated_tokens"] > 0 and any(e["event"] == "PrefixReuse" for e in events)


@pytest.mark.model
def test_the_bundled_model_reads_a_file_of_the_workspace(agentkit, place):
    (place / "notes.txt").write_text("The code word is heliotrope.\n")
    done = agentkit("ask", "What does notes.txt say?", "--profile", "seed=1")
    assert done.code == 0 and "→ read_file(" in done.err and "heliotrope" in done.out


@pytest.mark.model
def test_ctrl_c_while_the_bundled_model_writes(start):
    process = start("ask", "Tell me a very long story about a ship.", "--json", "--profile", "max_tokens=2000")
    _until(process.stdout, b'"Token"')
    began = time.monotonic()
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130 and b"Traceback" not in err and time.monotonic() - began < 5
