"""Who is the controller: whoever holds `/controller`, with the epoch it raised in the same step.

A mandate is an epoch and the version of `/controller_epoch` that came with it. Every later write carries a
check of that version, so that the moment somebody else is elected, a controller that does not know it yet
can change nothing. A mandate ends with its session, too.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import msgspec

from epoka.controller.metadata_log import MetadataLogFailed
from epoka.coordination.zookeeper import paths
from epoka.coordination.zookeeper.operations import (
    NO_AUTH,
    NO_NODE,
    NODE_EXISTS,
    Check,
    Create,
    Delete,
    Refused,
    SetData,
)
from epoka.coordination.zookeeper.session import (
    AccessDenied,
    Interrupted,
    Session,
    Watch,
    ZooKeeperError,
)
from epoka.coordination.zookeeper.znodes import (
    BadZnode,
    ControllerZnode,
    decode_controller,
    decode_epoch,
    encode_controller,
)

_MOST_ATTEMPTS: Final = 100


class Deposed(MetadataLogFailed):
    """Another controller has been elected, or the session of this one has ended. Nothing was written."""


class Mandate(msgspec.Struct, frozen=True):
    """The right to decide, for as long as nobody else is elected."""

    epoch: int
    zk_version: int
    session: int

    @property
    def guard(self) -> Check:
        """What every step of this mandate begins with."""
        return Check(paths.CONTROLLER_EPOCH, self.zk_version)


class Held(msgspec.Struct, frozen=True):
    """The office is taken."""

    session: int
    controller: ControllerZnode | None
    """None when the node says nothing that can be read."""
    reason: str = ""


class Election:
    """One candidate's view of the office."""

    def __init__(self, session: Session, candidate: ControllerZnode) -> None:
        self._session = session
        self._candidate = candidate

    def stand(self, now_ms: int) -> Mandate | Held:
        """Take the office if it is vacant. Taking the node and raising the epoch is one step.

        An office that our own session still holds was left while ZooKeeper could not be told. It is taken
        with a new epoch like any other: a mandate that is over never begins again.
        """
        data = encode_controller(self._candidate, now_ms)
        for _ in range(_MOST_ATTEMPTS):
            try:
                self._session.sync(paths.CONTROLLER_EPOCH)
                session_id = self._session.id
                held = self.holder()
                epoch, version = self._epoch()
                if held is not None and held.session != session_id:
                    return held
                take = (
                    Create(paths.CONTROLLER, data, ephemeral=True)
                    if held is None
                    else SetData(paths.CONTROLLER, data)
                )
                raise_epoch = SetData(paths.CONTROLLER_EPOCH, str(epoch + 1).encode(), version)
                self._session.multi([take, raise_epoch])
                # While our session holds the office nobody raises the epoch; a newer session proves nothing.
                if self._session.id == session_id:
                    return Mandate(epoch + 1, version + 1, session_id)
            except Refused as refused:
                if refused.reason == NO_AUTH:
                    raise AccessDenied(str(refused)) from refused
                # Somebody was faster; the next look tells whether the office is still theirs.
                continue
            except Interrupted:
                if not self._session.connected:
                    self._session.sync(paths.CONTROLLER_EPOCH)
                continue
        raise ZooKeeperError(f"{paths.CONTROLLER}: no election came to an end in {_MOST_ATTEMPTS} attempts")

    def resign(self, mandate: Mandate) -> None:
        """Leave the office, unless it is somebody else's by now."""
        for _ in range(_MOST_ATTEMPTS):
            if self._session.id != mandate.session:
                return
            try:
                self._session.multi([mandate.guard, Delete(paths.CONTROLLER)])
                return
            except Refused:
                return
            except Interrupted:
                self._session.sync(paths.CONTROLLER_EPOCH)

    def holder(self) -> Held | None:
        """Who is in office; None when nobody is."""
        node = self._session.get(paths.CONTROLLER)
        if node is None:
            return None
        try:
            return Held(node.stat.owner, decode_controller(paths.CONTROLLER, node.data))
        except BadZnode as bad:
            return Held(node.stat.owner, None, str(bad))

    def watch(self, callback: Callable[[], None]) -> Watch:
        """Be told that the office may have become vacant or taken. Runs on kazoo's thread."""
        return self._session.watch_node(paths.CONTROLLER, callback)

    # Inside.

    def _epoch(self) -> tuple[int, int]:
        """The last epoch and the version of its node, which is made if there was none yet."""
        node = self._session.get(paths.CONTROLLER_EPOCH)
        if node is None:
            try:
                self._session.create(paths.CONTROLLER_EPOCH, b"0")
            except Refused as refused:
                if refused.reason not in (NODE_EXISTS, NO_NODE):
                    raise ZooKeeperError(str(refused)) from refused
            return 0, 0
        try:
            return decode_epoch(paths.CONTROLLER_EPOCH, node.data), node.stat.version
        except BadZnode as bad:
            raise ZooKeeperError(f"no controller can be elected: {bad}") from bad
