"""One partition's log, and the directory that holds many: what is written, kept, read and recovered."""

from epoka.log.config import LogConfig
from epoka.log.directory import DirectoryRefused, LogDirectory
from epoka.log.epochs import EpochHistory
from epoka.log.partition_log import Appended, PartitionLog, Refused, Span
from epoka.log.recovery import Cut, Recovery
from epoka.log.store import FileStore, MemoryStore, StorageError, Store

__all__ = [
    "Appended",
    "Cut",
    "DirectoryRefused",
    "EpochHistory",
    "FileStore",
    "LogConfig",
    "LogDirectory",
    "MemoryStore",
    "PartitionLog",
    "Recovery",
    "Refused",
    "Span",
    "StorageError",
    "Store",
]
