"""On-call guide: its commands run unchanged, and its tables name existing objects."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

import kohort
from kohort.cli.main import main
from kohort.insight.catalogue import CAUSES
from support.rebalanced_group import rebalanced_group

ROOT = Path(__file__).parents[2]
GUIDE = ROOT / "docs" / "guides" / "on-call.md"


def played() -> list[list[str]]:
    """The words of the commands that the guide begins with."""
    (block,) = re.findall(r"<!-- played -->\n```console\n(.*?)```", GUIDE.read_text(), re.DOTALL)
    lines = [line.removeprefix("$ ").partition(" # ")[0].strip() for line in block.splitlines()]
    return [shlex.split(line)[1:] for line in lines if line.startswith("kohort ")]


SAYS = {
    "why": ("CAUSE     MAX_POLL_EXCEEDED  (confidence: high)", "ADVICE    raise max.poll.interval.ms"),
    "describe": ("billing-1", "STATE"),
    "timeline": ("MAX_POLL_EXCEEDED billing-2", "┊"),
    "MAX_POLL_EXCEEDED": ("ADVICE", "NOT"),
    "what-if": ("simulation, not executed", "rolling restart, all static", "moved 0/4"),
}


@pytest.mark.timeout(120)
def test_five_commands_of_guide_explain_rebalance():
    with kohort.Broker({"group.initial.rebalance.delay.ms": 0}) as broker, rebalanced_group(broker.bootstrap) as run:
        for words in played():
            output = run(words)
            verb = words[1]
            assert verb in SAYS
            assert [say for say in SAYS[verb] if say not in output] == [], output

    assert [words[1] for words in played()] == list(SAYS)


def test_the_tables_name_causes_and_states_that_there_are():
    from typing import get_args

    from kohort.insight.health import MemberState

    text = GUIDE.read_text()
    causes = re.findall(r"`([A-Z_]{5,}(?:\.[a-z_]+)?)`", text[text.index("| `CAUSE` |") : text.index("## 2.")])
    states = re.findall(r"^\| `([a-z-]+)` \|", text[text.index("| `STATE` |") : text.index("## 3.")], re.MULTILINE)

    assert [cause for cause in causes if cause not in CAUSES and cause != "CAUSE"] == []
    assert set(states) == set(get_args(MemberState))


def shown_commands() -> Iterator[tuple[str, str]]:
    for page in (*sorted((ROOT / "docs").rglob("*.md")), ROOT / "README.md"):
        for line in re.findall(r"^\$ (?:[A-Z_]+=\S+ )*(kohort .*)$", page.read_text(), re.MULTILINE):
            yield page.relative_to(ROOT).as_posix(), re.split(r" (?:#|\||\|\||&&|>>?|<) ?|\\$", line)[0].strip()


@pytest.mark.parametrize(("page", "line"), sorted(set(shown_commands())))
def test_commands_on_pages_exist_with_their_options(page: str, line: str, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    words = shlex.split(line)[1:]
    for name in [
        word for word in words if re.search(r"\.(csv|yaml|properties|rec|py|jsonl|json|ndjson|pem|password)$", word)
    ]:
        path = Path(name)
        if not path.is_absolute() and ".." not in path.parts:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.touch()
    ctx = click.Context(main, info_name="kohort")
    command: click.Command = main
    while isinstance(command, click.Group) and words and not words[0].startswith("-"):
        found = command.get_command(ctx, words[0])
        assert found is not None, f"{page}: {line}: there is no {words[0]}"
        command, words = found, words[1:]
    try:
        command.make_context(line, words, parent=ctx)
    except click.exceptions.Exit:
        pass  # --help, --output schema
    except click.UsageError as error:
        raise AssertionError(f"{page}: {line}: {error.format_message()}") from None
