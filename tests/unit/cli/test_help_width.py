import click

from kohort.cli.main import main


def helps(command: click.Command, ctx: click.Context):
    yield ctx.command_path, command.get_help(ctx)
    if isinstance(command, click.Group):
        for name in command.list_commands(ctx):
            inner = command.get_command(ctx, name)
            assert inner is not None
            yield from helps(inner, click.Context(inner, info_name=name, parent=ctx))


def test_lines_of_help_fit_80_columns():
    context = click.Context(main, info_name="kohort", terminal_width=80, max_content_width=80)
    wide = [f"{path}: {line}" for path, text in helps(main, context) for line in text.splitlines() if len(line) > 80]
    assert wide == []
