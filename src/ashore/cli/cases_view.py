"""What test cases look like while they run, and in the end.

What it is: a line for each case, or an event as JSON; and JUnit's XML for who collects it.
What it promises: a case that did not run is no case that passed.
What it must not know: how a case is run.
"""

from collections.abc import Sequence
from pathlib import Path
from xml.etree import ElementTree as ET

from ashore.cli.event_lines import print_event
from ashore.cli.output import STARTING_SPARK, escape, out, print_failure, say
from ashore.jobs.events import CaseEnded, Talk
from ashore.jobs.failure import Failed
from ashore.jobs.launch import JobLaunch
from ashore.topics.use.run import failure_of

FAILED = 5


def show_cases(launch: JobLaunch, count: int, junit: Path | None, *, as_json: bool) -> int:
    """Show the cases of a run, and return the exit code.

    Arguments:
        launch: of the process that runs them.
        count: how many cases there are.
        junit: the file that JUnit's XML goes to, if any.
        as_json: show each as an event on a line.

    """
    ended: list[CaseEnded] = []
    failed: Failed | None = None
    if not as_json:
        say(STARTING_SPARK)
    with launch:
        for event in launch.events():
            match event:
                case CaseEnded():
                    ended.append(event)
                    print_event(event) if as_json else _show(event)
                case Talk():
                    say(escape(event.message))
                case Failed():
                    failed = event
        code = launch.wait()
    failed = failure_of(code, failed, launch)
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
