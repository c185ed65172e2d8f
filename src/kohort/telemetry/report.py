"""What a client said of itself in one push, as it is kept in the topic ``__kohort_client_metrics`` (as JSON).

Fields may be added with a default; none may be renamed, and no default may change: what is left out has its default.
"""

from __future__ import annotations

from typing import Final

import msgspec

TOPIC: Final = "__kohort_client_metrics"
"""Key: the client instance id as text. Value: the last report, as JSON."""


class MetricValue(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """One number: the metric's name as KIP-714 has it, its labels, and its value."""

    name: str
    value: float
    labels: dict[str, str] = {}


class ClientReport(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """What one client pushed last, and who it is. Text of clients is kept as it came: who shows it escapes it."""

    at_ms: int
    client_instance_id: str
    client_id: str
    host: str
    node_id: int
    interval_ms: int
    """How often it pushes."""
    software_name: str | None = None
    software_version: str | None = None
    principal: str = ""
    terminating: bool = False
    """It said that this is its last push."""
    labels: dict[str, str] = {}
    """What it said of itself: ``group_id``, ``group_member_id``, ``group_instance_id``, ``client_rack``,
    ``transactional_id``."""
    values: tuple[MetricValue, ...] = ()
    is_cut: bool = False
    """There was more than is kept of one push."""

    def value(self, name: str) -> float | None:
        """Return the value of a metric without labels of its own, or None where it was not pushed."""
        return next((one.value for one in self.values if one.name == name and not one.labels), None)

    @property
    def group(self) -> str | None:
        """The group that it says it is in."""
        return self.labels.get("group_id")

    @property
    def member_id(self) -> str | None:
        """As which member."""
        return self.labels.get("group_member_id")


_encoder: Final = msgspec.json.Encoder()
_decoder: Final = msgspec.json.Decoder(ClientReport)


def build_report(report: ClientReport) -> bytes:
    """Return the JSON of a report."""
    return _encoder.encode(report)


def parse_report(data: bytes) -> ClientReport:
    """Return a report, of its JSON. Raises ValueError for what is none."""
    return _decoder.decode(data)
