"""A moment for others, between the pieces of a page that is made beside a broker.

While a page is made the collector is put off (``aio/serving/garbage.py``). So that what others leave behind meanwhile
does not add up, the youngest objects are looked at in each moment: some thousands, which takes a fifth of a
millisecond; the page's own are looked at once, and never all together.
"""

from __future__ import annotations

import gc
import time
from typing import Final

BREATH_S: Final = 0.000_2
YOUNGEST: Final = 0


def breathe() -> None:
    """Let the loop have Python's lock, and collect what is young."""
    gc.collect(YOUNGEST)
    time.sleep(BREATH_S)
