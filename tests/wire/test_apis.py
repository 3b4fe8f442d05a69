"""The table of APIs."""

import subprocess
import sys

import pytest

from epoka.wire.apis import APIS, api
from epoka.wire.messages.fetch import FetchRequest, FetchResponse


def test_an_api_is_found_by_key_name_class_and_message() -> None:
    fetch = APIS[1]
    assert (fetch.name, fetch.request, fetch.response) == ("Fetch", FetchRequest, FetchResponse)
    assert fetch is api(1) is api("Fetch") is api(FetchRequest) is api(FetchResponse) is api(FetchResponse())
    assert (fetch.min_version, fetch.max_version) == (FetchRequest.MIN_VERSION, FetchRequest.MAX_VERSION)


@pytest.mark.parametrize("wanted", [9999, "Nothing", int])
def test_what_is_no_api_is_not_found(wanted: object) -> None:
    with pytest.raises(KeyError):
        api(wanted)  # type: ignore[arg-type]


def test_the_table_agrees_with_the_classes() -> None:
    assert list(APIS) == sorted(APIS)
    assert len(APIS) == len(list(APIS))
    for key, entry in APIS.items():
        for half in (entry.request, entry.response):
            assert key == half.API_KEY
            assert (entry.min_version, entry.max_version) == (half.MIN_VERSION, half.MAX_VERSION)
            assert entry.flexible_from == half.FLEXIBLE_FROM


def test_the_table_imports_no_messages_until_it_is_asked() -> None:
    code = (
        "import sys, epoka.wire.frame as frame\n"
        "loaded = [name for name in sys.modules if name.startswith('epoka.wire.messages.')]\n"
        "assert loaded == ['epoka.wire.messages.index'], loaded\n"
        "assert 1 in frame.APIS and len(frame.APIS) > 40\n"
        "frame.APIS[1]\n"
        "assert 'epoka.wire.messages.fetch' in sys.modules\n"
        "assert 'epoka.wire.messages.produce' not in sys.modules\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
