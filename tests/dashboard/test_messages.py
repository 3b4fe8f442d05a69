"""How bytes that anybody may have written become something that a page may show."""

from __future__ import annotations

import pytest

from epoka.dashboard.messages import shown


@pytest.mark.parametrize(
    ("content", "how", "text"),
    [
        (b"plain", "text", "plain"),
        ("grün\tund\nzwei Zeilen".encode(), "text", "grün\tund\nzwei Zeilen"),
        (b"", "text", ""),
        (b"\x00\x01", "hex", "00 01"),
        (b"\xff\xfe", "hex", "ff fe"),
        (b"\x1b[31mred", "hex", b"\x1b[31mred".hex(" ")),
        ("a\u202eb\u200bc".encode(), "text", "a\\u{202e}b\\u{200b}c"),
        (b"<script>", "text", "<script>"),
    ],
)
def test_bytes_are_text_only_if_they_are(content: bytes, how: str, text: str) -> None:
    assert shown(content, 100) == {"as": how, "text": text, "size": len(content), "cut": False}


def test_nothing_is_nothing_and_not_an_empty_text() -> None:
    assert shown(None, 100) is None


def test_a_long_text_is_cut_between_characters() -> None:
    found = shown("ä".encode() * 50, 25)
    assert found == {"as": "text", "text": "ä" * 12, "size": 100, "cut": True}


def test_whoever_reads_may_choose_the_form() -> None:
    content = b"\x00text"
    assert [(shown(content, 100, form) or {})["text"] for form in ("hex", "base64", "text")] == [
        "00 74 65 78 74",
        "AHRleHQ=",
        "\\u{0}text",
    ]
