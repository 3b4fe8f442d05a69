"""What `epoka version` takes: nothing."""

from __future__ import annotations

from epoka.cli.commands import Command

COMMAND = Command("version", "Which Epoka this is.", "epoka.cli.version:show_version")
