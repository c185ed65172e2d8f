"""A time for records that go to a broker: what is older than its retention of a week, it deletes when it likes."""

from __future__ import annotations

import time
from typing import Final

RECENT_MS: Final = (int(time.time()) - 7200) * 1000
"""Two hours ago, in whole seconds."""
