"""Timeline of a run, as text or as a self-contained HTML page."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Final

from kohort_lab.sim.history import Happening
from kohort_lab.sim.verdict import Verdict

LOUD: Final = frozenset({"killed", "frozen", "start failed", "gives up", "hangs up", "lost", "clock put forward"})
CALM: Final = frozenset({"calm", "owns"})

STYLE: Final = """
body { font: 14px/1.45 system-ui, sans-serif; margin: 2rem auto; max-width: 75rem; color: #1b1f24; background: #fff }
h1 { font-size: 1.3rem } .failed { color: #b3261e } .passed { color: #1a7f37 }
pre { background: #f6f8fa; padding: 1rem; overflow-x: auto; white-space: pre-wrap }
table { border-collapse: collapse; width: 100% } td, th { padding: .15rem .6rem; text-align: left; vertical-align: top }
th { position: sticky; top: 0; background: #fff; border-bottom: 2px solid #d0d7de }
td { border-bottom: 1px solid #eaeef2 } td:first-child { font-variant-numeric: tabular-nums; color: #57606a }
tr.loud td { background: #fff1ef } tr.calm td { background: #effaf1 }
"""


def story_text(verdict: Verdict) -> str:
    """Return plan, events and verdict as text."""
    lines = [str(verdict.plan), *map(str, verdict.happenings), "", _sum(verdict)]
    if verdict.failure is not None:
        lines += [f"FAILED by {verdict.caught_by or 'a machine'}", verdict.failure.rstrip()]
    return "\n".join(lines)


def story_html(verdict: Verdict) -> str:
    """Return the timeline as an HTML page: one row per event, one column per actor."""
    happenings = verdict.happenings
    actors = list(dict.fromkeys(h.who for h in happenings))
    head = "".join(f"<th>{escape(who)}</th>" for who in actors)
    rows = "".join(_row(h, actors) for h in happenings)
    outcome = "passed" if verdict.passed else "failed"
    failure = f"<pre>{escape(verdict.failure)}</pre>" if verdict.failure is not None else ""
    title = f"seed {verdict.plan.seed}: {outcome}"
    return (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{title}</title><style>{STYLE}</style>'
        f'<h1 class="{outcome}">{escape(title)}</h1><p>{escape(str(verdict.plan))}</p><p>{escape(_sum(verdict))}</p>'
        f"{failure}<table><thead><tr><th>s</th>{head}</tr></thead><tbody>{rows}</tbody></table></html>\n"
    )


def _row(happening: Happening, actors: Sequence[str]) -> str:
    kind = "loud" if happening.what in LOUD else "calm" if happening.what in CALM else ""
    text = escape(f"{happening.what}: {happening.detail}" if happening.detail else happening.what)
    cells = "".join(f"<td>{text if who == happening.who else ''}</td>" for who in actors)
    return f'<tr class="{kind}"><td>{happening.at_ms / 1000:.3f}</td>{cells}</tr>'


def _sum(verdict: Verdict) -> str:
    seconds = verdict.elapsed_ms / 1000
    return f"{verdict.events} events, {seconds:.0f} s simulated, {verdict.acknowledged} records acknowledged"
