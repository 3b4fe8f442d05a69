"""What `epoka broker` takes."""

from __future__ import annotations

from epoka.cli.arguments.node_file import declare
from epoka.cli.commands import Command

COMMAND = Command(
    "broker", "Run one broker of a cluster on many machines.", "epoka.cli.single:run_broker", declare
)
