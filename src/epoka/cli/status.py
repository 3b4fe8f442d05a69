"""`epoka status`: from the controller, with generations, or from any cluster as its clients see it."""

from __future__ import annotations

from pathlib import Path

from epoka.cli.brokers import asking
from epoka.cli.finding import address, the_file, the_folder
from epoka.cli.output import EXIT_FAILED, EXIT_GOOD, Failed, plural, say, say_json, table, usage
from epoka.client.errors import ClientError
from epoka.cluster.ensemble import trouble
from epoka.cluster.layout import ClusterFile
from epoka.cluster.ports import HOST
from epoka.cluster.status import BrokerStatus, ClusterStatus, cluster_status
from epoka.cluster.watching import Watcher


def show_status(bootstrap: str | None, data: Path | None, controller: str | None, json: bool) -> int:
    if sum(each is not None for each in (bootstrap, data, controller)) > 1:
        usage("--bootstrap, --data and --controller all say which cluster is meant; give one")
    if bootstrap is not None:
        status = _from_client_protocol(bootstrap)
    elif controller is not None:
        host, port = address(controller)
        status = _from_controller(Watcher((-1, host, port)), None)
    else:
        known = the_file(the_folder(data))
        controllers = known.controllers.items()
        status = _from_controller(Watcher(*((each, HOST, port) for each, port in controllers)), known)
    if json:
        say_json(status)
    else:
        _print(status)
    return EXIT_GOOD if status.healthy else EXIT_FAILED


def _from_controller(watcher: Watcher, known: ClusterFile | None) -> ClusterStatus:
    why = trouble(known.zookeeper) if known is not None and known.zookeeper else None
    try:
        image = watcher.refresh()
    except ClientError as error:
        raise Failed(why or f"the controller does not answer: {error}") from error
    finally:
        watcher.close()
    return cluster_status(
        image,
        cluster_id=known.cluster_id if known else None,
        mode=known.mode if known else None,
        controller=watcher.controller,
        expected=tuple(int(each) for each in known.brokers) if known else (),
        problem=why,
    )


def _from_client_protocol(bootstrap: str) -> ClusterStatus:
    with asking(bootstrap, None) as client:
        answer = client.metadata(None)
    partitions = [partition for topic in answer.topics for partition in topic.partitions]
    under_replicated = sum(len(each.isr_nodes) < len(each.replica_nodes) for each in partitions)
    offline = sum(each.leader_id < 0 for each in partitions)
    brokers = tuple(
        BrokerStatus(
            id=each.node_id,
            fenced=False,
            endpoints=(f"{each.host}:{each.port}",),
            rack=each.rack,
            leads=sum(partition.leader_id == each.node_id for partition in partitions),
            hosts=sum(each.node_id in partition.replica_nodes for partition in partitions),
        )
        for each in answer.brokers
    )
    return ClusterStatus(
        cluster_id=answer.cluster_id,
        mode=None,
        level=None,
        controller=answer.controller_id,
        brokers=brokers,
        topics=len(answer.topics),
        partitions=len(partitions),
        under_replicated=under_replicated,
        offline=offline,
        healthy=bool(brokers) and not under_replicated and not offline,
    )


def _print(status: ClusterStatus) -> None:
    about = [f"cluster {status.cluster_id or '(unknown)'}"]
    if status.mode:
        about.append(f"{status.mode} mode")
    if status.level:
        about.append(f"level {status.level}")
    if status.controller >= 0:
        about.append(f"controller {status.controller}")
    say(", ".join(about))
    table(
        ("broker", "generation", "state", "leads", "hosts", "listens"),
        [(b.id, b.generation, _state(b), b.leads, b.hosts, b.endpoints) for b in status.brokers],
    )
    say(
        f"{plural(status.topics, 'topic')}, {plural(status.partitions, 'partition')}, "
        f"{status.under_replicated:,} under-replicated, {status.offline:,} offline: "
        f"{'healthy' if status.healthy else 'NOT healthy'}"
    )
    if status.problem is not None:
        say(status.problem)


def _state(broker: BrokerStatus) -> str:
    if broker.generation is None and broker.fenced is None:
        return "not registered"
    if broker.stopping:
        return "stopping"
    return "fenced" if broker.fenced else "active"
