import pytest
from click.testing import CliRunner

from kohort.cli.main import COMMANDS, main
from kohort.cli.terminal.exits import ExitCode

WORKING = """
import click

@click.command()
@click.option("--name", default="world")
def greet(name):
    "Greet the world."
    click.echo(f"hello {name}")
"""


@pytest.fixture
def install(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)

    def installed(module: str, source: str, entry: str) -> None:
        (tmp_path / f"{module}.py").write_text(source)
        info = tmp_path / f"{module}-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {module}\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text(f"[kohort.commands]\n{entry}\n")

    return installed


def run(*words: str):
    return CliRunner().invoke(main, words)


def test_installed_command_runs_with_its_options_and_is_listed_with_its_package(install):
    install("plugin_greet", WORKING, "greet = plugin_greet:greet")

    assert run("greet", "--name", "lab").output == "hello lab\n"
    assert "Greet the world." in run("greet", "--help").output
    assert "greet           Command of the package plugin_greet." in run("--help").output


@pytest.mark.parametrize(
    ("name", "source", "reason"),
    [
        ("absent", "import no_such_module", "ModuleNotFoundError: No module named 'no_such_module'"),
        ("raising", "raise RuntimeError('wrong release')", "RuntimeError: wrong release"),
        ("nothing", "", "AttributeError: module 'plugin_nothing' has no attribute 'command'"),
        ("number", "command = 7", "plugin_number:command is not a click command"),
    ],
)
def test_broken_installed_command_prints_one_line_and_does_not_break_help(install, name, source, reason):
    install(f"plugin_{name}", source, f"{name} = plugin_{name}:command")

    done = run(name, "--seeds", "7", "--help")

    assert done.exit_code == ExitCode.FAILED
    assert done.stderr == (
        f"kohort {name}: the package plugin_{name} cannot be loaded ({reason}); reinstall or remove it\n"
    )
    assert f"Command of the package plugin_{name}." in run("--help").output


def test_installed_command_does_not_replace_a_command_of_kohort(install):
    install("plugin_topics", WORKING, "topics = plugin_topics:greet")

    assert main.get_command(None, "topics").help.startswith("Create")
    assert run("--help").output.count("  topics ") == 1
    assert COMMANDS["topics"][1] in run("--help").output


def test_unknown_command_is_usage_error():
    done = run("frobnicate")

    assert done.exit_code == ExitCode.USAGE
    assert "No such command 'frobnicate'" in done.stderr
