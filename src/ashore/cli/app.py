"""The commands, by name: each is imported when it is called.

What it is: `COMMANDS`, and the group that finds them.
What it promises: `--help`, `--version` and completion import no command and nothing that a command
needs; each command reads its arguments, calls one use case and shows its answer.
"""

import os
import sys
from importlib import import_module
from typing import Annotated, Any, NamedTuple

import typer
from typer.core import TyperCommand, TyperGroup

from ashore import __version__
from ashore.errors import ExitCode

SERVER = "ASHORE_SERVER"
LOCAL_ONLY = frozenset({"serve", "token", "demo", "services"})  # for this machine, whatever is set
LAB = "ashore_lab"  # a distribution of its own: what lands records does not need it
EPILOG = "Exit codes: " + "; ".join(f"{each:d}: {each.meaning}" for each in ExitCode)


class Listed(NamedTuple):
    """A command, or a group of them, before it is imported."""

    name: str
    module: str  # below ashore.cli; it has a function or a group of this name
    help: str  # the first sentence of its own help


COMMANDS = (
    Listed("run", "run", "Run a job until it is stopped."),
    Listed("stop", "stop", "Stop a running job gracefully, and wait until it has stopped."),
    Listed(
        "serve",
        "serve",
        "Run the jobs of a directory, and serve REST, metrics and pages over them.",
    ),
    Listed("token", "token", "Tokens of a server: who may ask it, and for what."),
    Listed("jobs", "fleet", "Show the jobs of a server: where each is, and what needs a person."),
    Listed("deploy", "fleet", "Give a server a job file, and the SQL and functions beside it."),
    Listed("start", "fleet", "Start a job of a server, whatever it ended with before."),
    Listed(
        "restart",
        "fleet",
        "Stop a job of a server gracefully, and start it with its file as it is now.",
    ),
    Listed(
        "pause", "fleet", "Stop a job of a server gracefully for a while, or until it is started."
    ),
    Listed("remove", "fleet", "Remove the file of a job that is stopped from a server."),
    Listed("operations", "fleet", "Show the operations of a server, the newest first."),
    Listed("cancel", "fleet", "Cancel an operation of a server, and wait until it has ended."),
    Listed("validate", "validate", "Plan the SQL of a job and show sources, state and columns."),
    Listed(
        "sql",
        "sql",
        "Try a query: run a SELECT once, on the newest records of the topics, and print its rows.",
    ),
    Listed("test", "cases", "Run test cases of a job's SQL: records in, rows out."),
    Listed(
        "init", "init", "Read the newest records of topics and write a job file that lands them."
    ),
    Listed("schema", "init", "Print the JSON Schema of the job file, for editors."),
    Listed("status", "status", "Show state, lag, rates, last entries and warnings."),
    Listed(
        "verify",
        "verify",
        "Compare log, files and Kafka: prove that nothing is lost and nothing duplicated.",
    ),
    Listed(
        "audit", "audit", "Check that every offset is accounted for and every file matches the log."
    ),
    Listed(
        "trace",
        "trace",
        "Show what happened to one data file: entry, offsets, move, seals, and its owner.",
    ),
    Listed(
        "doctor",
        "doctor",
        "Repair what can be repaired without guessing; report what cannot, and exit with 4.",
    ),
    Listed("recover", "recover", "Finish the moves of a job that died, from its log alone."),
    Listed(
        "roll-back",
        "decisions",
        "Roll a query back to an earlier batch: its checkpoint and its table.",
    ),
    Listed("checkpoint", "checkpoint", "Checkpoints of queries: inspect, copy and restore them."),
    Listed(
        "versions",
        "versions",
        "Versions of a job's queries: what was run from which batch on, and what differs.",
    ),
    Listed("migrate", "migrate", "Change the SQL of a job and keep its state."),
    Listed("retire", "clean", "Drop partitions from log, catalog and storage."),
    Listed(
        "rejoin",
        "decisions",
        "Continue with a topic that was deleted and created again, from its beginning.",
    ),
    Listed(
        "skip",
        "decisions",
        "Skip offsets that Kafka no longer has or that exceed `limits`; the log keeps who and why.",
    ),
    Listed("reset-clock", "decisions", "Set back the times of a log whose clock was ahead."),
    Listed(
        "clean",
        "clean",
        "Delete in-progress files and orphans of tables that nothing refers to.",
    ),
    Listed(
        "compact",
        "compact",
        "Put small files of Iceberg and Delta tables together.",
    ),
    Listed(
        "warm-up",
        "warm_up",
        "Archive the classes of Spark, so that each later start takes a third less CPU time.",
    ),
    Listed(
        "demo",
        "demo",
        "Land two topics, kill the job, restart it, prove that nothing is lost or duplicated.",
    ),
    Listed("services", "services", "Development servers from jars."),
    Listed("drill", "drill", "Drills: fault injection that tries to break exactly-once."),
)


STOP_ALL = Listed("stop-all", "fleet", "Stop the jobs of a server.")
ALL = "--all"  # `stop` of a job asks its process, and with this a server


class _Later(TyperCommand):
    """A command that is imported when it is called: a name and a line of help until then."""

    def __init__(self, command: Listed) -> None:
        super().__init__(command.name, help=command.help, rich_markup_mode=None)
        self._command = command

    def make_context(self, *args: Any, **more: Any) -> Any:
        """Import the command, and let it read its arguments."""
        words = args[1] if len(args) > 1 else more.get("args", ())
        command = STOP_ALL if self._command.name == "stop" and ALL in words else self._command
        loaded, server = load(command), os.environ.get(SERVER)
        if server and self._command.name not in LOCAL_ONLY:
            from ashore.cli.remote import at_server  # noqa: PLC0415 - where a server is asked

            loaded = at_server(server, loaded, self._command.name)
        return loaded.make_context(*args, **more)


class _Commands(TyperGroup):
    """The group of all commands."""

    def __init__(self, **more: Any) -> None:
        super().__init__(**{**more, "commands": {each.name: _Later(each) for each in COMMANDS}})


def load(command: Listed) -> Any:
    """Return a command with its arguments and options, or a group of commands."""
    try:
        module = import_module(f"ashore.cli.{command.module}")
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != LAB:
            raise
        typer.echo(f"error: `ashore {command.name}` needs: pip install ashore-lab", err=True)
        raise SystemExit(ExitCode.MISSING) from None
    found = getattr(module, command.name.replace("-", "_"))
    if not isinstance(found, typer.Typer):
        alone = typer.Typer(
            add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None
        )
        alone.command(command.name)(found)
        found = alone
    loaded = typer.main.get_command(found)
    loaded.name = command.name
    return loaded


app = typer.Typer(
    name="ashore",
    cls=_Commands,
    help="Lands Kafka topics in lake tables, each record exactly once.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    epilog=EPILOG,
)


def _show_version(is_asked: bool) -> None:
    if is_asked:
        typer.echo(f"ashore {__version__}")
        raise typer.Exit


def _use_server(url: str | None) -> None:
    if url:
        os.environ[SERVER] = url


@app.callback()
def _root(
    _server: Annotated[
        str | None,
        typer.Option(
            "--server",
            metavar="URL",
            callback=_use_server,
            help="Let the server there do it, as `ashore serve` prints it; or $ASHORE_SERVER.",
        ),
    ] = None,
    _version: Annotated[
        bool,
        typer.Option("--version", callback=_show_version, is_eager=True, help="Print the version."),
    ] = False,
) -> None:
    pass


def load_all() -> Any:
    """Return the group of all commands with each of them imported: for who reads their options."""
    root: Any = typer.main.get_command(app)
    root.commands = {each.name: load(each) for each in COMMANDS}
    return root


def main() -> None:
    """Run the command line."""
    try:
        app()
    except KeyboardInterrupt:
        sys.exit(ExitCode.INTERRUPTED)
