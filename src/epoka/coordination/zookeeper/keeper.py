"""Runs one server process and never lets it outlive whoever started it. Standard library only.

    python keeper.py COMMAND ARGUMENT...

The end of standard input means that the starter is gone: the server is killed at once. SIGTERM is handed on.
When the keeper itself is killed, Linux kills the server; elsewhere the starter ends the whole process group.
"""

from __future__ import annotations

import contextlib
import ctypes
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from types import FrameType

_PR_SET_PDEATHSIG = 1
EXIT_NO_COMMAND = 127


def _die_with_parent() -> Callable[[], None] | None:
    """What a child does before it becomes the server; prepared here, because after a fork little is safe."""
    if sys.platform != "linux":
        return None
    prctl = ctypes.CDLL(None).prctl

    def ask() -> None:
        prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)

    return ask


def main(command: list[str]) -> int:
    try:
        # The request to die with the parent is tied to the thread that forks: this one, which stays.
        server = subprocess.Popen(command, stdin=subprocess.DEVNULL, preexec_fn=_die_with_parent())
    except OSError as error:
        print(f"{command[0]}: {error.strerror}", file=sys.stderr)  # noqa: T201
        return EXIT_NO_COMMAND

    def hand_on(number: int, frame: FrameType | None) -> None:
        with contextlib.suppress(ProcessLookupError):
            server.send_signal(number)

    signal.signal(signal.SIGTERM, hand_on)
    signal.signal(signal.SIGINT, signal.SIG_IGN)

    def await_the_end() -> None:
        # Unbuffered and raw: a buffered reader in a daemon thread upsets the interpreter when it ends.
        with open(0, "rb", buffering=0, closefd=False) as starter:
            while starter.read(4096):
                pass
        with contextlib.suppress(ProcessLookupError):
            server.kill()

    threading.Thread(target=await_the_end, daemon=True).start()
    code = server.wait()
    return code if code >= 0 else 128 - code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
