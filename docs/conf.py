"""The documentation site: every page of the repository, and the public classes from their docstrings. ``make docs``."""

from __future__ import annotations

import kohort

project = "kohort"
author = "the kohort authors"
copyright = "2026, the kohort authors"  # noqa: A001 - Sphinx's name for it
release = version = kohort.__version__
extensions = ["myst_parser", "sphinx.ext.autodoc"]
root_doc = "docs/index"
include_patterns = [
    *("README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md"),
    *("tests/README.md", "tests/support/README.md", "docs/**"),
    *("lab/README.md", "lab/tools/fuzz/README.md", "lab/tools/faults/README.md", "lab/tools/soak/README.md"),
]
myst_enable_extensions = ["colon_fence"]
myst_heading_anchors = 4
html_theme = "furo"
html_title = f"kohort {release}"
html_copy_source = False
html_show_sphinx = False
autodoc_typehints = "signature"
autodoc_member_order = "bysource"
autodoc_default_options = {"members": True, "inherited-members": False, "exclude-members": "__init__"}
suppress_warnings = ["misc.highlighting_failure"]
"""A command line is no program."""
