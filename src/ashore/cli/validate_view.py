"""What the queries of a job look like before they start.

What it must not know: how they were planned.
"""

from collections.abc import Mapping, Sequence

from ashore.cli.output import escape, out, print_failure, print_json, print_table
from ashore.jobs.events import Failed, Validated, encode_event
from ashore.jobs.launch import JobLaunch

COLUMNS_SHOWN = 6  # a sketch has dozens
SOURCES = {"source": "left", "reads": "left", "stream": "left"}
OPERATORS = {
    "id": "right",
    "operator": "left",
    "keys": "left",
    "state": "left",
    "partitions": "right",
    "forgets": "left",
}


def show_validate(launch: JobLaunch, *, as_json: bool) -> int:
    """Show what the job's queries would be, and return the exit code."""
    queries: Sequence[Mapping[str, object]] = ()
    failed: Failed | None = None
    with launch:
        for event in launch.events():
            match event:
                case Validated():
                    queries = _items(event.queries)
                case Failed():
                    failed = event
        code = launch.wait()
    if as_json:
        print_json({"error": encode_event(failed)} if failed else {"queries": queries})
    elif failed:
        print_failure(failed)
    else:
        for query in queries:
            _show(query)
    return code if code >= 0 else 128 - code


def _show(query: Mapping[str, object]) -> None:
    if "topic" in query:
        out.print(f"\ntopic {escape(str(query['topic']))} is written by slice {query['slice']}")
        out.print(f"mode        {query['mode']}{_key(query)}")
    else:
        out.print(f"\n{escape(str(query['table']))} is fed by slice {query['slice']}")
    out.print(f"guarantee   {query['guarantee']}")
    out.print(f"columns     {escape(str(query['columns']))}")
    out.print(f"checkpoint  {escape(str(query['checkpoint']))}")
    print_table(
        "",
        SOURCES,
        [
            [escape(str(each["name"])), escape(str(each["reads"])), _yes(each["is_streaming"])]
            for each in _items(query["sources"])
        ],
    )
    operators = _items(query["operators"])
    if not operators:
        out.print("no state")
        return
    print_table("", OPERATORS, [_operator(each) for each in operators])


def _key(query: Mapping[str, object]) -> str:
    key = query["key"]
    return escape(f", key {', '.join(map(str, key))}") if isinstance(key, list) and key else ""


def _operator(each: Mapping[str, object]) -> list[str]:
    state = [f"{one['name']} {one['type']}" for one in _items(each["state_columns"])]
    more = [f"and {len(state) - COLUMNS_SHOWN} more"] if len(state) > COLUMNS_SHOWN else []
    keys = each["keys"]
    return [
        str(each["operator_id"]),
        escape(str(each["name"])),
        escape(", ".join(map(str, keys)) if isinstance(keys, list) else ""),
        escape(", ".join(state[:COLUMNS_SHOWN] + more)),
        str(each["state_partitions"]),
        _yes(each["is_bounded"]),
    ]


def _yes(value: object) -> str:
    return "?" if value is None else "yes" if value else "no"


def _items(value: object) -> Sequence[Mapping[str, object]]:
    return value if isinstance(value, list) else []
