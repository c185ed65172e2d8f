"""The documentation site is built from the pages and the docstrings; a link that leads nowhere fails the build."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def built(source: Path, into: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "sphinx", "-q", "-W", "--keep-going", "-c", ROOT / "docs", source, into]
    return subprocess.run(command, capture_output=True, text=True, timeout=580, check=False)


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_the_site_builds_and_has_every_page_and_every_public_name(tmp_path):
    done = built(ROOT, tmp_path)

    assert done.returncode == 0, done.stderr
    pages = {path.relative_to(tmp_path).with_suffix(".md") for path in tmp_path.rglob("*.html")}
    missing = [p for p in (ROOT / "docs").rglob("*.md") if p.relative_to(ROOT) not in pages]
    assert missing == []
    shown = (tmp_path / "docs" / "api.html").read_text()
    assert 'id="kohort.Consumer.poll"' in shown
    index = (tmp_path / "docs" / "index.html").read_text()
    assert not re.findall(
        r'(?:src|href)="https?://(?!www\.sphinx-doc|github\.com/pradyunsg|pradyunsg\.me)[^"]*\.(?:js|css)', index
    )


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_link_that_leads_nowhere_fails_the_build(tmp_path):
    source = tmp_path / "source"
    (source / "docs").mkdir(parents=True)
    (source / "docs" / "index.md").write_text("# A page\n\n[there](nowhere.md) and [in it](#no-heading)\n")

    done = built(source, tmp_path / "site")

    assert done.returncode != 0
    assert "nowhere.md" in done.stderr
    assert "no-heading" in done.stderr
