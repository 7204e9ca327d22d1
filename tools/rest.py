"""The reference of the API, made from it: openapi.json and rest.md, which `docs.py` writes.

What it promises: the same text for the same API.
What it must not know: how requests are answered.
"""

import json
from collections.abc import Iterator
from typing import Any

from ashore.fleet.operate.commands import BY_NAME, INSTEAD
from ashore.fleet.server.serve import describe_api

MARK = "<!-- Written from the code by `make docs`. Do not edit. -->\n\n"
HEAD = """\
# REST

The HTTP API of [`ashore serve`](../operate/serve.md). The file [openapi.json](openapi.json)
describes each request and response as OpenAPI 3.1; a server has it at `/api/openapi.json`.

A request carries `Authorization: Bearer TOKEN`. The role of the token is `read` or `operate`, for
all jobs or for those with some labels ([tokens](../operate/serve.md#tokens),
[teams](../operate/serve.md#teams)). A list has the jobs that the caller may read. Times are Unix
times in milliseconds. An error is a problem document (`application/problem+json`, RFC 9457), whose
`code`, `hint` and `exit_code` are those of the command line ([errors](errors.md)):

```json
{"type": "urn:ashore:error:job-unknown", "title": "job unknown", "status": 404,
 "detail": "there is no job 'click' here", "code": "job-unknown",
 "hint": "did you mean `clicks`?", "exit_code": 2, "more": {}}
```
"""


def render_files() -> dict[str, str]:
    """Return the files, by name."""
    api = describe_api()
    return {"openapi.json": write_lines(api, 3) + "\n", "rest.md": "".join(render(api))}


def write_lines(value: object, depth: int) -> str:
    """Return a value as JSON, with a line for each key down to a depth: so diffs stay readable."""
    if depth == 0 or not isinstance(value, dict):
        return json.dumps(value)
    rows = (f"{json.dumps(key)}: {write_lines(each, depth - 1)}" for key, each in value.items())
    return "{\n" + ",\n".join(rows) + "\n}"


def render(api: dict[str, Any]) -> Iterator[str]:
    """Yield the page, in parts."""
    yield MARK + HEAD
    for title, wanted in (
        ("Jobs", "jobs"),
        ("Operations", "operations"),
        ("The server", "server"),
    ):
        yield f"\n## {title}\n\n| request | what it does |\n|---|---|\n"
        for path, methods in api["paths"].items():
            for method, told in methods.items():
                if told.get("tags") == [wanted]:
                    text = told.get("description") or told["summary"]
                    yield f"| `{method.upper()} {path}` | {first_sentences(text)} |\n"
    yield "\n## The command line\n\nThe request for each command:\n\n"
    yield "| command | request |\n|---|---|\n"
    for name in sorted([*BY_NAME, *INSTEAD]):
        yield f"| `ashore {name}` | {twin_of(name)} |\n"


def first_sentences(text: str) -> str:
    """Return a text on one line, without what would end a cell of a table."""
    return " ".join(text.split()).replace("|", "\\|")


def twin_of(name: str) -> str:
    """Return what a server has for a command."""
    if name in INSTEAD:
        is_request = INSTEAD[name].split()[0].isupper()
        return f"`{INSTEAD[name]}`" if is_request else INSTEAD[name]
    command = BY_NAME[name]
    of_job = f"`POST /api/jobs/{{job}}/operations/{command.route}`"
    alone = f"`POST /api/operations/{command.route}`"
    if command.target is None:
        return alone
    return of_job if command.target.kind == "job" else f"{of_job}, or {alone}"
