"""Fetch sessions: named once, then only what changed."""

from uuid import UUID

from epoka.broker.fetch_sessions import IDLE_MS, MAX_ID, Fetching, FetchSessions
from epoka.wire.error_codes import ErrorCode
from epoka.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic, ForgottenTopic

TOPIC = UUID(int=7)
LIFE = UUID(int=0)


def asking(*indexes: int, session_id: int = 0, epoch: int = 0, forget: tuple[int, ...] = ()) -> FetchRequest:
    return FetchRequest(
        session_id=session_id,
        session_epoch=epoch,
        topics=(FetchTopic(topic_id=TOPIC, partitions=tuple(FetchPartition(partition=i) for i in indexes)),)
        if indexes
        else (),
        forgotten_topics_data=(ForgottenTopic(topic_id=TOPIC, partitions=forget),) if forget else (),
    )


def indexes(fetching: Fetching | ErrorCode) -> list[int]:
    assert isinstance(fetching, Fetching)
    return [key[1] for key, _ in fetching.partitions]


def opened(sessions: FetchSessions, *partitions: int, now: int = 0) -> int:
    fetching = sessions.resolve(asking(*partitions), 13, now)
    assert isinstance(fetching, Fetching) and fetching.session is not None
    return fetching.session.session_id


def test_a_later_fetch_names_nothing_and_asks_for_everything():
    sessions = FetchSessions(10, LIFE)
    session_id = opened(sessions, 0, 1, 2)
    again = sessions.resolve(asking(session_id=session_id, epoch=1), 13, 1)
    assert indexes(again) == [0, 1, 2]
    assert isinstance(again, Fetching) and again.incremental


def test_partitions_are_added_and_forgotten():
    sessions = FetchSessions(10, LIFE)
    session_id = opened(sessions, 0, 1)
    assert indexes(sessions.resolve(asking(2, session_id=session_id, epoch=1, forget=(0,)), 13, 1)) == [1, 2]


def test_unknown_sessions_and_wrong_epochs_are_refused():
    sessions = FetchSessions(10, LIFE)
    session_id = opened(sessions, 0)
    assert sessions.resolve(asking(session_id=99, epoch=1), 13, 1) == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert (
        sessions.resolve(asking(session_id=session_id, epoch=2), 13, 1)
        == ErrorCode.INVALID_FETCH_SESSION_EPOCH
    )
    assert (
        sessions.resolve(asking(session_id=session_id, epoch=1), 12, 1)
        == ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR
    )


def test_the_final_epoch_closes_the_session():
    sessions = FetchSessions(10, LIFE)
    session_id = opened(sessions, 0)
    closing = sessions.resolve(asking(0, session_id=session_id, epoch=-1), 13, 1)
    assert isinstance(closing, Fetching) and closing.session is None
    assert len(sessions) == 0


def test_a_full_cache_gives_no_session_until_one_is_idle():
    sessions = FetchSessions(1, LIFE)
    first = opened(sessions, 0, now=0)
    refused = sessions.resolve(asking(0), 13, IDLE_MS - 1)
    assert isinstance(refused, Fetching) and refused.session is None
    assert opened(sessions, 0, now=IDLE_MS) != first
    assert len(sessions) == 1


def test_ids_begin_where_the_incarnation_says_and_stay_positive():
    incarnations = (UUID(int=0), UUID(int=MAX_ID - 1), UUID(int=MAX_ID), UUID(int=2**128 - 1))
    firsts = [opened(FetchSessions(10, each), 0) for each in incarnations]
    assert firsts == [1, MAX_ID, 1, 2**128 % MAX_ID]
    last = FetchSessions(10, UUID(int=MAX_ID - 1))
    assert [opened(last, 0), opened(last, 0)] == [MAX_ID, 1]
