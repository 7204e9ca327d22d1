"""The commands.

What it promises: each command reads its arguments, calls one use case and shows its answer.
What it must not know: how an answer comes about.
"""

import signal
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Literal

import typer

from ashore import __version__
from ashore.base.unique import unique
from ashore.base.units import format_size
from ashore.cli import demo_view, output, run_view, validate_view, verify_view
from ashore.cli.audit_command import audit
from ashore.cli.doctor_command import doctor
from ashore.cli.drill_commands import drill
from ashore.cli.options import AsJson, AsJsonLines, Debug, Explain, JobFile, TakeOver
from ashore.cli.output import print_json, print_table, shown_progress, talk, told
from ashore.cli.reset_clock_command import reset_clock
from ashore.cli.retire_command import retire
from ashore.cli.roll_back_command import roll_back
from ashore.cli.signals import end_in_order, sigterm_does
from ashore.cli.skip_command import skip
from ashore.cli.status_command import status
from ashore.control import jobs
from ashore.control.demo import Demo
from ashore.control.preflight import check_job, check_tables
from ashore.control.verify import SampleRate, parse_rate, verify_job
from ashore.errors import EXIT_CODES
from ashore.jobs.launch import JobLaunch, LaunchOptions
from ashore.services import registry

EPILOG = "Exit codes: " + "; ".join(f"{code}: {meaning}" for code, meaning in EXIT_CODES.items())

app = typer.Typer(
    name="ashore",
    help="Lands Kafka topics in lake tables, each record exactly once.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    epilog=EPILOG,
)
services = typer.Typer(help="Development servers from jars.", no_args_is_help=True)
app.add_typer(services, name="services")
app.add_typer(drill, name="drill")
app.command()(audit)
app.command()(doctor)
app.command()(roll_back)
app.command()(retire)
app.command()(reset_clock)
app.command()(skip)
app.command()(status)


def _show_version(is_asked: bool) -> None:
    if is_asked:
        output.out.print(f"ashore {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    _version: Annotated[
        bool,
        typer.Option("--version", callback=_show_version, is_eager=True, help="Print the version."),
    ] = False,
) -> None:
    pass


@app.command()
def run(
    job_file: JobFile,
    available_now: Annotated[
        bool, typer.Option("--available-now", help="End when everything there has landed.")
    ] = False,
    accept_schema: Annotated[
        bool,
        typer.Option(
            "--accept-schema",
            help="Write to tables although readers may see wrong values after a change of them.",
        ),
    ] = False,
    as_json: AsJsonLines = False,
    log_format: Annotated[
        Literal["text", "json"], typer.Option(help="Of the lines on stderr.")
    ] = "text",
    debug: Debug = False,
) -> None:
    """Land the topics of a job, until stopped. SIGTERM and Ctrl-C stop it in order."""
    with told(as_json=as_json, debug=debug, in_lines=True), sigterm_does(end_in_order):
        with jobs.open_job(job_file) as opened:
            preflight = check_job(opened, accepts_schema=accept_schema)
            job = opened.job
        for table, reasons in preflight.slow:
            talk.print(f"note: {table} decodes slowly: {'; '.join(reasons)}")
        options = LaunchOptions(job.spark is not None, available_now, accept_schema, debug)
        launch = JobLaunch("run", job_file, options)
        lines = run_view.Style.LOG if log_format == "json" else run_view.Style.LINES
        style = run_view.Style.EVENTS if as_json else lines
        raise typer.Exit(run_view.show_run(job, launch, style))


@app.command()
def validate(job_file: JobFile, as_json: AsJson = False, debug: Debug = False) -> None:
    """Plan the SQL of a job and show sources, state and columns. Nothing is read or written."""
    with told(as_json=as_json, debug=debug):
        with jobs.open_job(job_file) as opened:  # what the file alone can tell is told at once
            has_sql = opened.job.sql is not None
            check_tables(opened.job, opened.known_topics(), opened.known_tables())
        if not has_sql:
            _say(["the job file is valid; it has no SQL to plan"], {"queries": []}, as_json=as_json)
            return
        launch = JobLaunch("validate", job_file, LaunchOptions(debug=debug))
        raise typer.Exit(validate_view.show_validate(launch, as_json=as_json))


@app.command()
def verify(
    job_file: JobFile,
    since: Annotated[
        str | None,
        typer.Option(help="Check contents only of what was written since: 2h, 3d, ISO 8601."),
    ] = None,
    values: Annotated[
        str | None,
        typer.Option(help="Compare a sample of rows with Kafka, value by value: 0.01, 1%, 1."),
    ] = None,
    seed: Annotated[
        int | None, typer.Option(help="With --values: choose the rows of an earlier run again.")
    ] = None,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Prove that nothing is lost and nothing duplicated: log against files against Kafka."""
    with told(as_json=as_json, debug=debug), jobs.open_job(job_file) as opened:
        sample = None
        if values is not None:
            chosen = int(unique()[:8], 16) if seed is None else seed
            sample = SampleRate(parse_rate(values), chosen)
        elif seed is not None:
            raise typer.BadParameter("--seed is for --values")
        with shown_progress(quiet=as_json) as progress:
            result = verify_job(opened, since=since, sample=sample, progress=progress)
        if as_json:
            print_json(result.to_dict())
        else:
            verify_view.show(result)
        raise typer.Exit(result.exit_code)


@app.command()
def recover(  # noqa: PLR0913, PLR0917 - each parameter is an option of the command
    job_file: JobFile,
    explain: Explain = False,
    reland: Annotated[
        bool, typer.Option("--reland", help="Read lost files again from Kafka. Takes over.")
    ] = False,
    accept_loss: Annotated[
        bool, typer.Option("--accept-loss", help="Give lost files up for ever. Takes over.")
    ] = False,
    why: Annotated[
        str, typer.Option(help="With --accept-loss: the reason, kept in the log.")
    ] = "ashore recover --accept-loss",
    take_over: TakeOver = False,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Finish a dead job's moves, from its log alone."""
    with told(as_json=as_json, debug=debug), jobs.open_job(job_file) as opened:
        if reland and accept_loss:
            raise typer.BadParameter("--reland and --accept-loss exclude each other")
        steps = jobs.plan_recover(opened)
        if explain:
            seen = jobs.explain_recover(opened, steps)
            _say([*seen.lines] or ["nothing to do"], {"steps": seen.lines}, as_json=as_json)
            raise typer.Exit(0 if seen.is_possible else 4)
        if reland:
            if not jobs.is_relandable(opened, takes_over=take_over):
                _say(["no file is lost"], {"rows": 0, "files": 0}, as_json=as_json)
                return
            options = LaunchOptions(opened.job.spark is not None, debug=debug)
            launch = JobLaunch("reland", job_file, options)
            raise typer.Exit(run_view.show_reland(launch, as_json=as_json))
        if accept_loss:
            given = jobs.accept_losses(opened, why, takes_over=take_over)
            line = f"gave up {given.rows:,} rows of {given.files} files"
            _say([line], {"files": given.files, "rows": given.rows}, as_json=as_json)
            return
        moved = jobs.recover_dead(opened, steps)
        line = f"moved {moved.moved}, already moved {moved.already_moved}"
        counts = {"moved": moved.moved, "already_moved": moved.already_moved}
        _say([line], counts, as_json=as_json)


@app.command()
def rejoin(
    job_file: JobFile,
    topic: Annotated[str, typer.Argument(help="The topic that was created again.")],
    take_over: TakeOver = False,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Go on with a topic that was deleted and created again, from its beginning."""
    with told(as_json=as_json, debug=debug), jobs.open_job(job_file) as opened:
        joined = jobs.rejoin_topic(opened, topic, takes_over=take_over)
        line = f"{topic}: {joined} partitions joined" if joined else f"{topic}: nothing to rejoin"
        _say([line], {"topic": topic, "partitions": joined}, as_json=as_json)


@app.command()
def clean(
    job_file: JobFile, explain: Explain = False, as_json: AsJson = False, debug: Debug = False
) -> None:
    """Delete in-progress files that nothing can want any more."""
    with told(as_json=as_json, debug=debug), jobs.open_job(job_file) as opened:
        steps = jobs.plan_clean_job(opened)
        if explain:
            lines = [f"delete {step.file.path}: {step.why}" for step in steps]
            _say(lines or ["nothing to delete"], {"steps": lines}, as_json=as_json)
            return
        size = jobs.clean_job(opened, steps)
        line = f"deleted {len(steps)} files, {format_size(size)}"
        _say([line], {"files": len(steps), "bytes": size}, as_json=as_json)


@app.command()
def demo(
    records: Annotated[int, typer.Option(min=1, help="Records to produce.")] = 1_200_000,
    directory: Annotated[
        Path | None, typer.Option(help="Where it all goes; kept afterwards.")
    ] = None,
    as_json: AsJsonLines = False,
    debug: Debug = False,
) -> None:
    """Land two topics, kill the job half-way, go on, and prove that nothing is lost or doubled."""
    telling = told(as_json=as_json, debug=debug, in_lines=True)
    with telling, sigterm_does(signal.default_int_handler):
        raise typer.Exit(demo_view.show_demo(Demo(directory, records), as_json=as_json))


@services.command("up")
def services_up(
    names: Annotated[
        list[str] | None,
        typer.Argument(help="kafka, hdfs, hive, zookeeper, spark; default: kafka"),
    ] = None,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Start servers and print their addresses. They stay up until `down`."""
    with told(as_json=as_json, debug=debug):
        endpoints = registry.up(names or ["kafka"], progress=None if as_json else talk.print)
        print_json(endpoints)


@services.command("down")
def services_down(
    names: Annotated[list[str] | None, typer.Argument(help="Default: all.")] = None,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Stop servers."""
    with told(as_json=as_json, debug=debug):
        stopped = registry.down(names or (), progress=None if as_json else talk.print)
        _say([f"stopped {', '.join(stopped) or 'nothing'}"], {"stopped": stopped}, as_json=as_json)


@services.command("control")
def services_control(
    name: Annotated[str, typer.Argument(help="A service with actions of its own: hdfs.")],
    action: Annotated[str, typer.Argument(help="show, switch, kill, freeze, black-hole ...")],
    arguments: Annotated[
        list[str] | None, typer.Argument(help="Which one: the number of a NameNode, from 0.")
    ] = None,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Do something to a running service: switch, kill, freeze or cut off a NameNode."""
    with told(as_json=as_json, debug=debug):
        answer = registry.command(name, action, arguments or [])
        _say([f"{key}: {value}" for key, value in answer.items()], answer, as_json=as_json)


@services.command("status")
def services_status(as_json: AsJson = False, debug: Debug = False) -> None:
    """Show which servers are up."""
    with told(as_json=as_json, debug=debug):
        found = registry.status()
        if as_json:
            print_json({name: each.to_dict() for name, each in found.items()})
            return
        rows = [[name, str(each.state), str(each.endpoint or "")] for name, each in found.items()]
        print_table("", {"service": "left", "state": "left", "endpoint": "left"}, rows)


def _say(lines: list[str], document: Mapping[str, object], *, as_json: bool) -> None:
    if as_json:
        print_json(document)
    else:
        for line in lines:
            output.out.print(output.escape(line))


def main() -> None:
    """Run the command line."""
    try:
        app()
    except KeyboardInterrupt:
        sys.exit(130)
