"""The version of kohort, as brokers and packages see it."""

from typing import Final

VERSION: Final = "0.1.0"
