"""Before a wheel is built: bring what the console's pages need of others (tools/vendor.py)."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class VendorHook(BuildHookInterface):
    """Brings the files into the wheel; says so in a line and goes on where the registry cannot be reached."""

    PLUGIN_NAME = "vendor"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:  # noqa: ARG002 - the hook's signature
        if version == "editable":
            return
        tool = runpy.run_path(str(Path(self.root) / "tools" / "vendor.py"))
        if tool["main"]():
            raise RuntimeError("what the console needs of others is not what vendor.json says")
