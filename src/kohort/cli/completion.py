"""``kohort completion``: the script that teaches a shell our commands, options, topics and groups."""

from __future__ import annotations

import click

HELP = """Print the completion script of SHELL, for its start-up file.

Commands and options complete at once; names of topics, groups and users are asked of the cluster that --bootstrap,
--config, --profile or their variables name, for a second at most.

\b
Examples:
  kohort completion bash >> ~/.bashrc
  kohort completion zsh > ~/.zfunc/_kohort
  kohort completion fish > ~/.config/fish/completions/kohort.fish
"""


@click.command(help=HELP, short_help="Print the completion script of a shell.")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(ctx: click.Context, shell: str) -> None:
    from click.shell_completion import get_completion_class

    make = get_completion_class(shell)
    assert make is not None, "click knows these three shells"
    script = make(ctx.find_root().command, {}, "kohort", "_KOHORT_COMPLETE")
    click.echo(script.source_template % script.source_vars())
