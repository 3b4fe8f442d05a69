"""How routes read what they are asked and write what they answer. What makes no sense is a 400."""

from __future__ import annotations

from typing import Any, Final

import msgspec
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from epoka.dashboard.tables import FILTERS, MOST_ON_A_PAGE

MOST_DIGITS: Final = 18


def paging(request: Request) -> tuple[int, int]:
    """Which page, and of how many rows."""
    page, size = number(request, "page", 0), number(request, "size", 50)
    if page is None or size is None or page < 0 or not 1 <= size <= MOST_ON_A_PAGE:
        raise HTTPException(400, f"page counts from 0, and size goes from 1 to {MOST_ON_A_PAGE}")
    return page, size


def filtered(request: Request) -> str:
    return one_of(request, "only", FILTERS)


def one_of(request: Request, name: str, known: tuple[str, ...]) -> str:
    """A word of a few; the first one when nothing is said."""
    word: str = request.query_params.get(name, known[0])
    if word not in known:
        raise HTTPException(400, f"{name} is one of {', '.join(known)}")
    return word


def text(request: Request, name: str) -> str:
    found: str = request.query_params.get(name, "")
    return found


def needed(request: Request, name: str) -> str:
    found = text(request, name)
    if not found:
        raise HTTPException(400, f"{name} is missing")
    return found


def number(request: Request, name: str, otherwise: int | None = None) -> int | None:
    given = text(request, name)
    if given == "":
        return otherwise
    digits = given.removeprefix("-")
    if not digits.isdecimal() or not digits.isascii() or len(digits) > MOST_DIGITS:
        raise HTTPException(400, f"{name} is a whole number")
    return int(given)


def found(content: Any, otherwise: str) -> Response:
    if content is None:
        raise HTTPException(404, otherwise)
    return as_json(content)


def as_json(content: Any, status: int = 200) -> Response:
    return Response(msgspec.json.encode(content), status, media_type="application/json")
