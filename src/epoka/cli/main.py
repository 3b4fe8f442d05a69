"""The first words of the `epoka` command, and its entry point.

A new command is one line in `TABLE` and a module in `arguments/` that declares what it takes; see
`commands.py` for how the two become a call. Everything is imported when it is needed.
"""

from __future__ import annotations

import sys

from epoka.cli.commands import Entry, call
from epoka.cli.failures import EXIT_FAILED, Failed, complain

ABOUT = "A Kafka-compatible log cluster that no stale broker can fool."

TABLE = (
    Entry("up", "Start a cluster and stay until told to stop.", "epoka.cli.arguments.up"),
    Entry("status", "Brokers, generations, partitions: is all well?", "epoka.cli.arguments.status"),
    Entry("topic", "Topics of any cluster that speaks Kafka's protocol.", "epoka.cli.arguments.topic"),
    Entry("group", "Consumer groups of any such cluster.", "epoka.cli.arguments.group"),
    Entry("produce", "Write records from standard input.", "epoka.cli.arguments.produce"),
    Entry("consume", "Read records to standard output.", "epoka.cli.arguments.consume"),
    Entry("node", "Do something to a node of a cluster that `epoka up` runs.", "epoka.cli.arguments.node"),
    Entry("ledger", "What the cluster has decided, and by which rule.", "epoka.cli.arguments.ledger"),
    Entry("why", "Why a broker, a partition or a produce request is as it is.", "epoka.cli.arguments.why"),
    Entry("dashboard", "The web page of a cluster.", "epoka.cli.arguments.dashboard"),
    Entry("config", "Settings of topics and brokers.", "epoka.cli.arguments.config"),
    Entry("level", "The feature level: show it, raise it.", "epoka.cli.arguments.level"),
    Entry("broker", "Run one broker of a cluster on many machines.", "epoka.cli.arguments.broker"),
    Entry(
        "controller", "Run the controller of a cluster on many machines.", "epoka.cli.arguments.controller"
    ),
    Entry(
        "scenario",
        "Play the stories of the documents, with and without their rules.",
        "epoka.cli.arguments.scenario",
    ),
    Entry(
        "simulate",
        "Run a whole cluster from a seed, with every fault, and check what must hold.",
        "epoka.cli.arguments.simulate",
    ),
    Entry("pipeline", "Topics, audits, fleets and reports on Spark.", "epoka.cli.arguments.pipeline"),
    Entry("zookeeper", "Run a real ZooKeeper, for development.", "epoka.cli.arguments.zookeeper"),
    Entry("demo", "Watch a cluster take and return records.", "epoka.cli.arguments.demo"),
    Entry("completion", "Completion for your shell.", "epoka.cli.arguments.completion"),
    Entry("version", "Which Epoka this is.", "epoka.cli.arguments.version"),
)


def run(words: list[str]) -> int:
    """Do what the words say; every failure that is not a bug ends in one line and an exit code."""
    try:
        try:
            return _answer(words)
        finally:
            # What cannot be written shall fail here, where it can be told.
            if sys.stdout is not None:
                sys.stdout.flush()
    except Failed as error:
        complain(str(error))
        return error.code
    except KeyboardInterrupt:
        return EXIT_FAILED
    except BrokenPipeError:
        # Whoever read the output has gone.
        _forget_output()
        return EXIT_FAILED
    except OSError as error:
        # A full disk behind standard output has no file name; anything else mostly has one.
        complain(": ".join(str(each) for each in (error.filename, error.strerror or error) if each))
        _forget_output()
        return EXIT_FAILED


def _answer(words: list[str]) -> int:
    if words[:1] == ["__complete"]:
        from epoka.cli.completion import answer

        return answer(TABLE, words[1:])
    return call(TABLE, words, ABOUT)


def _forget_output() -> None:
    """What still cannot be written goes nowhere: Python would complain of it when it flushes at the end."""
    try:
        if sys.stdout is not None:
            sys.stdout.flush()
    except OSError:
        import os

        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def main() -> None:
    sys.exit(run(sys.argv[1:]))


if __name__ == "__main__":
    main()
