"""What the rows of a query that was tried look like.

What it is: a table on a terminal, or each row as a JSON object on a line of its own.
What it promises: numbers are shown as Spark wrote them: no digit is lost on the way.
What it must not know: how they were computed.
"""

import json
import sys

from ashore.cli.event_lines import print_event
from ashore.cli.output import STARTING_SPARK, escape, print_failure, print_table, say
from ashore.control.run import failure_of
from ashore.jobs.events import Answered, Note, Reading, Talk
from ashore.jobs.failure import Failed
from ashore.jobs.launch import JobLaunch


def show_answer(launch: JobLaunch, *, as_json: bool) -> int:
    """Show the rows of a query, and return the exit code."""
    answer: Answered | None = None
    failed: Failed | None = None
    say(STARTING_SPARK)
    with launch:
        for event in launch.events():
            match event:
                case Reading():
                    say(_reading(event))
                case Answered():
                    answer = event
                case Note() | Talk():
                    say(escape(event.message))
                case Failed():
                    failed = event
        code = launch.wait()
    failed = failure_of(code, failed, launch)
    if failed is not None and as_json:
        print_event(failed)
    elif failed is not None:
        print_failure(failed)
    elif answer is not None:
        _show_rows(answer, as_json=as_json)
    return failed.exit_code if failed else 0


def _show_rows(answer: Answered, *, as_json: bool) -> None:
    if as_json:
        sys.stdout.writelines(f"{row}\n" for row in answer.rows)
    else:
        rows = [json.loads(row, parse_int=str, parse_float=str) for row in answer.rows]
        shown = [[escape(_text(row.get(name))) for name in answer.columns] for row in rows]
        print_table("", dict.fromkeys(answer.columns, "left"), shown)
    count = len(answer.rows)
    more = "; there are more: --limit shows them" if answer.has_more else ""
    say(f"{count:,} row{'' if count == 1 else 's'}{more}")


def _text(value: object) -> str:
    match value:
        case None:
            return "NULL"
        case str():
            return value
        case _:
            return json.dumps(value, ensure_ascii=False)


def _reading(event: Reading) -> str:
    if not event.topics:
        return "reading no topic"
    return f"reading {event.offsets:,} offsets of {', '.join(event.topics)}"
