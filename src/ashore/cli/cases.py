"""The command `ashore test`: a line or an event for each case, and JUnit's XML.

What it promises: Kafka and the lake play no part; the exit code is 0 only if every case passed: a
case that did not run has not.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated
from xml.etree import ElementTree as ET

import typer
from rich.markup import escape

from ashore.cli.event_lines import print_event, take_events
from ashore.cli.options import AsJsonLines, Debug, JobFile
from ashore.cli.output import (
    STARTING_SPARK,
    CommandAnswer,
    out,
    print_failure,
    reported_errors,
    say,
)
from ashore.errors import ExitCode, JobFileInvalid
from ashore.jobs.events import CaseEnded, Event, Talk
from ashore.jobs.failure import Failed
from ashore.jobs.file.cases import load_cases
from ashore.jobs.launch import JobLaunch, LaunchOptions
from ashore.jobs.requests import CasesRequest, write_request
from ashore.topics.loop.job import load_job_file


def run_tests(
    job_file: JobFile,
    cases: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="CASES.yaml", help="Files of cases; without: JOB.cases.yaml beside the job."
        ),
    ] = None,
    junit: Annotated[
        Path | None, typer.Option(help="Write the results to this file, as JUnit does.")
    ] = None,
    as_json: AsJsonLines = False,
    debug: Debug = False,
) -> None:
    """Run test cases of a job's SQL: records in, rows out. All in one Spark, without Kafka."""
    with reported_errors(as_json=as_json, debug=debug, in_lines=True):
        job = load_job_file(job_file)
        if job.sql is None:
            raise JobFileInvalid(f"{job_file} has no SQL to test", hint="add sql: to the job file")
        files = cases or [job_file.with_suffix(".cases.yaml")]
        count = sum(len(load_cases(each)) for each in files)  # errors are reported at once
        request = write_request(CasesRequest(tuple(str(each) for each in files)))
        options = LaunchOptions(debug=debug, name=job.job, request=request)
        launch = JobLaunch("test", job_file, options)
        code = show_cases(launch, count, junit, as_json=as_json)
        raise CommandAnswer(code, "cases failed") if code == FAILED else typer.Exit(code)


test = run_tests  # pytest would take a function of this name for one of its own


FAILED = ExitCode.WRONG


def show_cases(launch: JobLaunch, count: int, junit: Path | None, *, as_json: bool) -> int:
    """Show the cases of a run, and return the exit code.

    Arguments:
        launch: of the process that runs them.
        count: how many cases there are.
        junit: the file that JUnit's XML goes to, if any.
        as_json: show each as an event on a line.

    """
    ended: list[CaseEnded] = []

    def take(event: Event) -> None:
        match event:
            case CaseEnded():
                ended.append(event)
                print_event(event) if as_json else _show(event)
            case Talk():
                say(escape(event.message))

    if not as_json:
        say(STARTING_SPARK)
    failed = take_events(launch, take)
    if junit is not None:
        junit.write_text(junit_xml(ended, count, failed), "utf-8")
    bad = sum(bool(each.problems) for each in ended)
    if failed is not None:
        print_event(failed) if as_json else print_failure(failed)
        return failed.exit_code
    if not as_json:
        out.print(f"{len(ended) - bad} of {count} cases passed")
    return FAILED if bad or len(ended) < count else 0


def _show(ended: CaseEnded) -> None:
    verdict = "[bold red]failed[/]" if ended.problems else "[green]passed[/]"
    out.print(f"{verdict}  {escape(ended.name)} ({ended.took_ms / 1000:.1f} s)")
    for each in ended.problems:
        out.print(f"        {escape(each)}")
    if ended.problems:
        out.print(f"        {escape(ended.place)}")


def junit_xml(ended: Sequence[CaseEnded], count: int, failed: Failed | None) -> str:
    """Return the results as JUnit writes them; cases that did not run are one error."""
    failures = sum(bool(each.problems) for each in ended)
    errors = int(failed is not None or len(ended) < count)
    counts = {"tests": str(count), "failures": str(failures), "errors": str(errors)}
    suite = ET.Element("testsuite", {"name": "ashore", **counts})
    for each in ended:
        place = each.place.rpartition(":")[0]
        seconds = f"{each.took_ms / 1000:.3f}"
        case = ET.SubElement(suite, "testcase", classname=place, name=each.name, time=seconds)
        if each.problems:
            failure = ET.SubElement(case, "failure", message=each.problems[0])
            failure.text = "\n".join((*each.problems, each.place))
    if errors:
        case = ET.SubElement(suite, "testcase", classname="ashore", name="all cases run")
        message = failed.message if failed else f"{len(ended)} of {count} cases ran"
        ET.SubElement(case, "error", message=message)
    return ET.tostring(suite, encoding="unicode", xml_declaration=True) + "\n"
