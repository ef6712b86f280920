"""Runs inside the kernel of every lesson under test: no Python code in it reaches beyond this machine.

An audit hook cannot be taken off again and sees every socket, whichever library opens it. What a library does below
Python, or in another process, it does not see.
"""

import sys

HERE = {None, "", "localhost", "127.0.0.1", "::1", "0.0.0.0", "::"}


def refuse(event: str, args: tuple) -> None:
    """Raises OSError when a name is looked up or an address is used that is not this machine's."""
    if event == "socket.getaddrinfo":
        host = args[0]
    elif event in ("socket.connect", "socket.sendto") and isinstance(args[1], tuple):
        host = args[1][0]
    else:
        return
    host = host.decode(errors="replace") if isinstance(host, bytes) else host
    if host not in HERE:
        raise OSError(f"lessons need no network, and something asked for {host}")


sys.addaudithook(refuse)
