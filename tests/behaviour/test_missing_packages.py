from __future__ import annotations

import sys

import pytest

from kohort import Broker, Consumer, MissingExtra


def test_poll_arrow_without_pyarrow_names_the_extra(monkeypatch):
    with Broker() as broker, Consumer(bootstrap_servers=broker.bootstrap, group_id="g") as consumer:
        consumer.subscribe(["t"])
        monkeypatch.setitem(sys.modules, "pyarrow", None)

        with pytest.raises(MissingExtra, match=r"poll_arrow needs the package pyarrow: pip install 'kohort\[arrow\]'"):
            consumer.poll_arrow(timeout_ms=100)
