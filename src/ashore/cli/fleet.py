"""Commands that only a server has: its jobs, the verbs over them, its operations.

What it promises: they ask the server that --server or $ASHORE_SERVER names, by default that of this
machine. What is printed is what the server said.
"""

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import wraps
from pathlib import Path
from typing import Annotated, Any, Concatenate, ParamSpec
from urllib.parse import quote

import typer

from ashore.base.clock import SystemClock
from ashore.base.labels import label_texts
from ashore.base.units import format_duration, format_lag
from ashore.cli.options import AsJson, Debug, parse_duration
from ashore.cli.output import print_answer, print_json, print_lines, print_table, reported_errors
from ashore.cli.remote import ServerClient, follow_operation, job_of, server_url
from ashore.errors import AshoreError, JobFileInvalid

JobName = Annotated[str, typer.Argument(metavar="JOB", help="The job, as its file is named.")]
WhyChanged = Annotated[str, typer.Option("--why", help="The reason, for the server's audit.")]
OptionalJob = Annotated[
    str | None, typer.Argument(metavar="JOB", help="The job, as its file is named.")
]
EveryJob = Annotated[
    bool,
    typer.Option(
        "--all", help="All jobs of the server that --selector, --state and --name select."
    ),
]
OfLabels = Annotated[
    str | None,
    typer.Option("--selector", help="Only jobs with these labels: `team=payments,tier!=test`."),
]
OfState = Annotated[
    str | None, typer.Option(help="Only jobs in this state, as `ashore jobs` shows it: `stopped`.")
]
OfName = Annotated[str | None, typer.Option(help="Only jobs whose name matches: `orders-*`.")]
WAIT_S = 0.5
P = ParamSpec("P")


@dataclass(frozen=True, slots=True)
class Selected:
    """Which jobs of a server are meant. None: whatever it is. `labels`: a selector of labels."""

    labels: str | None
    state: str | None
    name: str | None

    def has(self, job: Mapping[str, Any]) -> bool:
        """Return whether a job with the labels, as its document describes it, is one of them."""
        is_state = self.state is None or self.state.replace("-", " ") == job["state"]
        return is_state and (self.name is None or fnmatchcase(job["name"], self.name))


@dataclass(frozen=True, slots=True)
class ServerCalls:
    """The server that a command asks, and how its answer is printed."""

    client: ServerClient
    as_json: bool

    def list_jobs(self, labels: str | None = None) -> Any:
        """Return the document with all jobs, or those that a selector of labels means."""
        query = "" if labels is None else f"?selector={quote(labels, safe='')}"
        return self.client.ask("GET", f"/api/jobs{query}")

    def act(self, verb: str, job: str, body: dict[str, object]) -> None:
        """Ask for a verb over a job, and print where the job is then."""
        self.print_job(self.client.ask("POST", f"/api/jobs/{job_of(job)}/{verb}", body))

    def print_job(self, found: Any) -> None:
        """Print where a job is."""
        why = f": {found['why']}" if found["why"] else ""
        lines = [f"job {found['name']}: {found['state']}{why}"]
        hints = [found["hint"]] if found["hint"] else []
        print_answer(lines + hints, found, as_json=self.as_json)


def asks_server(command: Callable[Concatenate[ServerCalls, P], None]) -> Callable[..., None]:
    """Return a command that asks a server itself, with the options that all of these have."""

    def ask(as_json: AsJson = False, debug: Debug = False, **own: Any) -> None:
        with reported_errors(as_json=as_json, debug=debug), ServerClient(server_url()) as client:
            command(ServerCalls(client, as_json), **own)  # type: ignore[call-arg]

    _server, *own = inspect.signature(command).parameters.values()
    *options, _own = inspect.signature(ask).parameters.values()
    made = wraps(command)(ask)
    del made.__wrapped__
    made.__signature__ = inspect.Signature([*own, *options])  # type: ignore[attr-defined]
    made.__annotations__ = {each.name: each.annotation for each in [*own, *options]}
    made.asks_server = True  # type: ignore[attr-defined]
    return made


@asks_server
def jobs(server: ServerCalls, selector: OfLabels = None) -> None:
    """Show the jobs of a server: where each is, and what needs a person."""
    found = server.list_jobs(selector)
    if server.as_json:
        print_json(found)
        return
    show_jobs(found["jobs"], SystemClock().now_ms())


def show_jobs(jobs: Sequence[Mapping[str, Any]], now_ms: int) -> None:
    """Print jobs as a server's documents describe them, and what needs a person."""
    has_labels = any(each["labels"] for each in jobs)
    rows = [
        [
            *(each["name"], *([",".join(label_texts(each["labels"]))] if has_labels else [])),
            *(each["state"], _age(each["state_since_ms"], now_ms)),
            *(_lag(each, now_ms), "" if each["rate"] is None else f"{each['rate']:,}"),
            *(_age(each["last_commit_ms"], now_ms), each["why"].partition("\n")[0]),
        ]
        for each in jobs
    ]
    columns = {"job": "left"} | ({"labels": "left"} if has_labels else {})
    columns |= {"state": "left", "for": "right", "lag": "right"}
    columns |= {"records/s": "right", "last entry": "right", "why": "left"}
    print_table("", columns, rows)
    for job in jobs:
        for need in job["needs"]:
            head = f"{job['name']}: {need['level']}: "
            subject = "" if need["subject"] == job["name"] else f"{need['subject']}: "
            print_lines([f"{head}{subject}{need['text']}", f"  next: {need['hint']}"])


@asks_server
def start(  # noqa: PLR0913, PLR0917 - each parameter is an option of the command
    server: ServerCalls,
    job: OptionalJob = None,
    every: EveryJob = False,
    selector: OfLabels = None,
    state: OfState = None,
    name: OfName = None,
    why: WhyChanged = "",
) -> None:
    """Start a job of a server, whatever it ended with before.

    With --all, start several.
    """
    selected = Selected(selector, state, name)
    if not every:
        if job is None or selected != Selected(None, None, None):
            raise typer.BadParameter("name one job, or add --all")
        server.act("start", job, {"why": why})
        return
    if job is not None:
        raise typer.BadParameter("--all excludes a job")
    act_on_all(server, "start", selected, why)


@asks_server
def stop_all(  # noqa: PLR0913, PLR0917 - each parameter is an option of the command
    server: ServerCalls,
    every: EveryJob = False,
    selector: OfLabels = None,
    state: OfState = None,
    name: OfName = None,
    timeout: Annotated[
        str, typer.Option(help="How long to wait until they have stopped.")
    ] = "120s",
    why: WhyChanged = "",
) -> None:
    """Stop the jobs of a server gracefully, and wait until they have stopped."""
    if not every:
        raise typer.BadParameter("add --all")
    within_s = parse_duration(timeout) / 1000
    act_on_all(server, "stop", Selected(selector, state, name), why, within_s)


def act_on_all(
    server: ServerCalls, verb: str, selected: Selected, why: str, within_s: float = 0.0
) -> None:
    """Ask for a verb over the selected jobs; one that is refused keeps no other from it.

    `within_s`: how long to wait until their processes have ended.
    """
    listed = server.list_jobs(selected.labels)["jobs"]
    names = [each["name"] for each in listed if selected.has(each)]
    failed: list[dict[str, str]] = []
    for each in names:
        try:
            server.client.ask("POST", f"/api/jobs/{each}/{verb}", {"why": why})
        except AshoreError as error:
            failed.append({"job": each, "code": error.code, "message": error.message})
    clock = SystemClock()
    until_s = clock.monotonic_s() + within_s
    while True:
        found = [each for each in server.list_jobs()["jobs"] if each["name"] in names]
        alive = [each["name"] for each in found if within_s and each["process"] is not None]
        if not alive or clock.monotonic_s() >= until_s:
            break
        clock.sleep(WAIT_S)
    known = {each["job"] for each in failed}
    failed += [
        {"job": each, "code": "job-not-answering", "message": "it has not stopped yet"}
        for each in alive
        if each not in known
    ]
    lines = [f"job {each['name']}: {each['state']}" for each in found]
    lines += [f"job {each['job']}: {each['message']}" for each in failed]
    document = {"jobs": found, "failed": failed}
    print_answer(lines or ["no job is selected"], document, as_json=server.as_json)
    if failed:
        raise typer.Exit(1)


@asks_server
def restart(server: ServerCalls, job: JobName, why: WhyChanged = "") -> None:
    """Stop a job of a server gracefully, and start it with its file as it is now."""
    server.act("restart", job, {"why": why})


@asks_server
def pause(
    server: ServerCalls,
    job: JobName,
    duration: Annotated[
        str | None,
        typer.Option("--for", help="How long to pause it: `2h`. Then it is started again."),
    ] = None,
    why: WhyChanged = "",
) -> None:
    """Stop a job of a server gracefully for a while, or until it is started."""
    for_ms = None if duration is None else parse_duration(duration)
    server.act("pause", job, {"why": why, "for_ms": for_ms})


@asks_server
def deploy(
    server: ServerCalls,
    job_file: Annotated[Path, typer.Argument(metavar="JOB.yaml", help="A local job file.")],
    now: Annotated[
        bool, typer.Option("--start", help="Start the job, or restart it if it is running.")
    ] = False,
    why: WhyChanged = "",
) -> None:
    """Give a server a job file, and the SQL and functions beside it. It is checked first."""
    body = {"file": _read(job_file), "beside": _beside(job_file), "start": now, "why": why}
    server.print_job(server.client.ask("PUT", f"/api/jobs/{job_of(str(job_file))}", body))


@asks_server
def remove(server: ServerCalls, job: JobName) -> None:
    """Remove the file of a job that is stopped from a server. Its lake stays as it is."""
    name = job_of(job)
    server.client.ask("DELETE", f"/api/jobs/{name}")
    print_answer([f"job {name} is removed"], {"job": name}, as_json=server.as_json)


@asks_server
def operations(server: ServerCalls) -> None:
    """Show the operations of a server, the newest first."""
    found = server.client.ask("GET", "/api/operations")
    if server.as_json:
        print_json(found)
        return
    now_ms = SystemClock().now_ms()
    rows = [
        [
            *(each["id"], each["command"], each["job"], each["outcome"]),
            *(_age(each["created_ms"], now_ms), each["by"]),
        ]
        for each in found["operations"]
    ]
    columns = {"operation": "left", "command": "left", "job": "left", "state": "left"}
    print_table("", columns | {"asked": "right", "by": "left"}, rows)


@asks_server
def cancel(
    server: ServerCalls,
    operation: Annotated[str, typer.Argument(metavar="OPERATION", help="Its id.")],
) -> None:
    """Cancel an operation of a server, and wait until it has ended."""
    server.client.ask("POST", f"/api/operations/{operation}/cancel")
    follow_operation(server.client, operation)
    found = server.client.ask("GET", f"/api/operations/{operation}")
    print_answer([f"operation {operation}: {found['outcome']}"], found, as_json=server.as_json)


def _read(path: Path) -> str:
    try:
        return path.read_text("utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise JobFileInvalid(f"{path} cannot be read: {error}") from None


def _beside(job_file: Path) -> dict[str, str]:
    """Return the files that a job file names and that lie beside it."""
    from ashore.jobs.file.document import read_document  # noqa: PLC0415 - for this command alone

    document = read_document(_read(job_file)).data  # what is wrong with it the server says
    sql = document.get("sql") if isinstance(document, dict) else None
    named = [sql.get("file"), sql.get("functions")] if isinstance(sql, dict) else []
    return {
        str(name): _read(job_file.parent / str(name))
        for name in named
        if isinstance(name, str) and "/" not in name
    }


def _age(at_ms: int | None, now_ms: int) -> str:
    return "" if at_ms is None else format_duration(max(0, now_ms - at_ms))


def _lag(job: Mapping[str, Any], now_ms: int) -> str:
    at_ms = job["lag_at_ms"]
    return format_lag(job["lag"], None if at_ms is None else max(0, now_ms - at_ms))
