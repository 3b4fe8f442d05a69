"""`epoka pipeline`: the data pipeline's jobs, each of them a function that a notebook can call as well."""

from __future__ import annotations

from pathlib import Path

from epoka.cli.finding import ClientConfig, addresses
from epoka.cli.output import EXIT_FAILED, EXIT_GOOD, Failed, plural, say, say_json, settings_of
from epoka.cli.progress import bar as _bar
from epoka.cli.spark_session import installed as _installed
from epoka.cli.spark_session import session as _session


def topics(
    topics: list[str],
    target: str,
    options: list[str],
    bootstrap: str | None,
    data: Path | None,
    master: str | None,
    storage: str,
    json: bool,
) -> int:
    with _installed():
        from epoka.spark.topics import copy_topics
    given = {"subscribe": ",".join(topics), **_cluster(bootstrap, data), **settings_of(options)}
    with _session(master) as spark, _bar("copying") as progress:
        copied = copy_topics(spark, given, Path(target), progress=progress, storage=storage)
    if json:
        say_json(copied)
    else:
        say(f"{plural(copied.rows, 'record')} in {copied.batches} batches, in {copied.folder}")
        for topic, parts in sorted(copied.offsets.items()):
            say(f"  {topic}: " + ", ".join(f"{part} up to {end:,}" for part, end in sorted(parts.items())))
    return EXIT_GOOD


def audit(
    ledgers: list[str],
    target: str,
    bootstrap: str | None,
    data: Path | None,
    master: str | None,
    storage: str,
    json: bool,
) -> int:
    with _installed():
        from epoka.spark.audit.run import audit_files, audit_topic
    given = {} if ledgers else _cluster(bootstrap, data)
    with _session(master) as spark:
        try:
            if ledgers:
                found = audit_files(spark, [Path(each) for each in ledgers], Path(target), storage=storage)
            else:
                found = audit_topic(spark, given, Path(target), storage=storage)
        except FileNotFoundError as error:
            raise Failed(str(error)) from None
    if json:
        say_json(found)
    else:
        say(
            f"{plural(found.events, 'event')}, {plural(found.generations, 'generation')}, "
            f"{plural(found.partitions, 'partition')}; tables in {found.folder}"
        )
        for rule, times in sorted(found.refused.items()):
            say(f"  {rule} refused {times:,} times")
        if found.failover_ms is not None:
            say(f"  the slowest failover took {found.failover_ms:,} ms")
        for kind, times in found.unknown.items():
            say(f"  {times:,} entries of a kind that this version does not know: {kind}")
        for invariant, times in found.violations.items():
            say(f"  VIOLATED {times:,} times: {invariant}")
        if found.sound:
            say("  every invariant held")
    return EXIT_GOOD if found.sound else EXIT_FAILED


def report(audit: str, page: str | None, json: bool) -> int:
    folder = Path(audit)
    if not (folder / "gold").is_dir():
        raise Failed(f"there are no tables in {folder}; make them with `epoka pipeline audit --to {folder}`")
    with _installed():
        from epoka.spark.audit.report import write_report
    written = write_report(folder, Path(page) if page else folder / "report.html")
    if json:
        say_json({"report": str(written)})
    else:
        say(str(written))
    return EXIT_GOOD


def _cluster(bootstrap: str | None, data: Path | None) -> dict[str, str]:
    """The options that make Spark reach the cluster that is meant."""
    servers = ",".join(f"{host}:{port}" for host, port in addresses(bootstrap, data))
    reaching = {**ClientConfig.reaching, "bootstrap.servers": servers}
    return {f"kafka.{name}": value for name, value in reaching.items()}
