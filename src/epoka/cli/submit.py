"""`spark-submit .../submit.py fleet --seeds 0:1000`: the words of `epoka pipeline`, as a file."""

from __future__ import annotations

import sys

from epoka.cli.main import run

if __name__ == "__main__":
    sys.exit(run(["pipeline", *sys.argv[1:]]))
