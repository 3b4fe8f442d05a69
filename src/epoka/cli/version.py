"""`epoka version`."""

from __future__ import annotations

import sys
from importlib.metadata import version

from epoka.cli.output import EXIT_GOOD, say, say_json


def show_version(json: bool) -> int:
    number = version("epoka")
    if json:
        say_json({"epoka": number, "python": sys.version.split()[0]})
    else:
        say(f"epoka {number}")
    return EXIT_GOOD
