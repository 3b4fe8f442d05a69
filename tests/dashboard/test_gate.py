"""Who is let in, and who may change something. Needs no cluster."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from epoka.dashboard.serving import Dashboard

FAULT = {"verb": "kill", "node": 1}


@pytest.fixture(scope="module")
def dashboard(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Dashboard]:
    with Dashboard(tmp_path_factory.mktemp("nothing"), allow_faults=True) as dashboard:
        yield dashboard


@pytest.fixture
def stranger(dashboard: Dashboard) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=dashboard.address) as client:
        yield client


@pytest.fixture
def guest(dashboard: Dashboard) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=dashboard.address, follow_redirects=True) as client:
        assert client.get(dashboard.url).status_code == 200
        yield client


def action(guest: httpx.Client, dashboard: Dashboard) -> dict[str, str]:
    """The headers of a request that may change something."""
    header = guest.get("/api/session").json()["header"]
    return {header: dashboard._secrets.action, "origin": dashboard.address.rstrip("/")}


def test_it_listens_on_loopback_alone(dashboard: Dashboard) -> None:
    assert dashboard._socket.getsockname()[0] == "127.0.0.1"


@pytest.mark.parametrize("path", ["/", "/static/main.js", "/api/state", "/api/session", "/api/feed", "/none"])
def test_without_the_token_nothing_is_shown(stranger: httpx.Client, path: str) -> None:
    answer = stranger.get(path)
    assert answer.status_code == 401
    assert "token" in answer.text


@pytest.mark.parametrize("path", ["/", "/static/main.js", "/static/store.js", "/api/state", "/api/session"])
def test_a_cookie_alone_finds_the_key_to_changes_nowhere(
    guest: httpx.Client, dashboard: Dashboard, path: str
) -> None:
    """Another server of this machine that the browser visits is sent the cookie, too."""
    answer = guest.get(path)
    assert answer.status_code == 200
    assert dashboard._secrets.action not in answer.text + str(answer.headers)


def test_a_wrong_token_opens_nothing(stranger: httpx.Client) -> None:
    answer = stranger.get("/?token=guessed")
    assert (answer.status_code, answer.headers.get("set-cookie")) == (401, None)


def test_the_token_becomes_a_strict_cookie_and_leaves_the_address(
    stranger: httpx.Client, dashboard: Dashboard
) -> None:
    answer = stranger.get(dashboard.url)
    assert (answer.status_code, answer.headers["location"]) == (303, f"/#key={dashboard._secrets.action}")
    cookie = answer.headers["set-cookie"]
    assert {"HttpOnly", "SameSite=Strict", "Path=/"} <= set(cookie.split("; "))
    assert dashboard.url.partition("token=")[2] not in cookie
    assert stranger.get("/").status_code == 200


@pytest.mark.parametrize(
    ("cookies", "status"),
    [
        ("epoka_{port}={session}", 200),
        ('prefs={{"a":1}}; epoka_{port}={session}', 200),
        ("epoka_{port}={session};no value;=;;a b=c", 200),
        ("epoka_{port}=old; epoka_{port}={session}", 200),
        ('prefs={{"a":1}}; epoka_{port}=guessed', 401),
        ("epoka_{port}=é", 401),
        ("epoka_{port}=", 401),
        ("epoka_{port}", 401),
        ("xepoka_{port}={session}", 401),
        ("prefs=epoka_{port}={session}", 401),
        ("epoka_1={session}", 401),
    ],
)
def test_cookies_of_other_programs_neither_open_nor_lock(
    guest: httpx.Client, dashboard: Dashboard, cookies: str, status: int
) -> None:
    session = guest.cookies[f"epoka_{dashboard.port}"]
    header = cookies.format(port=dashboard.port, session=session).encode("latin-1")
    answer = httpx.get(f"{dashboard.address}api/state", headers={b"cookie": header})
    assert answer.status_code == status


def test_two_dashboards_share_no_secret(dashboard: Dashboard, tmp_path: Path) -> None:
    with Dashboard(tmp_path) as other:
        token = dashboard.url.partition("token=")[2]
        assert len(token) >= 43
        assert httpx.get(f"{other.address}?token={token}").status_code == 401


@pytest.mark.parametrize(
    "host", ["evil.example", "127.0.0.1.evil.example:{port}", "127.0.0.1:1", "", "localhost"]
)
def test_a_foreign_host_name_is_refused(guest: httpx.Client, dashboard: Dashboard, host: str) -> None:
    answer = guest.get("/api/state", headers={"host": host.format(port=dashboard.port)})
    assert answer.status_code in (400, 421)


@pytest.mark.parametrize("name", ["127.0.0.1", "localhost", "[::1]", "LOCALHOST"])
def test_every_loopback_name_is_ours(guest: httpx.Client, dashboard: Dashboard, name: str) -> None:
    cookie = f"epoka_{dashboard.port}={guest.cookies[f'epoka_{dashboard.port}']}"
    answer = httpx.get(
        f"{dashboard.address}api/state", headers={"host": f"{name}:{dashboard.port}", "cookie": cookie}
    )
    assert answer.status_code == 200


def test_forwarded_headers_change_nothing(guest: httpx.Client, dashboard: Dashboard) -> None:
    lies = {
        "x-forwarded-host": f"127.0.0.1:{dashboard.port}",
        "forwarded": f"host=127.0.0.1:{dashboard.port};proto=https",
        "x-forwarded-for": "127.0.0.1",
        "x-forwarded-proto": "https",
    }
    assert guest.get("/api/state", headers={**lies, "host": "evil.example"}).status_code == 421
    assert guest.get("/api/state", headers={**lies, "x-forwarded-host": "evil.example"}).status_code == 200
    origin = {**action(guest, dashboard), **lies, "origin": f"https://127.0.0.1:{dashboard.port}"}
    assert guest.post("/api/faults", json=FAULT, headers=origin).status_code == 403


def test_a_change_needs_the_token_in_a_header(guest: httpx.Client, dashboard: Dashboard) -> None:
    own = action(guest, dashboard)
    missing = {name: value for name, value in own.items() if name == "origin"}
    assert guest.post("/api/faults", json=FAULT, headers=missing).status_code == 403
    wrong = {**own, "x-epoka-token": guest.cookies[f"epoka_{dashboard.port}"]}
    assert guest.post("/api/faults", json=FAULT, headers=wrong).status_code == 403
    # With everything right it gets as far as the cluster, of which there is none.
    answer = guest.post("/api/faults", json=FAULT, headers=own)
    assert answer.status_code == 503
    assert "not running" in answer.json()["error"]


@pytest.mark.parametrize(
    "origin", [None, "null", "https://evil.example", "http://127.0.0.1:1", "http://127.0.0.1"]
)
def test_a_change_from_another_origin_is_refused(
    guest: httpx.Client, dashboard: Dashboard, origin: str | None
) -> None:
    headers = action(guest, dashboard)
    del headers["origin"]
    if origin is not None:
        headers["origin"] = origin
    assert guest.post("/api/faults", json=FAULT, headers=headers).status_code == 403


def test_a_change_that_the_browser_calls_cross_site_is_refused(
    guest: httpx.Client, dashboard: Dashboard
) -> None:
    headers = {**action(guest, dashboard), "sec-fetch-site": "same-site"}
    assert guest.post("/api/faults", json=FAULT, headers=headers).status_code == 403


def test_a_change_needs_the_session_too(
    stranger: httpx.Client, guest: httpx.Client, dashboard: Dashboard
) -> None:
    assert stranger.post("/api/faults", json=FAULT, headers=action(guest, dashboard)).status_code == 401


@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE", "PATCH", "OPTIONS"])
def test_nothing_but_a_post_changes_anything(guest: httpx.Client, dashboard: Dashboard, method: str) -> None:
    answer = guest.request(method, "/api/faults", headers=action(guest, dashboard))
    assert answer.status_code == 405


def test_a_header_that_comes_twice_is_believed_in_neither_form(
    guest: httpx.Client, dashboard: Dashboard
) -> None:
    headers = [*action(guest, dashboard).items(), ("origin", "https://evil.example")]
    assert guest.post("/api/faults", json=FAULT, headers=headers).status_code == 403


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"{", 400),
        (b'{"verb": "explode", "node": 1}', 400),
        (b'{"verb": "kill", "node": "one"}', 400),
        (b'{"verb": "kill", "node": 1, "shell": "rm"}', 400),
        (b'"' + b"x" * 5000 + b'"', 413),
    ],
)
def test_nonsense_is_refused(guest: httpx.Client, dashboard: Dashboard, body: bytes, status: int) -> None:
    answer = guest.post("/api/faults", content=body, headers=action(guest, dashboard))
    assert answer.status_code == status
    assert answer.json()["error"]


def test_without_allow_faults_there_is_no_such_route(tmp_path: Path) -> None:
    with Dashboard(tmp_path) as quiet, httpx.Client(base_url=quiet.address) as client:
        client.get(quiet.url)
        assert client.get("/api/session").json()["faults"] is False
        assert client.post("/api/faults", json=FAULT, headers=action(client, quiet)).status_code == 404


def test_every_answer_forbids_what_a_page_of_ours_never_does(
    guest: httpx.Client, stranger: httpx.Client
) -> None:
    for answer in (guest.get("/"), guest.get("/api/state"), stranger.get("/"), guest.get("/none")):
        policy = answer.headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert "frame-ancestors 'none'" in policy
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["referrer-policy"] == "no-referrer"
        assert answer.headers["cache-control"] == "no-store"
        assert "access-control-allow-origin" not in answer.headers
        assert "server" not in answer.headers


def test_nothing_is_loaded_from_outside(guest: httpx.Client) -> None:
    files = ["/", "/static/style.css"]
    files += [
        f"/static/{name}" for name in re.findall(r'"/static/(\w+\.js)"', guest.get("/static/main.js").text)
    ]
    assert len(files) > 6
    for path in files:
        answer = guest.get(path)
        assert answer.status_code == 200, path
        addresses = set(re.findall(r"https?://[\w.]+", answer.text)) - {"http://www.w3.org"}
        assert not addresses, path
        assert "innerHTML" not in answer.text, path


@pytest.mark.parametrize(
    "path", ["/static/..%2fgate.py", "/static/../gate.py", "/static/%2e%2e/gate.py", "/static/"]
)
def test_no_other_file_is_served(guest: httpx.Client, path: str) -> None:
    assert guest.get(path).status_code == 404


@pytest.mark.parametrize(
    "path",
    [
        "/api/decisions?page=-1",
        "/api/decisions?size=201",
        "/api/decisions?size=0",
        "/api/decisions?broker=two",
        "/api/decisions?page=99999999999999999999",
        "/api/why/event?node=1",
    ],
)
def test_a_question_that_makes_no_sense_is_answered_with_a_reason(guest: httpx.Client, path: str) -> None:
    answer = guest.get(path)
    assert answer.status_code == 400
    assert answer.json()["error"]


def test_small_answers_leave_at_once(guest: httpx.Client) -> None:
    """A socket that waits for more to send takes 40 ms an answer; the quickest of many has no such excuse."""

    def took() -> float:
        began = time.perf_counter()
        guest.get("/api/state")
        return time.perf_counter() - began

    assert min(took() for _ in range(30)) < 0.03


def test_the_page_brings_the_state_and_nothing_in_it_can_end_it(
    guest: httpx.Client, dashboard: Dashboard, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = {"now_ms": 1, "because": "</script><script>alert(1)</script><!--"}
    monkeypatch.setattr(dashboard.observer, "state", lambda: told)
    page = guest.get("/").text
    (content,) = re.findall(r'<script type="application/json" id="told">(.*?)</script>', page)
    assert json.loads(content) == told
    assert "<script>alert" not in page
