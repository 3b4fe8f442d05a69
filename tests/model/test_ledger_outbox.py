"""Ledger events on their way to the topic."""

from epoka.model.ledger import LedgerEvent
from epoka.model.ledger_outbox import INTERVAL_MS, MOST_WAITING, RETRY_MS, LedgerOutbox, decode
from epoka.wire import records
from epoka.wire.messages import produce


def event(number: int) -> LedgerEvent:
    return LedgerEvent(kind="fenced", time_ms=number, event_id=number)


def sent(request: produce.ProduceRequest | None) -> list[LedgerEvent]:
    assert request is not None
    batch = request.topic_data[0].partition_data[0].records
    return [decode(record.value) for record in records.decode_batch(batch)]


def answer(error: int = 0) -> produce.ProduceResponse:
    partition = produce.PartitionProduceResponse(error_code=error)
    return produce.ProduceResponse(
        responses=(produce.TopicProduceResponse(partition_responses=(partition,)),)
    )


def test_events_wait_a_moment_and_leave_together_in_order():
    outbox = LedgerOutbox()
    outbox.add(event(1), 100)
    outbox.add(event(2), 150)
    assert outbox.due == 100 + INTERVAL_MS
    assert sent(outbox.request(outbox.due)) == [event(1), event(2)]
    outbox.answered(answer(), 400)
    assert outbox.due is None


def test_one_request_is_in_flight_at_a_time():
    outbox = LedgerOutbox()
    outbox.add(event(1), 0)
    outbox.request(300)
    outbox.add(event(2), 300)
    assert outbox.due is None and outbox.request(600) is None
    outbox.answered(answer(), 700)
    assert outbox.due == 700 + INTERVAL_MS
    assert sent(outbox.request(1_000)) == [event(2)]


def test_what_was_not_taken_is_sent_again_before_anything_newer():
    for refused in (None, answer(6)):
        outbox = LedgerOutbox()
        outbox.add(event(1), 0)
        outbox.request(300)
        outbox.add(event(2), 300)
        outbox.answered(refused, 400)
        assert outbox.due == 400 + RETRY_MS
        assert sent(outbox.request(1_400)) == [event(1), event(2)]


def test_when_nobody_takes_them_the_oldest_go_and_that_is_said():
    outbox = LedgerOutbox()
    for number in range(MOST_WAITING + 3):
        outbox.add(event(number), number)
    first, second = sent(outbox.request(10**6))[:2]
    assert (first.kind, first.detail) == ("ledger-dropped", "3 events")
    assert second == event(3)
