"""The dashboard in a real browser: how soon its pages are there, what travels, and whether it keeps its size.

The cluster is staged, with 10,000 topics and 40,000 partitions; server, pages and browser are the real ones.
As many updates as ten minutes bring, each of a kind that a cluster with faults going on tells, are given as
fast as the browser takes them, while somebody goes from page to page.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any
from uuid import UUID

import msgspec

from benchmarks.figures import Figure, beside
from epoka.cluster.layout import ClusterFile
from epoka.dashboard.observing import LOOK_AGAIN_S, Observer
from epoka.dashboard.rates import MOST_POINTS, STEP_S, Point
from epoka.dashboard.serving import Dashboard
from epoka.model.image import ClusterImage
from epoka.model.ledger import LedgerEvent
from epoka.wire.messages import metadata_records as m
from tests.browser.conftest import FLAGS

TOPICS = 10_000
PARTITIONS = 4
BROKERS = (1, 2, 3)
CONTROLLER = 100
MINUTES = 10
UPDATES = int(MINUTES * 60 / LOOK_AGAIN_S)
FAULT_EVERY = int(5 / LOOK_AGAIN_S)
RATES_EVERY = int(STEP_S / LOOK_AGAIN_S)
METADATA_EVERY = int(1 / LOOK_AGAIN_S)
WARM_UP = 210
"""Updates before the first look at the heap: everything is compiled by then."""
AT_ONCE = 20
"""Updates before the page is waited for; a page that falls behind would be told to begin anew."""
ROUNDS = 5
READY_MS = 300.0
READY_BYTES = 150_000.0
STEADY = 1.25
"""The most that the heap may be larger after than before: what the new lives and faults take, and no more."""
MOST_NODES = 5_000.0
KB = 1e3
MB = 1e6

PAGES = (
    ("#/overview", ".card"),
    ("#/brokers", "tbody tr"),
    ("#/generations", ".chart .life"),
    ("#/decisions", "tbody tr"),
    ("#/topics//out-of-sync", "tbody tr"),
    ("#/topics/topic-00010/3", ".history li"),
    ("#/past", ".past-brokers .card"),
)

_READY = """([hash, wanted]) => new Promise((resolve, reject) => {
  const began = performance.now();
  const watch = new MutationObserver(() => {
    if (!document.querySelector(wanted)) return;
    watch.disconnect();
    resolve(performance.now() - began);
  });
  document.getElementById("main").replaceChildren();
  watch.observe(document.body, { childList: true, subtree: true });
  if (location.hash === hash) window.dispatchEvent(new HashChangeEvent("hashchange"));
  else location.hash = hash;
  setTimeout(() => reject(new Error(`${hash} is not ready`)), 30000);
})"""
"""From the click to the content, by the browser's own clock."""

_WATCH = """
const watch = new MutationObserver(() => {
  if (!document.querySelector(".card")) return;
  watch.disconnect();
  window.readyAfter = performance.now();
});
watch.observe(document, { childList: true, subtree: true });
"""

_OFFSET = "() => import('/static/store.js').then(({ store }) => store.state.offset)"


class Stage(Observer):
    """An observer of a cluster that is not there; its time passes in `update`."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self._file = folder / f"controller-{CONTROLLER}" / "ledger.jsonl"
        self._file.parent.mkdir()
        self._staged = _image()
        self._ids = 0
        self._generation = {each: each for each in BROKERS}
        self._cluster = ClusterFile(
            1, "staged", "log", "fetch-epochs", CONTROLLER, 0, {str(each): (0, 0) for each in BROKERS}
        )

    def start(self) -> None:
        self._write([self._event("active", detail="staged")])
        for broker in BROKERS:
            self._write([self._life(broker, "registered"), self._life(broker, "unfenced")])
        self._look_around()

    def _ask(self) -> tuple[ClusterImage, int, ClusterFile]:
        return self._staged, CONTROLLER, self._cluster

    @property
    def offset(self) -> int:
        return self._staged.offset

    def update(self, number: int) -> None:
        """What may be told in a fifth of a second."""
        topic, isr = number * 10 % TOPICS, (1, 2, 3) if number % 2 else (1, 2)
        if number % METADATA_EVERY == 0:
            change = m.PartitionChangeRecord(partition_id=3, topic_id=UUID(int=topic + 1), isr=isr)
            self._staged.apply_batch([change], self._staged.offset + 1)
        events = [
            self._event(
                "isr",
                topic=f"topic-{topic:05}",
                partition=3,
                leader=1,
                leader_epoch=0,
                partition_epoch=number,
                isr=isr,
                isr_before=(1, 2, 3),
                rule="isr.generation",
                detail="staged",
            ),
            self._event(
                "verdict",
                rule="fetch.generation",
                verdict="refused",
                broker=3,
                given=str(number),
                expected=f">= {number + 1}",
            ),
        ]
        if number % FAULT_EVERY == 0:
            broker = BROKERS[number // FAULT_EVERY % len(BROKERS)]
            events.append(self._event("fault", given="kill", broker=broker, detail=f"killed broker {broker}"))
            events.append(self._life(broker, "fenced"))
            self._generation[broker] = number + 10
            events += [self._life(broker, "registered"), self._life(broker, "unfenced")]
        self._write(events)
        if number % RATES_EVERY == 0:
            self.tell_rate(number)
        self._look_around()

    def tell_rate(self, number: int) -> None:
        self._rates._add(Point(int(time.time() * 1000), number % 700, number % 300))

    def _look_around(self) -> None:
        self._read_ledger()
        self._read_metadata()
        self._tell()

    def _life(self, broker: int, kind: str) -> LedgerEvent:
        return self._event(kind, broker=broker, broker_epoch=self._generation[broker], given=str(UUID(int=1)))

    def _event(self, kind: str, **about: Any) -> LedgerEvent:
        self._ids += 1
        return LedgerEvent(kind, int(time.time() * 1000), CONTROLLER, event_id=self._ids, **about)

    def _write(self, events: list[LedgerEvent]) -> None:
        with self._file.open("ab") as file:
            file.write(msgspec.json.Encoder().encode_lines(events))


def _image() -> ClusterImage:
    """Partition 3 of every tenth topic has lost a replica."""
    image = ClusterImage()
    nowhere = (m.BrokerEndpoint("PLAINTEXT", "127.0.0.1", 1),)
    records: list[Any] = [
        m.RegisterBrokerRecord(each, False, UUID(int=each), each, nowhere, fenced=False) for each in BROKERS
    ]
    for topic in range(TOPICS):
        topic_id = UUID(int=topic + 1)
        records.append(m.TopicRecord(name=f"topic-{topic:05}", topic_id=topic_id))
        for index in range(PARTITIONS):
            isr = (1, 2) if index == 3 and topic % 10 == 0 else BROKERS
            records.append(
                m.PartitionRecord(partition_id=index, topic_id=topic_id, replicas=BROKERS, isr=isr, leader=1)
            )
    image.apply_batch(records, 0)
    return image


@contextmanager
def _browser() -> Iterator[Any]:
    from playwright.sync_api import sync_playwright

    chromium = shutil.which("chromium")
    if chromium is None:
        raise RuntimeError("the dashboard is measured in chromium, and there is none")
    flags = [*FLAGS, "--no-sandbox"] if os.geteuid() == 0 else list(FLAGS)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=flags)
        yield browser
        browser.close()


@contextmanager
def _fresh_page(browser: Any) -> Iterator[Any]:
    """A page of somebody who has never been here."""
    context = browser.new_context(viewport={"width": 1280, "height": 860})
    yield context.new_page()
    context.close()


def overview(browser: Any, url: str) -> float:
    """Milliseconds until a fresh page shows the overview, by the browser's own clock."""
    with _fresh_page(browser) as page:
        page.add_init_script(_WATCH)
        page.goto(url, wait_until="commit")
        page.wait_for_selector(".card")
        return float(page.evaluate("window.readyAfter"))


def overview_bytes(browser: Any, url: str) -> float:
    """What travels for it; counting costs time, so it is a visit of its own."""
    received: dict[str, float] = {}

    def arrived(event: dict[str, Any]) -> None:
        received[event["requestId"]] = received.get(event["requestId"], 0) + event["dataLength"]

    def finished(event: dict[str, Any]) -> None:
        received[event["requestId"]] = event["encodedDataLength"]

    with _fresh_page(browser) as page:
        wire = page.context.new_cdp_session(page)
        wire.send("Network.enable")
        wire.on("Network.dataReceived", arrived)
        wire.on("Network.loadingFinished", finished)
        page.goto(url, wait_until="commit")
        page.wait_for_selector(".charts svg")
    return sum(received.values())


def ready(page: Any, hash_: str, selector: str) -> float:
    """Milliseconds from the click to the content."""
    return float(page.evaluate(_READY, [hash_, selector]))


def heap(page: Any, session: Any) -> tuple[float, int]:
    """What the page holds when nothing more can be collected: bytes of JavaScript, and nodes."""
    page.goto(page.url.partition("#")[0] + "#/overview")
    page.wait_for_selector(".card")
    for _ in range(3):
        session.send("HeapProfiler.collectGarbage")
    used = session.send("Runtime.getHeapUsage")["usedSize"]
    return float(used), int(session.send("Memory.getDOMCounters")["nodes"])


def live(page: Any, stage: Stage, first: int, count: int) -> None:
    """So many updates, spread over every page."""
    each = count // len(PAGES)
    for at, (hash_, selector) in enumerate(PAGES):
        ready(page, hash_, selector)
        begin = first + at * each
        for number in range(begin, begin + each):
            stage.update(number)
            if number % AT_ONCE == 0:
                _caught_up(page, stage)
        _caught_up(page, stage)


def _caught_up(page: Any, stage: Stage) -> None:
    deadline = time.monotonic() + 60
    while page.evaluate(_OFFSET) != stage.offset:
        if time.monotonic() > deadline:
            raise RuntimeError("the page does not keep up")


def run(updates: int = UPDATES, rounds: int = ROUNDS) -> list[Figure]:
    with tempfile.TemporaryDirectory(prefix="epoka-benchmark-") as folder, _browser() as browser:
        stage = Stage(Path(folder))
        with Dashboard(Path(folder), observer=stage) as dashboard:
            overviews = [overview(browser, dashboard.url) for _ in range(rounds)]
            size = overview_bytes(browser, dashboard.url)
            page = browser.new_page(viewport={"width": 1280, "height": 860})
            page.goto(dashboard.url)
            page.wait_for_selector(".card")
            stage.update(0)
            paged = [ready(page, "#/topics/topic-00010", "tbody tr") for _ in range(rounds)]
            single = [ready(page, "#/topics/topic-00000/3", ".history li") for _ in range(rounds)]
            session = page.context.new_cdp_session(page)
            session.send("HeapProfiler.enable")
            for number in range(MOST_POINTS):
                stage.tell_rate(number)
            live(page, stage, 1, WARM_UP)
            before, _ = heap(page, session)
            live(page, stage, WARM_UP + 1, updates)
            after, nodes = heap(page, session)
    said = f"{updates:,} updates"
    return [
        beside(
            "dashboard, overview ready",
            "ms",
            median(overviews),
            "aim",
            READY_MS,
            at_most=1,
        ),
        beside(
            "dashboard, overview on the wire",
            "kB",
            size / KB,
            "aim",
            READY_BYTES / KB,
            at_most=1,
        ),
        beside(
            "dashboard, partitions of a topic, of 40,000", "ms", median(paged), "aim", READY_MS, at_most=1
        ),
        beside("dashboard, one partition of 40,000", "ms", median(single), "aim", READY_MS, at_most=1),
        beside(f"dashboard, heap after {said}", "MB", after / MB, "before", before / MB, at_most=STEADY),
        beside(f"dashboard, nodes after {said}", "", nodes, "aim", MOST_NODES, at_most=1),
    ]
