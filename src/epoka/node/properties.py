"""The text format of Java .properties files: keys, values, comments, continued lines and escapes."""

from __future__ import annotations

import re
from collections.abc import Iterator

_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


def entries(content: str) -> Iterator[tuple[int, str, str]]:
    """Line number, key and value of each entry of a Java .properties text."""
    physical = enumerate(re.split(r"\r\n|\r|\n", content), start=1)
    for number, line in physical:
        line = line.lstrip(" \t\f")
        if not line or line[0] in "#!":
            continue
        while _continues(line):
            following = next(physical, None)
            line = line[:-1] + ("" if following is None else following[1].lstrip(" \t\f"))
        match = re.match(r"((?:\\.|[^\\=:\s])*)\s*[=:]?\s*(.*)", line, re.DOTALL)
        assert match is not None
        yield number, _unescaped(match[1]), _unescaped(match[2])


def _continues(line: str) -> bool:
    return (len(line) - len(line.rstrip("\\"))) % 2 == 1


def _unescaped(text: str) -> str:
    def plain(match: re.Match[str]) -> str:
        code = match[1]
        return chr(int(code[1:], 16)) if len(code) == 5 else _ESCAPES.get(code, code)

    # Java writes letters beyond 16 bits as two escapes; half of one would be a text that cannot be encoded.
    plain_text = re.sub(r"\\(u[0-9A-Fa-f]{4}|.)", plain, text, flags=re.DOTALL)
    return plain_text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
