"""One log directory: which partitions it has, whose it is, and how its last life ended.

Decides whether this node may use a directory, whether its logs need recovery, and which generation shut
down cleanly in it. It must never open a directory of another node or cluster, nor one that another
process has open.

The clean-shutdown marker carries the generation of the life that wrote it. It is written last, after
every log is flushed, and removed durably before any log is opened, so that it is there only if nothing
has happened since. A second marker carries the last generation that a life here has had, however it ended.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from uuid import UUID, uuid4

import msgspec

from epoka.log.config import LogConfig
from epoka.log.partition_log import PartitionLog
from epoka.log.recovery import Recovery
from epoka.log.store import StorageError, Store

META = "meta.properties"
CLEAN_SHUTDOWN = ".kafka_cleanshutdown"
GENERATION = ".epoka_generation"
RECOVERY_POINTS = "recovery-point-offset-checkpoint"
HIGH_WATERMARKS = "replication-offset-checkpoint"
PARTITION_METADATA = "partition.metadata"

TopicPartition = tuple[str, int]


class DirectoryRefused(Exception):
    """The directory belongs to another node or cluster, or a partition in it to another topic."""


class Marker(msgspec.Struct, frozen=True, rename="camel"):
    version: int
    broker_epoch: int


class LogDirectory:
    def __init__(
        self, store: Store, directory_id: UUID, config_of: Callable[[str], LogConfig], now: int
    ) -> None:
        self._store = store
        self._config_of = config_of
        self._now = now
        self._points: dict[TopicPartition, int] = {}
        self._marks: dict[TopicPartition, int] = {}
        """Recovery points and high watermarks as they were last written."""
        self.directory_id = directory_id
        self.logs: dict[TopicPartition, PartitionLog] = {}
        self.recoveries: dict[TopicPartition, Recovery] = {}
        self.previous_generation = -1
        """Of the life before, if it ended cleanly."""
        self.last_generation = -1
        """Of the last life that was registered, however it ended."""
        self.was_clean = False

    @classmethod
    def open(
        cls,
        store: Store,
        *,
        cluster_id: str,
        node_id: int,
        now: int,
        directory_id: UUID | None = None,
        config_of: Callable[[str], LogConfig] = lambda topic: LogConfig(),
    ) -> LogDirectory:
        """Locks the directory and opens every log in it, recovering those that were not closed cleanly.

        `directory_id` is for a directory that has none yet.
        """
        store.lock()
        try:
            found = _own(store, cluster_id, node_id, directory_id)
            directory = cls(store, found, config_of, now)
            directory._open_logs(now)
        except BaseException:
            store.unlock()
            raise
        return directory

    @property
    def place(self) -> str:
        return self._store.place

    def _open_logs(self, now: int) -> None:
        last, previous = _read_marker(self._store, GENERATION), _read_marker(self._store, CLEAN_SHUTDOWN)
        self.last_generation = -1 if last is None else last
        self.previous_generation = -1 if previous is None else previous
        self.was_clean = previous is not None
        if self._store.exists(CLEAN_SHUTDOWN):
            # An emptied marker is no marker. Writing it is durable at once, deleting alone is not.
            self._store.replace(CLEAN_SHUTDOWN, b"")
            self._store.delete(CLEAN_SHUTDOWN)
        self._points = read_checkpoint(self._store, RECOVERY_POINTS)
        self._marks = read_checkpoint(self._store, HIGH_WATERMARKS)
        for name in self._store.folders():
            partition = parse_folder(name)
            if partition is None:
                continue
            folder = self._store.folder(name)
            topic_id = read_topic_id(folder)
            if topic_id is None and not folder.names():
                # The folder was made and the node died before it said whose it is.
                self._store.delete_folder(name)
                continue
            try:
                log = PartitionLog.open(
                    folder,
                    self._config_of(partition[0]),
                    recovery_point=self._points.get(partition, 0),
                    clean=self.was_clean,
                    now=now,
                    topic_id=topic_id,
                    high_watermark=self._marks.get(partition, 0),
                    on_recovery_point_lowered=self._lowers(partition),
                )
            except StorageError as error:
                raise StorageError(f"{self._store.place}: partition {name}: {error}") from error
            self.logs[partition] = log
            self.recoveries[partition] = log.recovery

    def _lowers(self, partition: TopicPartition) -> Callable[[int], None]:
        def lower(offset: int) -> None:
            # The points that were last written, not the current ones: those may be ahead of a failed flush.
            self._points[partition] = min(self._points.get(partition, 0), offset)
            write_checkpoint(self._store, RECOVERY_POINTS, self._points)

        return lower

    def log(self, topic: str, partition: int) -> PartitionLog | None:
        return self.logs.get((topic, partition))

    def create(
        self, topic: str, partition: int, topic_id: UUID | None, config: LogConfig | None = None
    ) -> PartitionLog:
        """The log of a partition, made if it is not there; DirectoryRefused if it is another topic's."""
        existing = self.logs.get((topic, partition))
        if existing is not None:
            if topic_id is not None and existing.topic_id is not None and existing.topic_id != topic_id:
                raise DirectoryRefused(
                    f"{self.place}/{topic}-{partition} is of topic id {existing.topic_id}, not {topic_id}"
                )
            return existing
        folder = self._store.folder(f"{topic}-{partition}")
        if topic_id is not None:
            folder.replace(PARTITION_METADATA, f"version: 0\ntopic_id: {topic_id}\n".encode())
        log = PartitionLog.open(
            folder,
            config if config is not None else self._config_of(topic),
            recovery_point=0,
            clean=False,
            now=self._now,
            topic_id=topic_id,
            on_recovery_point_lowered=self._lowers((topic, partition)),
        )
        self.logs[topic, partition] = log
        return log

    def adopt(self, topic: str, partition: int, topic_id: UUID) -> None:
        """The log belongs to a topic whose real id has only become known now."""
        folder = self._store.folder(f"{topic}-{partition}")
        folder.replace(PARTITION_METADATA, f"version: 0\ntopic_id: {topic_id}\n".encode())
        self.logs[topic, partition].topic_id = topic_id

    def delete(self, topic: str, partition: int) -> None:
        """Takes a partition away, files and all."""
        log = self.logs.pop((topic, partition), None)
        if log is not None:
            log.close(clean=False)
        for name, kept in ((RECOVERY_POINTS, self._points), (HIGH_WATERMARKS, self._marks)):
            if kept.pop((topic, partition), None) is not None:
                # A new partition of the same name must not inherit what is known of this one.
                write_checkpoint(self._store, name, kept)
        self._store.delete_folder(f"{topic}-{partition}")

    def checkpoint(self, high_watermarks: Mapping[TopicPartition, int] | None = None) -> None:
        """Writes how far every log is flushed and how far it is committed."""
        marks = {partition: log.high_watermark for partition, log in self.logs.items()}
        if high_watermarks is not None:
            marks.update(high_watermarks)
        self._points = {partition: log.recovery_point for partition, log in self.logs.items()}
        self._marks = marks
        write_checkpoint(self._store, RECOVERY_POINTS, self._points)
        write_checkpoint(self._store, HIGH_WATERMARKS, self._marks)

    def remember(self, generation: int) -> None:
        """Writes which generation the life has that uses the directory."""
        self._store.replace(GENERATION, msgspec.json.encode(Marker(0, generation)))

    def shutdown(self, generation: int) -> None:
        """Closes every log cleanly and says so under the generation that ends here.

        A log that failed cannot be closed cleanly: then there is no marker, and the next life recovers.
        """
        failed: StorageError | None = None
        for log in self.logs.values():
            try:
                log.close(clean=True)
            except StorageError as error:
                failed = error
                log.close(clean=False)
        try:
            self.checkpoint()
            if failed is None:
                self._store.replace(CLEAN_SHUTDOWN, msgspec.json.encode(Marker(0, generation)))
        finally:
            self._store.unlock()
        if failed is not None:
            raise failed

    def abandon(self) -> None:
        """Lets go of everything without a word, as a crash does."""
        for log in self.logs.values():
            log.close(clean=False)
        self._store.unlock()


def _own(store: Store, cluster_id: str, node_id: int, directory_id: UUID | None) -> UUID:
    content = store.read_all(META)
    if content is None:
        if any(parse_folder(name) is not None for name in store.folders()):
            raise DirectoryRefused(f"{store.place} has partitions but no {META} that says whose they are")
        fresh = directory_id if directory_id is not None else uuid4()
        lines = ["version=1", f"cluster.id={cluster_id}", f"node.id={node_id}", f"directory.id={fresh}"]
        store.replace(META, ("\n".join(lines) + "\n").encode())
        return fresh
    found: dict[str, str] = {}
    for line in content.decode(errors="replace").splitlines():
        key, separator, value = line.partition("=")
        if separator and not line.startswith("#"):
            found[key.strip()] = value.strip()
    if found.get("cluster.id") != cluster_id:
        raise DirectoryRefused(
            f"{store.place} belongs to cluster {found.get('cluster.id')}, this is cluster {cluster_id}"
        )
    if found.get("node.id") != str(node_id):
        raise DirectoryRefused(
            f"{store.place} belongs to node {found.get('node.id')}, this is node {node_id}"
        )
    try:
        return UUID(found.get("directory.id", ""))
    except ValueError:
        raise DirectoryRefused(f"{store.place}/{META} has no readable directory.id") from None


def _read_marker(store: Store, name: str) -> int | None:
    """The generation in a marker that can be read."""
    try:
        return msgspec.json.decode(store.read_all(name) or b"", type=Marker).broker_epoch
    except msgspec.DecodeError:
        return None


def parse_folder(name: str) -> TopicPartition | None:
    topic, separator, partition = name.rpartition("-")
    if not separator or not topic or not partition.isascii() or not partition.isdigit():
        return None
    return topic, int(partition)


def read_topic_id(folder: Store) -> UUID | None:
    content = folder.read_all(PARTITION_METADATA)
    if content is None:
        return None
    for line in content.decode(errors="replace").splitlines():
        key, _separator, value = line.partition(":")
        if key.strip() == "topic_id":
            try:
                return UUID(value.strip())
            except ValueError:
                break
    raise StorageError(f"{folder.place}/{PARTITION_METADATA} has no readable topic id")


def read_checkpoint(store: Store, name: str) -> dict[TopicPartition, int]:
    """Partition to offset. A file that cannot be read counts as empty: zero is always a safe answer."""
    content = store.read_all(name)
    if content is None:
        return {}
    found: dict[TopicPartition, int] = {}
    try:
        lines = content.decode().splitlines()
        if lines[0] != "0" or len(lines) != 2 + int(lines[1]):
            return {}
        for line in lines[2:]:
            topic, partition, offset = line.split(" ")
            found[topic, int(partition)] = int(offset)
    except (ValueError, IndexError):
        return {}
    return found


def write_checkpoint(store: Store, name: str, offsets: Mapping[TopicPartition, int]) -> None:
    lines = ["0", str(len(offsets))]
    lines += [f"{topic} {partition} {offset}" for (topic, partition), offset in sorted(offsets.items())]
    store.replace(name, ("\n".join(lines) + "\n").encode())
