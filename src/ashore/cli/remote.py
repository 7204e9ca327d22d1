"""Commands that are done by a server: `ashore --server URL COMMAND`.

What it is: `at_server`, which turns a command into a request for its twin.
What it promises: arguments are read as they are here; what the command prints there is printed
here, and its exit code is this one's. Ctrl-C cancels the operation.
What it must not know: what commands do.
"""

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import typer

from ashore.cli.client import WAIT_S, ServerClient
from ashore.cli.output import escape, reported_errors, say, shown_progress, talk
from ashore.errors import ExitCode, RequestInvalid, ServerUnreachable
from ashore.fleet.operate.commands import BY_NAME, CommandTwin

BAR_S = 1  # between two looks at what has a bar
VERBS = {"run": "start"}  # what a command is where jobs are supervised


def at_server(url: str, command: Any, name: str) -> Any:
    """Return a command, or a group of them, whose work is done by a server."""
    if hasattr(command, "commands"):
        for each in command.commands.values():
            at_server(url, each, f"{name} {each.name}")
        return command
    is_own = getattr(command.callback, "asks_server", False)
    if not is_own:
        command.callback = _asking(url, name)
    return command


def _asking(url: str, name: str) -> Any:
    def ask(**values: object) -> None:
        as_json = bool(values.pop("as_json", False))
        debug = bool(values.pop("debug", False))
        with reported_errors(as_json=as_json, debug=debug), ServerClient(url) as client:
            if name in VERBS:
                _start(client, values)
                return
            command = BY_NAME.get(name)
            if command is None:
                raise RequestInvalid(
                    f"`ashore {name}` is for this machine only", hint="leave --server out"
                )
            raise typer.Exit(run_there(client, command, values, as_json=as_json))

    return ask


def run_there(
    client: ServerClient, command: CommandTwin, values: Mapping[str, object], *, as_json: bool
) -> int:
    """Let a server run a command; print what it prints, and return its exit code."""
    body = {name: _plain(value) for name, value in values.items() if value not in (None, [], ())}
    path = f"/api/operations/{command.route}"
    target = command.target
    if target is not None:
        named = body.pop(target.name, "")
        job = job_of(named[0] if isinstance(named, list) and named else str(named))
        if target.kind == "place" and not _is_job(client, job):
            body[target.name] = named
        else:
            path = f"/api/jobs/{job}/operations/{command.route}"
    asked = client.ask("POST", path, {**body, "as_json": as_json})
    return follow(client, str(asked["id"]), quiet=as_json)


def follow(client: ServerClient, operation: str, *, quiet: bool = False) -> int:
    """Wait for an operation; print what it prints, and return its exit code. `quiet`: no bar."""
    try:
        found = _wait(client, operation, quiet=quiet or not talk.is_terminal)
    except KeyboardInterrupt:
        client.ask("POST", f"/api/operations/{operation}/cancel")
        say(f"operation {operation} is cancelled")
        return ExitCode.INTERRUPTED
    except ServerUnreachable as error:
        hint = f"operation {operation} continues, and `ashore operations` shows how it ended"
        raise ServerUnreachable(error.message, hint=f"{hint}; {error.hint}") from None
    sys.stdout.write(client.text(f"/api/operations/{operation}/output"))
    sys.stdout.flush()
    if found["state"] == "lost":
        say(f"operation {operation}: its process is gone and left no exit code")
    return int(found["exit_code"] if found["exit_code"] is not None else 1)


def _wait(client: ServerClient, operation: str, *, quiet: bool) -> Any:
    """Return an operation that has ended, and show meanwhile what it says and how far it is."""
    shown, wait_s = "", WAIT_S if quiet else BAR_S
    with shown_progress(quiet=quiet) as progress:
        while True:
            found = client.ask("GET", f"/api/operations/{operation}?wait_s={wait_s}")
            shown = _show(shown, str(found["said"]))
            if at := found["progress"]:
                progress(found["command"], at["done"], at["total"], at["what"])
            if found["exit_code"] is not None or found["state"] in {"lost", "cancelled"}:
                return found


def job_of(text: str) -> str:
    """Return the name of the job that an argument means: `clicks`, or its file."""
    path = Path(text)
    return path.stem if path.suffix in {".yaml", ".yml"} else text


def _is_job(client: ServerClient, name: str) -> bool:
    if not name or "/" in name or ":" in name:
        return False
    return any(each["name"] == name for each in client.ask("GET", "/api/jobs")["jobs"])


def _start(client: ServerClient, values: dict[str, object]) -> None:
    given = sorted(
        name for name, value in values.items() if value not in (None, False, [], (), "text")
    )
    if given != ["job_file"]:
        options = ", ".join(name.replace("_", "-") for name in given if name != "job_file")
        raise RequestInvalid(
            f"a job of a server is started without options: {options}",
            hint="stop it, and use the command on the server's machine",
        )
    job = job_of(str(values["job_file"]))
    client.ask("POST", f"/api/jobs/{job}/start", {})
    say(f"job {escape(job)} is started: ashore jobs shows where it is")


def _show(shown: str, said: str) -> str:
    """Print what is new on stderr, and return what has been seen.

    The server keeps the newest part of a long text, so `said` may begin within `shown`.
    """
    common = next(n for n in range(min(len(shown), len(said)), -1, -1) if shown.endswith(said[:n]))
    sys.stderr.write(said[common:])
    sys.stderr.flush()
    return said


def _plain(value: object) -> object:
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    return value if isinstance(value, bool | int | float | str) else str(value)
