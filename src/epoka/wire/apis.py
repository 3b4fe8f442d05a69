"""The APIs that the codec knows, by key, by name and by message class.

These are codec ranges: what can be read and written. Which of them a broker serves is decided in
`broker/api`. The message classes of an API are imported when it is first asked for, because most commands
need few of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib import import_module

import msgspec

from epoka.wire.messages.index import INDEX


class Api(msgspec.Struct, frozen=True):
    """One API: its key and name, its message classes and the versions that have a schema."""

    key: int
    name: str
    request: type[msgspec.Struct]
    response: type[msgspec.Struct]
    min_version: int
    max_version: int
    flexible_from: int | None

    def flexible_at(self, version: int) -> bool:
        return self.flexible_from is not None and version >= self.flexible_from


class ApiTable(Mapping[int, Api]):
    """Key to Api, in the order of the keys."""

    def __init__(self) -> None:
        self._loaded: dict[int, Api] = {}

    def __getitem__(self, key: int) -> Api:
        found = self._loaded.get(key)
        if found is None:
            name, module_name, first, last = INDEX[key]
            module = import_module(f"epoka.wire.messages.{module_name}")
            request, response = getattr(module, f"{name}Request"), getattr(module, f"{name}Response")
            found = Api(key, name, request, response, first, last, request.FLEXIBLE_FROM)
            self._loaded[key] = found
        return found

    def __iter__(self) -> Iterator[int]:
        return iter(INDEX)

    def __len__(self) -> int:
        return len(INDEX)

    def __contains__(self, key: object) -> bool:
        return key in INDEX


APIS: Mapping[int, Api] = ApiTable()
_KEYS = {name: key for key, (name, *_) in INDEX.items()}


def api(wanted: int | str | type | msgspec.Struct) -> Api:
    """The API with a key, with a name such as "Fetch", or of a message or its class; KeyError if there is
    none."""
    if isinstance(wanted, int):
        return APIS[wanted]
    if isinstance(wanted, str):
        return APIS[_KEYS[wanted]]
    key = getattr(wanted, "API_KEY", None)
    if not isinstance(key, int):
        raise KeyError(wanted)
    return APIS[key]
