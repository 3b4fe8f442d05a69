"""What `epoka controller` takes."""

from __future__ import annotations

from epoka.cli.arguments.node_file import declare
from epoka.cli.commands import Command

COMMAND = Command(
    "controller",
    "Run the controller of a cluster on many machines.",
    "epoka.cli.single:run_controller",
    declare,
)
