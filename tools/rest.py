"""The reference of the API, made from it: openapi.json and rest.md, which `docs.py` writes.

What it promises: the same text for the same API.
What it must not know: how requests are answered.
"""

import json
from collections.abc import Iterator
from typing import Any

from ashore.fleet.operate.commands import BY_NAME, INSTEAD, CommandTwin
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
ALONE, OF_JOB = "/api/operations/", "/api/jobs/{job}/operations/"
COMMANDS_HEAD = f"""
## Commands as operations

`POST {OF_JOB}COMMAND` runs a command of a job, such as `migrate/check` for
`ashore migrate check`; `POST {ALONE}COMMAND` one without a job, or of a checkpoint's path. The
body has the [arguments and options](command-line.md) of the command as keys.

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
    of_commands = {f"{start}{each.route}" for each in BY_NAME.values() for start in (ALONE, OF_JOB)}
    yield MARK + HEAD
    for title, wanted in (("Jobs", "jobs"), ("Operations", "operations"), ("The server", "server")):
        yield f"\n## {title}\n\n| request | what it does |\n|---|---|\n"
        for path, methods in api["paths"].items():
            for method, told in methods.items():
                if told.get("tags") == [wanted] and path not in of_commands:
                    text = told.get("description") or told["summary"]
                    yield f"| `{method.upper()} {path}` | {first_sentences(text)} |\n"
    yield COMMANDS_HEAD
    for title, kind in (("Of a job", "job"), ("Either", "place"), ("Without a job", None)):
        names = [name for name, each in sorted(BY_NAME.items()) if kind_of(each) == kind]
        yield f"- {title}: {', '.join(f'`{name}`' for name in names)}\n"
    yield "\nOther commands:\n\n"
    for name, instead in sorted(INSTEAD.items()):
        request = f"`{instead}`" if instead.split()[0].isupper() else instead
        yield f"- `{name}`: {request}\n"


def first_sentences(text: str) -> str:
    """Return a text on one line, without what would end a cell of a table."""
    return " ".join(text.split()).replace("|", "\\|")


def kind_of(command: CommandTwin) -> str | None:
    """Return whether a command is of a job, of a place, which may be one, or of neither."""
    return None if command.target is None else command.target.kind
