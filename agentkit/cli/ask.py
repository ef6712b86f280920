"""`agentkit ask`: one question to an agent, each step shown as it happens."""

import argparse
import contextlib
import json
import os
import signal
import sys
import threading
from pathlib import Path

from agentkit.loops.build import LOOPS, build_agent, check_loop, check_thread
from agentkit.models.catalog import default_name, profile_for
from agentkit.models.errors import AgentkitError, BadField
from agentkit.models.profile import GenerationProfile

MOST_FILE = 1_000_000
TOOLS = "calculator,get_weather,read_file"
# No answer, but no mistake of the user's either; 2 is for what can be put right, 130 for Ctrl-C.
EXIT = {
    "answer": 0,
    "interrupt": 1,
    "limit": 1,
    "malformed": 1,
    "guard": 1,
    "budget": 1,
    "clock": 1,
    "error": 2,
    "cancel": 130,
}


def add_parser(commands: "argparse._SubParsersAction") -> None:
    """Add `ask` to an argparse subparsers object; parsed arguments carry `run`."""
    parser = commands.add_parser(
        "ask",
        help="ask an agent one question and watch its steps",
        description="Ask an agent one question. The answer goes to stdout, the steps to stderr.",
    )
    parser.add_argument("question", nargs="?", default="", help="the question; - reads it from stdin")
    parser.add_argument(
        "--model", metavar="M", default=default_name(), help="default here: %(default)s; `agentkit models` lists them"
    )
    parser.add_argument("--loop", metavar="L", default="react", help=f"one of {', '.join(LOOPS)} (default %(default)s)")
    parser.add_argument("--tools", metavar="A,B", default=TOOLS, help="which tools the agent has (default %(default)s)")
    parser.add_argument(
        "--workspace", metavar="DIR", help="the folder whose files tools may see (default: the current one)"
    )
    parser.add_argument(
        "--file",
        metavar="PATH",
        action="append",
        default=[],
        help="add the text of a file to the question (repeatable)",
    )
    parser.add_argument("--thread", metavar="NAME", help="go on with the conversation of this name, or start it")
    parser.add_argument(
        "--profile",
        metavar="KEY=VALUE",
        action="append",
        default=[],
        help="a field of the generation profile, like temperature=0.7 (repeatable)",
    )
    parser.add_argument("--json", action="store_true", help="the run's events on stdout, one JSON object a line")
    parser.add_argument("--yes", action="store_true", help="load a model that needs more memory than there is")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Carry out a parsed `ask`. Everything the user gave is checked before a model is loaded."""
    check_loop(args.loop)
    if args.thread is not None:
        check_thread(args.thread, args.loop)
    question = _question(args.question, args.file)
    profile = GenerationProfile.from_text(args.profile, profile_for(args.model))
    from agentkit.cli.show import Transcript  # the spinner must turn before the slow imports begin

    transcript = Transcript()
    transcript.busy(_loading(args.model))
    try:
        from agentkit.tools.registry import tools_for

        tools = tools_for([name.strip() for name in args.tools.split(",") if name.strip()], args.workspace)
        with _saver(args.thread) as saver:
            from agentkit.models import load_model

            model = load_model(args.model, profile=profile, confirm=args.yes)
            agent = build_agent(args.loop, model=model, tools=tools, checkpointer=saver, profile=profile)
            return _play(agent, question, args, transcript)
    finally:
        transcript.busy(None)


def _play(agent, question: str, args: argparse.Namespace, transcript) -> int:
    cancel = threading.Event()

    def stop(*_):
        # The first Ctrl-C ends the run in good order; a second one does not wait for that.
        signal.signal(signal.SIGINT, signal.default_int_handler)
        cancel.set()

    before = signal.signal(signal.SIGINT, stop)
    try:
        events = agent.stream(question, args.thread, cancel)
        while True:
            try:
                event = next(events)
            except StopIteration as end:
                result = end.value
                break
            if args.json:
                print(
                    json.dumps(event.as_dict(), ensure_ascii=False, default=str).encode(errors="replace").decode(),
                    flush=True,
                )
            transcript.busy(None) if args.json else transcript.take(event)
    finally:
        signal.signal(signal.SIGINT, before)
    if result.reason == "error":
        raise AgentkitError(result.answer)
    if result.reason == "answer":
        _remark(result, agent.profile)
    return EXIT[result.reason]


def _remark(result, profile: GenerationProfile) -> None:
    if result.messages[-1].response_metadata.get("finish_reason") == "length":
        print(
            f"the answer was cut at max_tokens={profile.max_tokens}; --profile max_tokens=... allows more",
            file=sys.stderr,
        )
    elif not result.answer.strip():
        print("the model gave an empty answer; ask in other words", file=sys.stderr)


def _question(text: str, files: list[str]) -> str:
    text = (
        sys.stdin.buffer.read().decode(errors="replace") if text == "-" else os.fsencode(text).decode(errors="replace")
    )
    if not text.strip():
        raise BadField('the question is empty; write it in quotes, for example: agentkit ask "What is 23 times 19?"')
    parts = [text.strip()]
    for path in files:
        from agentkit.sandbox.files import read_any
        from agentkit.sandbox.text import decode

        content, _ = decode(read_any(path, MOST_FILE), path)
        parts.append(f"File {Path(path).name}:\n{content.strip()}")
    return "\n\n".join(parts)


def _saver(thread: str | None):
    if thread is None:
        return contextlib.nullcontext()
    from agentkit.checkpoints.threads import open_threads

    return open_threads()


def _loading(model: str) -> str:
    if model == "bundled":
        from agentkit.models.bundled import cache_root

        if not any((cache_root() / "models").glob("smollm2-135m-*/config.json")):
            return "loading bundled (first time: converting weights)"
    return f"loading {model}"
