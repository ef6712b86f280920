"""JupyterLab as `make lab` starts it: this machine only, a fresh token, nothing fetched, no first-run prompts.

`make lab` makes this folder Jupyter's configuration folder, so settings in a user's home neither apply nor change.
The prompt about Jupyter news and the check for updates are switched off beside this file, in labconfig/.
"""

import os
import sys

c = get_config()  # noqa: F821  (Jupyter puts it here)

c.ServerApp.ip = "127.0.0.1"
c.ServerApp.port = int(os.environ.get("JUPYTER_PORT", "8888"))  # set here, the variable would else not count
c.ServerApp.port_retries = 100  # the next free port if this one is taken
c.ServerApp.allow_root = os.geteuid() == 0
screen = sys.platform == "darwin" or os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")
c.ServerApp.open_browser = bool(screen) and os.environ.get("CI") != "true"
c.ServerApp.answer_yes = True  # Ctrl-C stops it without a question
c.Application.log_level = "WARN"  # leaves the address, which is printed as critical, easy to see
