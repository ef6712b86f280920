"""The command line: one module a command, imported only when it is asked for."""

import argparse
import importlib
import os
import sys

from agentkit import __version__

COMMANDS = ("ask", "models", "doctor", "eval", "bench", "train", "threads")


def main(argv: list[str] | None = None) -> int:
    """Run one command; exit code 0, 2 for anything the user can put right (one clear line on stderr), 130 on Ctrl-C."""
    argv = sys.argv[1:] if argv is None else argv
    parser = argparse.ArgumentParser(prog="agentkit", description="Learn how a ReAct agent works, on your own machine.")
    parser.add_argument("--version", action="version", version=f"agentkit {__version__}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    wanted = next((word for word in argv if word in COMMANDS), None)
    for name in COMMANDS:
        if wanted in (None, name):
            importlib.import_module(f"agentkit.cli.{name}").add_parser(commands)
    args = parser.parse_args(argv)
    from agentkit.models.errors import AgentkitError

    try:
        return args.run(args)
    except AgentkitError as error:
        print(f"agentkit {args.command}: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("stopped", file=sys.stderr)
        return 130
    except BrokenPipeError:
        # The reader (head, less) has gone: nothing left to say, and no traceback at exit either.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0


if __name__ == "__main__":
    sys.exit(main())
