"""The name by which the dashboard still knows a question that was not answered."""

from __future__ import annotations

from epoka.client.errors import ClientError as CallFailed

__all__ = ["CallFailed"]
