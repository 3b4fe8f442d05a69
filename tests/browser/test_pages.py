"""Every page and every button, in a real browser, with faults going on."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from epoka.cluster.cluster import Cluster
from tests.browser.conftest import PICTURES

pytestmark = pytest.mark.xdist_group("browser")


def healthy(page: Any) -> None:
    page.goto(page.url.partition("#")[0] + "#/overview")
    page.wait_for_selector(".hero.good")


def show(page: Any, name: str, ready: str) -> None:
    page.goto(page.url.partition("#")[0] + f"#/{name}")
    page.wait_for_selector(ready)


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
    page.screenshot(path=str(PICTURES / "overview-broker-down.png"))
    cluster.start(2)
    page.wait_for_selector(".hero.good")
    assert page.locator(".card .badge").all_inner_texts() == ["active"] * 3


def test_a_stranger_finds_out_why_a_bounced_broker_was_refused(page: Any, cluster: Cluster) -> None:
    healthy(page)
    cluster.bounce(3, "unclean")
    show(page, "decisions", "tbody tr")
    page.fill("input[type=search]", "broker 3")
    page.select_option("select[aria-label=Rule]", "heartbeat.session")
    page.wait_for_selector("tbody tr:only-child:has-text('broker 3')")
    row = page.locator("tbody tr")
    assert "ms of silence" in row.inner_text()
    row.click()
    page.wait_for_selector(".chain li.fault")
    told = page.locator(".chain").inner_text()
    assert "heartbeat.session refused broker 3" in told
    assert "because somebody killed broker 3 for an unclean bounce" in told
    page.screenshot(path=str(PICTURES / "decision-and-its-causes.png"))
    page.keyboard.press("Escape")
    page.wait_for_selector("#panel", state="hidden")


def test_every_end_of_a_life_is_drawn(page: Any, cluster: Cluster) -> None:
    show(page, "generations", ".chart .life")
    for how in ("clean", "unclean", "fast", "wiped"):
        _, new = cluster.bounce(1, how)
        page.wait_for_selector(f'.life[data-generation="{new}"]', state="attached")
    for mark in ("clean", "unclean", "fast-bounce", "wiped"):
        page.wait_for_selector(f".chart .end.{mark}", state="attached")
    assert page.locator(".chart .reign").count() >= 1
    assert page.locator(".chart .fault.moment").count() >= 4
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
    press(page, 2, "isolate from brokers")
    page.wait_for_selector(".toast.good:has-text('isolate broker 2 from brokers: done')")
    press(page, 2, "isolate from controller")
    page.wait_for_selector('tr[data-key="broker-2"] .badge.fenced')
    page.wait_for_selector("tr[data-key='broker-2']:has-text('heartbeat.session')")
    page.screenshot(path=str(PICTURES / "brokers-one-fenced.png"))
    page.click("text=Heal all isolations")
    page.wait_for_selector('tr[data-key="broker-2"] .badge.active')
    show(page, "generations", ".chart .fault.lasts")
    assert page.locator(".chart .span.fenced").count() >= 1
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
    assert page.locator("td.out").count() == 1
    page.screenshot(path=str(PICTURES / "partition-out-of-sync.png"))
    page.click("tbody tr")
    page.wait_for_selector(".history li.shrank")
    assert "because" in page.locator(".history li.shrank").first.inner_text()
    cluster.start(2)
    page.wait_for_selector(".history li.grew")
    page.wait_for_selector(".tile .replica.out", state="detached")
    page.screenshot(path=str(PICTURES / "history-of-an-isr.png"))


def test_the_controller_that_is_down_is_said_with_the_age_of_what_is_shown(
    page: Any, cluster: Cluster
) -> None:
    healthy(page)
    cluster.kill(cluster.controller_id)
    page.wait_for_selector("#stale:has-text('This is the state of')")
    page.wait_for_selector(".hero.bad")
    assert page.locator(".card").count() == 3
    page.screenshot(path=str(PICTURES / "controller-down.png"))
    cluster.start(cluster.controller_id)
    page.wait_for_selector("#stale", state="hidden")
    page.wait_for_selector(".hero.good")


def test_the_keyboard_reaches_everything(page: Any) -> None:
    for key, name in zip("12345", ("overview", "brokers", "generations", "decisions", "topics"), strict=True):
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
    for name in ("overview", "brokers", "generations", "decisions", "topics"):
        show(page, name, "main h1")
        page.wait_for_load_state()
        page.screenshot(path=str(PICTURES / f"phone-{name}.png"))
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
    show(page, "decisions", "tbody tr")
    page.fill("input[type=search]", "onerror")
    page.wait_for_selector("code:has-text('onerror')")
    assert page.locator("main img, main script").count() == 0
    page.click("tbody tr")
    page.wait_for_selector(".chain")
    assert page.locator("#panel img").count() == 0
