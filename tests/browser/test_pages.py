"""Every page and every button, in a real browser, with faults going on."""

from __future__ import annotations

import json
import re
import time
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer

from epoka.cluster.cluster import Cluster
from tests.browser.conftest import PICTURES
from tests.cluster.records import QUIET, write
from tests.waiting import wait_until

pytestmark = pytest.mark.xdist_group("browser")


def healthy(page: Any) -> None:
    page.goto(page.url.partition("#")[0] + "#/overview")
    page.wait_for_selector(".hero.good")


def show(page: Any, name: str, ready: str) -> None:
    page.goto(page.url.partition("#")[0] + f"#/{name}")
    page.wait_for_selector(ready)


def shows(page: Any, what: str, *, exactly: int | None = None, at_least: int = 1) -> None:
    """So many of these are on the page, now or soon: parts of it are drawn one after the other."""
    found = page.locator(what)
    wanted = f"at least {at_least}" if exactly is None else str(exactly)

    def enough() -> bool:
        return bool(found.count() >= at_least if exactly is None else found.count() == exactly)

    wait_until(enough, lambda: f"{wanted} of {what}; there are {found.count()}")


def moment(page: Any) -> str:
    """Which moment of the past is shown, in milliseconds, or `live`; nothing while it is being fetched."""
    shown = page.evaluate("""() => {
      const parts = ["brokers", "partitions", "decisions", "events"];
      const at = parts.map((name) => document.querySelector(`.past-${name}`)?.dataset.at);
      const wanted = location.hash.split("/")[2] ?? "live";
      return at.every((each) => each === wanted) ? wanted : "";
    }""")
    return str(shown)


def press(page: Any, broker: int, verb: str) -> None:
    """A fault button of a broker, as a person presses it."""
    row = page.locator(f'tr[data-key="broker-{broker}"]')
    if row.locator("details").get_attribute("open") is None:
        row.locator("summary").click()
    row.locator(f'button[data-verb="{verb}"]').click()


def test_the_token_is_gone_from_the_address_and_hidden_from_scripts(page: Any) -> None:
    assert "token" not in page.url
    assert page.evaluate("document.cookie") == ""


def test_the_overview_follows_a_broker_that_dies_and_comes_back(page: Any, cluster: Cluster) -> None:
    healthy(page)
    assert page.locator(".card .generation").all_inner_texts() == [
        f"generation {cluster.generation(each)}" for each in cluster.broker_ids
    ]
    cluster.kill(2)
    page.wait_for_selector(".card.down")
    page.wait_for_selector("text=broker 2 is down after an unclean end")
    page.wait_for_selector(".hero.uneasy")
    for rate in ("produced", "consumed"):
        page.wait_for_selector(f".spark[data-rate={rate}] .fault.moment", state="attached")
    page.screenshot(path=str(PICTURES / "overview-broker-down.png"))
    cluster.start(2)
    page.wait_for_selector(".hero.good")
    assert page.locator(".card .badge").all_inner_texts() == ["active"] * 3


def test_a_stranger_finds_out_by_clicks_alone_why_a_bounced_broker_was_refused(
    page: Any, cluster: Cluster
) -> None:
    """From the first page to the sentence, and on to the moment in which it happened."""
    healthy(page)
    old, new = cluster.bounce(3, "unclean")
    page.wait_for_selector(f".card:has-text('generation {new}')")
    page.click(".told li.refused:has-text('heartbeat.session refused broker 3') >> nth=0")
    page.wait_for_selector(".chain li.fault")
    told = page.locator("#panel").inner_text()
    assert "The rule heartbeat.session refuses when no heartbeat for longer than" in told
    assert "because somebody killed broker 3 for an unclean bounce" in told
    page.screenshot(path=str(PICTURES / "why-it-was-refused.png"))
    page.click("text=The cluster at that moment")
    page.wait_for_selector(f".past-brokers .card[data-broker='3']:has-text('generation {old}')")
    page.wait_for_selector(".moment.then")
    # The other way: the card of the broker says what its lives were.
    page.click("nav >> text=Overview")
    page.click(".card:has-text('Broker 3')")
    page.wait_for_selector(f"#panel:has-text('{old} and {new}')")


def test_decisions_are_found_by_words_and_by_rule(page: Any, cluster: Cluster) -> None:
    healthy(page)
    cluster.bounce(3, "unclean")
    page.click("a.tile:has-text('Refusals')")
    page.wait_for_selector("tbody tr")
    page.fill("input[type=search]", "broker 3")
    page.select_option("select[aria-label=Rule]", "heartbeat.session")
    page.wait_for_selector("tbody:not(:has(tr:not(:has-text('broker 3')))) tr:has-text('heartbeat.session')")
    row = page.locator("tbody tr").first
    assert "ms of silence" in row.inner_text()
    row.click()
    page.wait_for_selector(".chain li.fault")
    told = page.locator(".chain").inner_text()
    assert "heartbeat.session refused broker 3" in told
    assert "because somebody killed broker 3 for an unclean bounce" in told
    page.screenshot(path=str(PICTURES / "decision-and-its-causes.png"))
    page.keyboard.press("Escape")
    page.wait_for_selector("#panel", state="hidden")


def test_a_slow_click_is_a_click_though_the_page_changes_under_it(page: Any, cluster: Cluster) -> None:
    healthy(page)
    page.hover("a.tile:has-text('Refusals')")
    page.mouse.down()
    _, new = cluster.bounce(2, "fast")
    page.wait_for_selector(f".card:has-text('generation {new}')")
    page.mouse.up()
    page.wait_for_selector(".page.decisions")


def test_every_end_of_a_life_is_drawn(page: Any, cluster: Cluster) -> None:
    show(page, "generations", ".chart .life")
    for how in ("clean", "unclean", "fast", "wiped"):
        _, new = cluster.bounce(1, how)
        page.wait_for_selector(f'.life[data-generation="{new}"]', state="attached")
    for mark in ("clean", "unclean", "fast-bounce", "wiped"):
        page.wait_for_selector(f".chart .end.{mark}", state="attached")
    shows(page, ".chart .reign", at_least=1)
    shows(page, ".chart .fault.moment", at_least=4)
    assert {"clean", "unclean", "fast bounce", "wiped"} <= set(page.locator("tbody .badge").all_inner_texts())
    page.screenshot(path=str(PICTURES / "generations.png"))
    page.click("text=1 min")
    page.wait_for_selector('button[aria-pressed=true]:text("1 min")')
    page.locator(".chart").focus()
    page.keyboard.press("+")
    page.wait_for_selector(".ranges button[aria-pressed=true]", state="detached")


def test_an_isolation_is_a_bar_and_a_fenced_span(page: Any, cluster: Cluster) -> None:
    healthy(page)
    show(page, "brokers", "tbody tr")
    page.wait_for_selector("td[data-heard='2']:has-text('ago')")
    press(page, 2, "isolate from brokers")
    page.wait_for_selector(".toast.good:has-text('isolate broker 2 from brokers: done')")
    press(page, 2, "isolate from controller")
    page.wait_for_selector('tr[data-key="broker-2"] .badge.fenced')
    page.wait_for_selector("tr[data-key='broker-2']:has-text('heartbeat.session')")
    page.wait_for_selector("td[data-heard='2']:text-is('–')")
    page.wait_for_selector("td[data-heard='1']:has-text('ago')")
    page.screenshot(path=str(PICTURES / "brokers-one-fenced.png"))
    page.click("text=Heal all isolations")
    page.wait_for_selector('tr[data-key="broker-2"] .badge.active')
    show(page, "generations", ".chart .fault.lasts")
    shows(page, ".chart .span.fenced", at_least=1)
    healthy(page)


@pytest.mark.parametrize("how", ["clean", "unclean", "fast", "wiped"])
def test_a_bounce_button_gives_a_new_generation(page: Any, cluster: Cluster, how: str) -> None:
    healthy(page)
    before = cluster.generation(3)
    show(page, "brokers", "tbody tr")
    press(page, 3, f"{how} bounce")
    toast = page.wait_for_selector(".toast.good").inner_text()
    assert re.fullmatch(rf"bounce broker 3: done, generation {before} → {cluster.generation(3)}", toast)
    assert cluster.generation(3) > before


def test_kill_start_stop_pause_and_resume_buttons(page: Any, cluster: Cluster) -> None:
    healthy(page)
    show(page, "brokers", "tbody tr")

    def becomes(state: str) -> None:
        page.wait_for_selector(f'tr[data-key="broker-1"] .badge.{state}')

    for verb, state in (("kill", "down"), ("start", "active"), ("stop", "down"), ("start", "active")):
        press(page, 1, verb)
        becomes(state)
    for verb, state in (("pause", "paused"), ("resume", "active"), ("kill", "down")):
        press(page, 1, verb)
        becomes(state)
    press(page, 1, "wipe")
    page.wait_for_selector(".toast.good:has-text('wipe')")
    press(page, 1, "start")
    becomes("active")
    healthy(page)


def test_the_history_of_an_isr_with_the_cause_of_each_change(page: Any, cluster: Cluster) -> None:
    healthy(page)
    show(page, "topics", "tbody tr")
    page.fill("input[type=search]", "orders")
    page.wait_for_selector("tbody tr:only-child:has-text('orders')")
    page.click("tbody tr")
    page.wait_for_selector(".replica")
    cluster.kill(2)
    page.wait_for_selector(".replica.out")
    shows(page, "td.out", exactly=1)
    page.screenshot(path=str(PICTURES / "partition-out-of-sync.png"))
    page.click("tbody tr")
    page.wait_for_selector(".history li.shrank")
    page.wait_for_selector("tr.out-of-sync.trouble:has-text('it is down')")
    shows(page, "tr.in-sync", exactly=2)
    page.wait_for_selector(".chart.isr .sync.out", state="attached")
    page.wait_for_selector(".chart.isr .fault", state="attached")
    page.screenshot(path=str(PICTURES / "offsets-of-replicas.png"))
    assert "because" in page.locator(".history li.shrank").first.inner_text()
    cluster.start(2)
    page.wait_for_selector(".history li.grew")
    page.wait_for_selector(".tile .replica.out", state="detached")
    page.wait_for_selector("tr.out-of-sync", state="detached")
    shows(page, "tr.in-sync", exactly=3)
    page.screenshot(path=str(PICTURES / "history-of-an-isr.png"))


def test_a_cluster_that_is_down_is_said_with_the_age_of_what_is_shown(page: Any, cluster: Cluster) -> None:
    healthy(page)
    for node in (cluster.controller_id, *cluster.broker_ids):
        cluster.kill(node)
    try:
        page.wait_for_selector("#stale:has-text('This is the state of')")
        page.wait_for_selector(".hero.bad")
        shows(page, ".card.down", exactly=3)
        page.screenshot(path=str(PICTURES / "cluster-down.png"))
        show(page, "topics", "tbody tr:has-text('orders')")
        show(page, "groups", "p.bad:has-text('cannot be reached')")
        show(page, "generations", ".chart .reign")
        shows(page, ".chart .fault.kill", at_least=4)
        page.goto(page.url.partition("#")[0] + "#/overview")
    finally:
        cluster.start(cluster.controller_id)
        for node in cluster.broker_ids:
            cluster.begin(node)
    page.wait_for_selector("#stale", state="hidden")
    page.wait_for_selector(".hero.good")


def test_a_dashboard_that_ends_is_missed_and_one_that_begins_anew_is_noticed(
    browser: Any, cluster: Cluster
) -> None:
    from epoka.dashboard.serving import Dashboard

    context = browser.new_context()
    page = context.new_page()
    page.set_default_timeout(30_000)
    with Dashboard(cluster.data) as first:
        page.goto(first.url)
        page.wait_for_selector(".hero")
    page.wait_for_selector("#stale:has-text('This is the last known state')")
    shows(page, ".card", exactly=3)
    with Dashboard(cluster.data, first.port) as second:
        page.wait_for_selector("#stale:has-text('was started anew')")
        page.goto(second.url)
        page.wait_for_selector(".link.on")
        page.wait_for_selector("#stale", state="hidden")
    context.close()


def test_rates_move_when_records_do(page: Any, cluster: Cluster) -> None:
    healthy(page)

    def moved() -> bool:
        write(cluster.bootstrap, "orders", [b"r"] * 50)
        shown = page.locator(".tile:has(.spark[data-rate=produced]) .value").inner_text()
        return re.fullmatch(r"[\d,.]+", shown) is not None and float(shown.replace(",", "")) > 0

    wait_until(moved, "a rate above zero")
    page.wait_for_selector(".spark[data-rate=produced] path.rate", state="attached")
    page.screenshot(path=str(PICTURES / "rates.png"))


def test_messages_are_read_from_every_end_and_shown_as_what_they_are(page: Any, cluster: Cluster) -> None:
    healthy(page)
    producer = Producer({"bootstrap.servers": cluster.bootstrap, **QUIET})
    for number in range(60):
        producer.produce("orders", json.dumps({"number": number}), key=f"key {number}")
    producer.produce("orders", b"\x00\x01\xff", headers=[("raw", b"\xfe")])
    producer.produce("orders", b"<img src=x onerror=alert(1)>", key=None)
    assert producer.flush(60) == 0
    page.click("nav >> text=Topics")
    page.click("tbody tr:has-text('orders')")
    page.click("a.button:has-text('Messages')")
    newest, binary = page.locator("tbody tr").nth(0), page.locator("tbody tr").nth(1)
    page.wait_for_selector("tbody tr:has-text('onerror')")
    assert "<img src=x onerror=alert(1)>" in newest.inner_text()
    assert page.locator("main img").count() == 0
    assert "00 01 ff" in binary.inner_text()
    page.select_option("select[aria-label='Shown as']", "base64")
    page.wait_for_selector("tbody tr:has-text('AAH/')")
    page.select_option("select[aria-label='Shown as']", "auto")
    page.wait_for_selector("tbody tr:has-text('key 59')")
    page.screenshot(path=str(PICTURES / "messages.png"))
    page.click("text=older ›")
    page.wait_for_selector("tbody tr:has-text('key 3')")
    page.click("text=‹ before")
    page.click("tbody tr:has-text('key 59')")
    page.wait_for_selector('.message:has-text("\\"number\\": 59")')
    page.screenshot(path=str(PICTURES / "message.png"))
    page.keyboard.press("Escape")
    page.select_option("select[aria-label=From]", "oldest")
    page.wait_for_selector("tbody tr >> nth=0 >> text='0 : 0'")
    page.select_option("select[aria-label=From]", "offset")
    page.fill("input[aria-label=Offset]", "2")
    page.keyboard.press("Tab")
    page.wait_for_selector("tbody tr >> nth=0 >> text='0 : 2'")
    page.fill("input[aria-label=Partition]", "7")
    page.keyboard.press("Tab")
    page.wait_for_selector("p.bad:has-text('orders has no partition 7; it has 1')")
    page.fill("input[aria-label=Partition]", "0")
    page.select_option("select[aria-label=From]", "time")
    page.fill("input[aria-label=Time]", "2020-01-01T00:00:00")
    page.keyboard.press("Tab")
    page.wait_for_selector("tbody tr >> nth=0 >> text='0 : 0'")


def test_a_group_shows_its_members_and_how_far_it_is_behind(page: Any, cluster: Cluster) -> None:
    healthy(page)
    write(cluster.bootstrap, "orders", [b"g"] * 5)
    consumer = Consumer(
        {
            "bootstrap.servers": cluster.bootstrap,
            "group.id": "bill/ing",
            "client.id": "clerk",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            **QUIET,
        }
    )
    try:
        consumer.subscribe(["orders"])
        message = wait_until(
            lambda: (found := consumer.poll(0.5)) and not found.error() and found, "a first message"
        )
        consumer.commit(message=message, asynchronous=False)
        page.keyboard.press("6")
        page.fill("input[type=search]", "bill")
        page.click("tbody tr:has-text('bill/ing')")
        page.wait_for_selector(".badge.Stable")
        page.wait_for_selector("tbody tr:has-text('clerk')")
        row = page.wait_for_selector("tr[data-key='lag-orders-0']")
        cells = [each.inner_text().replace(",", "") for each in row.query_selector_all("td")]
        assert (cells[0], cells[1], cells[4]) == ("orders-0", "1", "clerk")
        assert int(cells[3]) == int(cells[2]) - 1 > 0
        page.screenshot(path=str(PICTURES / "group.png"))
        # What the group has not read yet grows, and the page follows without being asked.
        write(cluster.bootstrap, "orders", [b"g"])
        page.wait_for_selector(f"tr[data-key='lag-orders-0'] td:has-text('{int(cells[3]) + 1:,}')")
    finally:
        consumer.close()
    page.wait_for_selector(".badge.Empty")


def test_the_past_is_scrubbed_by_slider_steps_and_keys(page: Any, cluster: Cluster) -> None:
    healthy(page)
    old, new = cluster.bounce(2, "unclean")
    page.keyboard.press("7")
    page.wait_for_selector(f".past-brokers .card.active[data-broker='2']:has-text('generation {new}')")
    page.wait_for_selector(".live[aria-pressed=true]")
    told = page.locator(".past-events li").first
    # Step by step back to the kill.
    while not told.inner_text().endswith("killed broker 2 for an unclean bounce"):
        before = moment(page)
        page.keyboard.press("[")
        wait_until(lambda before=before: moment(page) not in (before, ""), "a step back")
        assert before in ("", "live") or int(moment(page)) < int(before)
    page.wait_for_selector(f".past-brokers .card.down[data-broker='2']:has-text('generation {old}')")
    page.wait_for_selector(".moment.then")
    page.wait_for_selector(".past-chart .cursor", state="attached")
    page.screenshot(path=str(PICTURES / "past.png"), full_page=True)
    # A click into the chart chooses a moment, and so does the slider by keyboard.
    stepped = moment(page)
    # While the chart is drawn anew it is nowhere.
    box = wait_until(page.locator(".past-chart svg").bounding_box, "a place of the chart")
    page.mouse.click(box["x"] + 95, box["y"] + 10)
    wait_until(lambda: moment(page) not in (stepped, ""), "the moment that was clicked")
    chosen = int(moment(page))
    assert chosen < int(stepped)
    page.locator(".scrubber").focus()
    page.keyboard.press("PageUp")
    wait_until(lambda: moment(page).isdecimal() and int(moment(page)) > chosen, "the slider to move")
    page.select_option("main select[aria-label=Only]", "all")
    page.fill("input[aria-label='Search topics']", "orders")
    page.click("button.live")
    page.wait_for_selector(".live[aria-pressed=true]")
    page.wait_for_selector(".past-partitions tr:has-text('orders-0')")
    page.wait_for_selector(f".past-brokers .card.active[data-broker='2']:has-text('generation {new}')")
    page.locator(".past-decisions li").first.click()
    page.wait_for_selector("#panel .chain")


def test_the_keyboard_reaches_everything(page: Any) -> None:
    pages = ("overview", "brokers", "generations", "decisions", "topics", "groups", "past", "topics")
    for key, name in zip("12345675", pages, strict=True):
        page.keyboard.press(key)
        page.wait_for_selector(f".page.{name}")
    page.wait_for_selector("tbody tr")
    page.keyboard.press("/")
    assert page.evaluate("document.activeElement.type") == "search"
    page.keyboard.press("Escape")
    page.keyboard.press("j")
    assert page.evaluate("document.activeElement.tagName") == "TR"
    page.keyboard.press("Enter")
    page.wait_for_selector(".crumbs")
    page.keyboard.press("?")
    page.wait_for_selector(".keys")


@pytest.mark.parametrize(
    "page",
    [{"color_scheme": "dark"}, {"color_scheme": "light"}],
    ids=["dark", "light"],
    indirect=True,
)
def test_dark_and_light(page: Any, request: pytest.FixtureRequest) -> None:
    red, green, blue = map(
        int, re.findall(r"\d+", page.evaluate("getComputedStyle(document.body).backgroundColor"))[:3]
    )
    assert (red + green + blue > 380) == request.node.name.endswith("[light]")


def test_a_phone_shows_every_page_without_scrolling_sideways(browser: Any, dashboard: Any) -> None:
    context = browser.new_context(viewport={"width": 390, "height": 844}, has_touch=True, is_mobile=True)
    page = context.new_page()
    page.goto(dashboard.url)
    page.wait_for_selector(".card")
    for name, ready in (
        ("overview", ".spark svg"),
        ("brokers", "tbody tr"),
        ("generations", ".chart .life"),
        ("decisions", "main h1"),
        ("topics", "tbody tr"),
        ("topics/orders/0", "tr.in-sync"),
        ("topics/orders/messages", "tbody tr"),
        ("groups", "main h1"),
        ("past", ".past-brokers .card"),
    ):
        show(page, name, ready)
        page.screenshot(path=str(PICTURES / f"phone-{name.replace('/', '-')}.png"))
        assert page.evaluate("document.documentElement.scrollWidth") <= 390, name
    context.close()


def test_what_a_cluster_says_never_becomes_markup(page: Any, cluster: Cluster) -> None:
    nasty = '<img src=x onerror="document.title=1"><script>alert(1)</script>'
    with (cluster.data / "faults.jsonl").open("a") as ledger:
        event = {
            "kind": "verdict",
            "time_ms": 1,
            "node": 1,
            "event_id": 7,
            "verdict": "refused",
            "rule": nasty,
            "given": nasty,
        }
        ledger.write(json.dumps(event) + "\n")
        # A kind of a newer version, with a field that nobody here knows.
        unknown = {"kind": "teleported", "time_ms": int(time.time() * 1000), "node": 1, "event_id": 8}
        ledger.write(json.dumps({**unknown, "broker": 2, "detail": nasty, "unheard": [1]}) + "\n")
    show(page, "decisions", "tbody tr")
    page.fill("input[type=search]", "onerror")
    page.wait_for_selector("code:has-text('onerror')")
    assert page.locator("main img, main script").count() == 0
    page.click("tbody tr")
    page.wait_for_selector(".chain")
    assert page.locator("#panel img").count() == 0
    show(page, "past", ".past-events li:has-text('teleported broker 2')")
    assert page.locator("main img, main script").count() == 0
