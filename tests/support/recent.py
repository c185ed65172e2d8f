"""A timestamp for records within the broker's retention of a week."""

from __future__ import annotations

import time
from typing import Final

RECENT_MS: Final = (int(time.time()) - 7200) * 1000
"""Two hours ago, in whole seconds."""
