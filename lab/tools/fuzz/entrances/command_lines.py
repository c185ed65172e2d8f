"""Arguments of the ``kohort`` command: it must exit with a message and an exit code, never with a traceback.

No broker is reached: connections fail at once. For commands that run endlessly or start Spark, only the arguments are
parsed.
"""

from __future__ import annotations

import json
import random
import sys
from collections.abc import Iterator
from contextlib import chdir, contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any

import click
from click.testing import CliRunner

from fuzz.entrance import Entrance, Watch, Wrong
from fuzz.entrances.texts import scratch_folder
from fuzz.mutate import mutated
from kohort.cli.main import main
from kohort.cli.terminal.cluster import ClusterAccess
from kohort.errors import ConnectionFailed

PARSED_ONLY = {
    ("serve",), ("demo",), ("watch",), ("metrics",),
    *(("sim", verb) for verb in ("compare", "controls", "history", "reach", "replay", "run", "shrink", "story")),
    *(("pipeline", verb) for verb in ("test", "dry-run", "run", "replay", "compact")),
}  # fmt: skip
WORDS = (
    "g", "orders", "orders:0", "orders:0,1", "127.0.0.1:9092", "h:1,h:2", "5m", "1.5h", "-1", "2024-01-01T00:00:00Z",
    "PT1H", "latest", "earliest", "*", "a.*", "User:ann", "User:*", "key=value", "group.id=g", "acks", "0..5", "5..0",
    "SCRAM-SHA-256", "MAX_POLL_EXCEEDED", "27", "json", "range", "", " ", "--", "-", "-h", "--help", "\x1b[2J", "ä",
    "[", "1e400", "99999999999999999999", "0x10", "orders=0:1", "topic:t", "consumer", "=", ":", ",", "a=b=c", "+3",
)  # fmt: skip
FILES = {
    "good.yaml": b"version: 1\nname: o\nsource: {topics: [x], group: g}\nsinks: [{noop: }]\n",
    "client.properties": b"bootstrap.servers=127.0.0.1:1\nsecurity.protocol=PLAINTEXT\n",
    "history.jsonl": b'{"op":"send","client":"a","at":1,"topic":"t","partition":0,"value":"v","offset":0}\n',
    "other.bin": bytes(range(256)),
    "empty": b"",
}
MOST_ARGS = 40


class CommandLines(Entrance):
    """Typed command lines."""

    name = "command-lines"
    feeds = "arguments of every command, made up from its options; no cluster is reached"
    hang_ms = 500.0  # modules are imported by the commands that need them

    @cached_property
    def folder(self) -> Path:
        folder = scratch_folder()
        for name, content in FILES.items():
            (folder / name).write_bytes(content)
        return folder

    @cached_property
    def commands(self) -> list[tuple[tuple[str, ...], click.Command]]:
        return list(leaves((), main))

    @cached_property
    def parsed(self) -> Parsed:
        return Parsed(main)

    def generate(self, rng: random.Random) -> bytes:
        path, command = rng.choice(self.commands)
        args = [*path]
        for param in command.params:
            needed = param.required or isinstance(param, click.Argument)
            if rng.random() > (0.9 if needed else 0.15):
                continue
            for _ in range(1 if not param.multiple and param.nargs == 1 else rng.choice((1, 1, 2, 3))):
                if isinstance(param, click.Option):
                    args.append(rng.choice([*param.opts, *param.secondary_opts]))
                if not (isinstance(param, click.Option) and (param.is_flag or param.count)):
                    args.append(self.value(param, rng))
        if rng.random() < 0.3:
            args = self.changed(args, rng)
        return json.dumps(args[:MOST_ARGS]).encode("utf-8", "surrogatepass")

    def value(self, param: click.Parameter, rng: random.Random) -> str:
        """Return a value for a parameter, usually of its type."""
        if rng.random() < 0.15:
            return rng.choice(WORDS)
        match param.type:
            case click.Choice() as choice:
                return str(rng.choice(choice.choices))
            case click.types.IntParamType() | click.types.FloatParamType():
                return rng.choice(("1", "0", "-1", "5", "100", "2147483648", "1.5", "inf", "nan", "9" * 25))
            case click.Path() | click.File():
                return rng.choice(list(FILES))
            case _:
                found = rng.choice(WORDS)
                return mutated(found.encode(), rng).decode("utf-8", "replace") if rng.random() < 0.3 else found

    def changed(self, args: list[str], rng: random.Random) -> list[str]:
        """Return arguments with one removed, repeated, moved, or changed."""
        at = rng.randrange(len(args))
        match rng.randrange(4):
            case 0:
                return args[:at] + args[at + 1 :]
            case 1:
                return [*args, args[at]]
            case 2:
                return [*args[:at], rng.choice(WORDS), *args[at:]]
            case _:
                return [*args[:at], mutated(args[at].encode(), rng).decode("utf-8", "replace"), *args[at + 1 :]]

    def run(self, data: bytes, watch: Watch) -> None:
        try:
            args = [str(one).replace("\0", "").replace("/", "_") for one in json.loads(data)][:MOST_ARGS]
        except (ValueError, TypeError, RecursionError):
            return
        home = str(self.folder)
        for path in self.folder.iterdir():
            if path.name not in FILES:
                path.unlink() if path.is_file() else None
        env = {"HOME": home, "XDG_STATE_HOME": home, "KOHORT_PROFILES": f"{home}/none", "KOHORT_BOOTSTRAP": "h:1"}
        env["LANGUAGE"] = "C"  # avoid a search for translations on the disk
        command = main if self.may_run(args) else self.parsed
        with chdir(self.folder), without_connections(), streams_let_go():
            result = watch.step(lambda: CliRunner(env=env).invoke(command, args, input="x\n", prog_name="kohort"))
        error = result.exception
        if error is not None and not isinstance(error, SystemExit):
            raise error
        if result.exit_code and not result.output.strip() and not result.stderr.strip():
            raise Wrong(f"exit code {result.exit_code} without a message: {args}")

    def may_run(self, args: list[str]) -> bool:
        """Return True if a command surely ends by itself."""
        words = [arg for arg in args if not arg.startswith("-")]
        return not any(all(part in words for part in path) for path in PARSED_ONLY)


class Parsed(click.Group):
    """The same commands; their arguments are only parsed."""

    def __init__(self, group: click.Group) -> None:
        super().__init__(name=group.name, params=group.params, callback=group.callback)
        self._group = group

    def list_commands(self, ctx: click.Context) -> list[str]:
        return self._group.list_commands(ctx)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        found = self._group.get_command(ctx, name)
        if isinstance(found, click.Group):
            return Parsed(found)
        if found is None:
            return None
        return click.Command(found.name, params=found.params, callback=done, context_settings=found.context_settings)


def done(**_: Any) -> None:
    """Ignore the parsed arguments."""


@contextmanager
def without_connections() -> Iterator[None]:
    """Let connections of commands fail at once during the block."""
    before = ClusterAccess._client
    ClusterAccess._client = unreachable  # type: ignore[assignment, method-assign]
    try:
        yield
    finally:
        ClusterAccess._client = before  # type: ignore[method-assign]


@contextmanager
def streams_let_go() -> Iterator[None]:
    """Disable click's stream cache during the block: the cache would keep all streams, because its values refer to
    their keys.
    """
    before = click.utils._default_text_stdout, click.utils._default_text_stderr
    click.utils._default_text_stdout = lambda: sys.stdout
    click.utils._default_text_stderr = lambda: sys.stderr
    try:
        yield
    finally:
        click.utils._default_text_stdout, click.utils._default_text_stderr = before


def unreachable(self: ClusterAccess, client: Any, config: type, client_options: Any, options: Any) -> Any:  # noqa: ARG001
    """Check the options like a client, then fail to connect."""
    from kohort.config.options import parse_config
    from kohort.config.security_names import translated

    parse_config(config, {**translated(dict(client_options)), **translated(dict(options))})
    raise ConnectionFailed("no broker answers")


def leaves(path: tuple[str, ...], command: click.Command) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    """Yield every command with its path, without command groups."""
    if not isinstance(command, click.Group):
        yield path, command
        return
    context = click.Context(command)
    for name in command.list_commands(context):
        found = command.get_command(context, name)
        if found is not None:
            yield from leaves((*path, name), found)
