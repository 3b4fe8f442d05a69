"""The controller's core: it decides and does no I/O. One module a concern; `core` carries decisions out."""

from epoka.controller.config import ControllerConfig
from epoka.controller.core import ControllerCore
from epoka.controller.metadata_log import Loaded, MemoryMetadataLog, MetadataLog, MetadataLogFailed

__all__ = [
    "ControllerConfig",
    "ControllerCore",
    "Loaded",
    "MemoryMetadataLog",
    "MetadataLog",
    "MetadataLogFailed",
]
