"""What the queries of a job look like before they start.

What it must not know: how they were planned.
"""

from collections.abc import Mapping, Sequence

from ashore.cli.output import escape, out, print_json, print_table, say
from ashore.control.launch import JobLaunch

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
    found: Mapping[str, object] = {}
    error: Mapping[str, object] = {}
    with launch:
        for event in launch.events():
            if event.get("event") == "validated":
                found = event
            if event.get("event") == "error":
                error = event
        code = launch.wait()
    if as_json:
        print_json({"error": error} if error else {"queries": found.get("queries", [])})
    elif error:
        say(
            f"[bold red]error[/] {escape(str(error.get('message')))}  [dim]({error.get('code')})[/]"
        )
        if error.get("hint"):
            say(f"[bold]next[/]  {escape(str(error['hint']))}")
    else:
        for query in _items(found.get("queries")):
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
