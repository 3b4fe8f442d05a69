"""`epoka broker` and `epoka controller`: one node in this process, for clusters on many machines."""

from __future__ import annotations

from pathlib import Path

from epoka.cli.output import EXIT_USAGE, Failed, say_json
from epoka.cluster.ledgers import keep_written
from epoka.ledger.file import LedgerFile
from epoka.node.config import ConfigError, load
from epoka.node.process import Node, run

LEDGER_NAME = "ledger.jsonl"


def run_broker(path: Path, json: bool) -> int:
    return run_node("broker", path, json)


def run_controller(path: Path, json: bool) -> int:
    return run_node("controller", path, json)


def run_node(role: str, path: Path, json: bool) -> int:
    """Run the node that a property file describes until it ends; returns its exit code."""
    try:
        config = load(path)
    except ConfigError as error:
        raise Failed(str(error), EXIT_USAGE) from error
    roles = config.strings("process.roles")
    if role not in roles:
        raise Failed(f"{path}: process.roles is {','.join(roles)}; this command runs a {role}", EXIT_USAGE)

    ledger = LedgerFile(config.log_dirs[0] / LEDGER_NAME)

    def on_start(node: Node) -> None:
        keep_written(lambda: (ledger,))
        if json:
            endpoints = [str(endpoint) for endpoint in node.endpoints]
            say_json({"started": roles, "node": config.node_id, "endpoints": endpoints})

    try:
        return run(config, report=ledger.write, on_start=on_start)
    finally:
        ledger.flush()
