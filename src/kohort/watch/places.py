"""Where a watcher keeps what it knows: in the user's folder for state (XDG), a file for each cluster by its id."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

_PLAIN: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")


def store_path(cluster_id: str, environ: Mapping[str, str]) -> Path:
    """Return the file for a cluster; the id comes from the cluster, so one that is no plain name is hashed."""
    root = Path(environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state")
    plain = _PLAIN.fullmatch(cluster_id) is not None
    name = cluster_id if plain else hashlib.sha256(cluster_id.encode("utf-8", "surrogatepass")).hexdigest()
    return root / "kohort" / "watch" / f"{name}.sqlite"
