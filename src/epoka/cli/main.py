"""The words of the `epoka` command and what they stand for. Everything is imported when it is needed."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.exceptions import TyperException

app = typer.Typer(
    name="epoka",
    help="A Kafka-compatible log cluster that no stale broker can fool.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
topic_app = typer.Typer(help="Topics of any cluster that speaks Kafka's protocol.", no_args_is_help=True)
node_app = typer.Typer(help="Do something to a node of a cluster that `epoka up` runs.", no_args_is_help=True)
app.add_typer(topic_app, name="topic")
app.add_typer(node_app, name="node")

Json = Annotated[bool, typer.Option("--json", help="Answer in JSON.")]
Bootstrap = Annotated[
    str | None,
    typer.Option(metavar="HOST:PORT,...", help="Brokers of the cluster. [default: the one `epoka up` runs]"),
]
Data = Annotated[
    Path | None,
    typer.Option(metavar="DIR", help="The data directory of the cluster that `epoka up` runs."),
]
ConfigFile = Annotated[Path, typer.Option("--config", metavar="FILE", help="The node's property file.")]
TopicName = Annotated[str, typer.Argument(metavar="TOPIC")]
NodeId = Annotated[int, typer.Argument(metavar="NODE")]


@app.command()
def up(
    brokers: Annotated[int, typer.Option(help="How many brokers.")] = 3,
    mode: Annotated[str, typer.Option(metavar="log|zookeeper", help="Where state lives.")] = "log",
    level: Annotated[str | None, typer.Option(metavar="NAME", help="The feature level to start on.")] = None,
    port: Annotated[int, typer.Option(help="The first broker's port, the others follow; 0: any.")] = 9092,
    data: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Keep everything here. [default: a temporary place]")
    ] = None,
    config: Annotated[
        list[str] | None, typer.Option("--config", metavar="KEY=VALUE", help="A setting of every node.")
    ] = None,
    json: Json = False,
) -> None:
    """Start a cluster and stay until told to stop."""
    from epoka.cli.up import run_up

    _exit(run_up(brokers, mode, level, port, data, config or [], json))


@app.command()
def broker(config: ConfigFile, json: Json = False) -> None:
    """Run one broker of a cluster on many machines."""
    from epoka.cli.single import run_node

    _exit(run_node("broker", config, json))


@app.command()
def controller(config: ConfigFile, json: Json = False) -> None:
    """Run the controller of a cluster on many machines."""
    from epoka.cli.single import run_node

    _exit(run_node("controller", config, json))


@app.command()
def zookeeper(
    nodes: Annotated[int, typer.Option(metavar="1|3", help="How many servers.")] = 1,
    data: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Keep everything here. [default: a temporary place]")
    ] = None,
    port: Annotated[int, typer.Option(help="The first server's port, the others follow; 0: any.")] = 2181,
    json: Json = False,
) -> None:
    """Run a real ZooKeeper, for development, and stay until told to stop."""
    from epoka.cli.zookeeper import run_zookeeper

    _exit(run_zookeeper(nodes, data, port, json))


@app.command()
def status(
    bootstrap: Bootstrap = None,
    data: Data = None,
    controller: Annotated[
        str | None, typer.Option(metavar="HOST:PORT", help="The controller's control listener.")
    ] = None,
    json: Json = False,
) -> None:
    """Brokers, generations, partitions: is all well?

    Exit code 1 when a broker is fenced, stopping or away, or a partition lacks a replica or a leader.
    """
    from epoka.cli.status import show_status

    _exit(show_status(bootstrap, data, controller, json))


@app.command()
def demo(
    records: Annotated[int, typer.Option(min=1, help="How many records.")] = 100_000,
    json: Json = False,
) -> None:
    """Watch a cluster take and return records.

    Starts a cluster, writes and reads records with a real client, and says what happened and how fast.
    """
    from epoka.cli.demo import run_demo

    _exit(run_demo(records, json))


@app.command()
def version(json: Json = False) -> None:
    """Which Epoka this is."""
    from importlib.metadata import version as installed

    from epoka.cli.output import say, say_json

    number = installed("epoka")
    if json:
        say_json({"epoka": number, "python": sys.version.split()[0]})
    else:
        say(f"epoka {number}")


@topic_app.command("list")
def topic_list(
    bootstrap: Bootstrap = None,
    data: Data = None,
    internal: Annotated[bool, typer.Option("--internal", help="The cluster's own topics too.")] = False,
    json: Json = False,
) -> None:
    """All topics."""
    from epoka.cli.topic import list_topics

    _exit(list_topics(bootstrap, data, internal, json))


@topic_app.command("create")
def topic_create(
    topic: TopicName,
    partitions: Annotated[int, typer.Option(help="How many partitions; -1: as the cluster has it.")] = -1,
    replication_factor: Annotated[
        int, typer.Option(help="How many replicas of each; -1: as the cluster has it.")
    ] = -1,
    config: Annotated[
        list[str] | None, typer.Option("--config", metavar="KEY=VALUE", help="A setting of the topic.")
    ] = None,
    bootstrap: Bootstrap = None,
    data: Data = None,
    json: Json = False,
) -> None:
    """Create a topic."""
    from epoka.cli.topic import create_topic

    _exit(create_topic(bootstrap, data, topic, partitions, replication_factor, config or [], json))


@topic_app.command("describe")
def topic_describe(
    topic: TopicName, bootstrap: Bootstrap = None, data: Data = None, json: Json = False
) -> None:
    """Leader, replicas and ISR of every partition.

    Exit code 1 when a partition lacks a replica or a leader.
    """
    from epoka.cli.topic import describe_topic

    _exit(describe_topic(bootstrap, data, topic, json))


@topic_app.command("delete")
def topic_delete(
    topic: TopicName, bootstrap: Bootstrap = None, data: Data = None, json: Json = False
) -> None:
    """Delete a topic and its records."""
    from epoka.cli.topic import delete_topic

    _exit(delete_topic(bootstrap, data, topic, json))


@node_app.command("bounce")
def node_bounce(
    node: NodeId,
    how: Annotated[str, typer.Option(metavar="clean|unclean|fast|wiped", help="How it ends.")] = "clean",
    data: Data = None,
    json: Json = False,
) -> None:
    """End a broker and start it again."""
    _node_verb("bounce", data, json, node=node, how=how)


@node_app.command("kill")
def node_kill(node: NodeId, data: Data = None, json: Json = False) -> None:
    """End a node without warning, as kill -9."""
    _node_verb("kill", data, json, node=node)


@node_app.command("stop")
def node_stop(node: NodeId, data: Data = None, json: Json = False) -> None:
    """A controlled shutdown of one node."""
    _node_verb("stop", data, json, node=node)


@node_app.command("start")
def node_start(node: NodeId, data: Data = None, json: Json = False) -> None:
    """Start a node that does not run."""
    _node_verb("start", data, json, node=node)


@node_app.command("pause")
def node_pause(node: NodeId, data: Data = None, json: Json = False) -> None:
    """Stop a node's time, as SIGSTOP."""
    _node_verb("pause", data, json, node=node)


@node_app.command("resume")
def node_resume(node: NodeId, data: Data = None, json: Json = False) -> None:
    """Let a paused node go on."""
    _node_verb("resume", data, json, node=node)


@node_app.command("isolate")
def node_isolate(
    node: NodeId,
    from_: Annotated[
        str, typer.Option("--from", metavar="all|controller|brokers|NODE", help="Whom it cannot reach.")
    ] = "all",
    data: Data = None,
    json: Json = False,
) -> None:
    """Cut a node off from others; clients still reach it."""
    _node_verb("isolate", data, json, node=node, from_=from_)


@node_app.command("heal")
def node_heal(data: Data = None, json: Json = False) -> None:
    """End every isolation."""
    _node_verb("heal", data, json)


@node_app.command("wipe")
def node_wipe(node: NodeId, data: Data = None, json: Json = False) -> None:
    """Empty the disk of a node that does not run."""
    _node_verb("wipe", data, json, node=node)


def _node_verb(verb: str, data: Path | None, json: bool, **about: Any) -> None:
    from epoka.cli.node import do

    _exit(do(verb, data, json, **about))


def _exit(code: int) -> None:
    raise typer.Exit(code)


def main() -> None:
    """The entry point: every failure that is not a bug ends in one line and an exit code."""
    from epoka.cli.output import EXIT_FAILED, EXIT_USAGE, Failed, complain

    try:
        code = app(prog_name="epoka", standalone_mode=False)
    except TyperException as error:
        message = getattr(error, "format_message", lambda text=str(error): text)()
        if message.startswith("Usage:"):
            print(message, file=sys.stderr)
        else:
            complain(message)
        code = EXIT_USAGE
    except Failed as error:
        complain(str(error))
        code = error.code
    except (typer.Abort, KeyboardInterrupt):
        code = EXIT_FAILED
    except BrokenPipeError:
        # Whoever read the output has gone; Python must not complain about it when it flushes at the end.
        import os

        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = EXIT_FAILED
    sys.exit(code if isinstance(code, int) else 0)


if __name__ == "__main__":
    main()
