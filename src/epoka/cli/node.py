"""`epoka node`: asks the `epoka up` that runs a cluster to do something to one of its nodes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from epoka.cli.finding import the_folder
from epoka.cli.output import EXIT_GOOD, Failed, say, say_json, table
from epoka.cluster.admin import AdminFailed, ask_admin


def list_nodes(data: Path | None, json: bool) -> int:
    try:
        nodes = ask_admin(the_folder(data), "list", {})["nodes"]
    except AdminFailed as error:
        raise Failed(str(error), error.code) from error
    if json:
        say_json(nodes)
    else:
        heads = ("node", "role", "state", "generation", "pid", "listens")
        table(heads, [[each[head] for head in heads] for each in nodes])
    return EXIT_GOOD


def bounce(node: int, how: str, data: Path | None, json: bool) -> int:
    return _do("bounce", data, json, node=node, how=how)


def kill(node: int, data: Path | None, json: bool) -> int:
    return _do("kill", data, json, node=node)


def stop(node: int, data: Path | None, json: bool) -> int:
    return _do("stop", data, json, node=node)


def start(node: int, data: Path | None, json: bool) -> int:
    return _do("start", data, json, node=node)


def pause(node: int, data: Path | None, json: bool) -> int:
    return _do("pause", data, json, node=node)


def resume(node: int, data: Path | None, json: bool) -> int:
    return _do("resume", data, json, node=node)


def isolate(node: int, from_: str, data: Path | None, json: bool) -> int:
    return _do("isolate", data, json, node=node, from_=from_)


def heal(data: Path | None, json: bool) -> int:
    return _do("heal", data, json)


def wipe(node: int, data: Path | None, json: bool) -> int:
    return _do("wipe", data, json, node=node)


def _do(verb: str, data: Path | None, json: bool, **about: Any) -> int:
    folder = the_folder(data)
    try:
        outcome = ask_admin(folder, verb, about)
    except AdminFailed as error:
        raise Failed(str(error), error.code) from error
    if json:
        say_json(outcome)
    elif verb == "bounce":
        say(f"broker {about['node']} is back: generation {outcome['old']} -> {outcome['new']}")
    elif "node" in about:
        say(f"node {about['node']}: {outcome['state']}{_generations(outcome['old'], outcome['new'])}")
    else:
        say("done")
    return EXIT_GOOD


def _generations(old: int | None, new: int | None) -> str:
    """What became of a broker's generation; nothing for a node that has none."""
    if old is None and new is None:
        return ""
    if old == new:
        return f", generation {new}"
    return f", generation {'unknown' if old is None else old} -> {'unknown' if new is None else new}"
