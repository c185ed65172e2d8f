"""Before a wheel is built: download the console's JavaScript libraries (tools/vendor.py)."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class VendorHook(BuildHookInterface):
    """Adds the downloaded files to the wheel; without a registry, prints a line and continues."""

    PLUGIN_NAME = "vendor"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:  # noqa: ARG002 - the hook's signature
        if version == "editable":
            return
        tool = runpy.run_path(str(Path(self.root) / "tools" / "vendor.py"))
        if tool["main"]():
            raise RuntimeError("the console's JavaScript libraries differ from vendor.json")
