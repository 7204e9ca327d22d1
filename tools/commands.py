"""Write src/ashore/fleet/operate/commands.json from the command line: what `make docs` runs.

What it is: each command with its arguments and options, for a server that runs commands as
operations and for the client that asks it to.
What it promises: the same text for the same commands; `--check` writes nothing and fails where the
file is not what the command line says.
"""

import json
import sys
import types
import typing
from collections.abc import Iterator
from enum import Enum
from pathlib import Path
from typing import Any

from ashore.cli.app import load_all

ROOT = Path(__file__).resolve().parent.parent
TARGET = ROOT / "src/ashore/fleet/operate/commands.json"

# Commands that change nothing: a token that may only read may ask for them, without files.
LOOKS = {
    *("audit", "checkpoint diff", "checkpoint inspect", "checkpoint list", "checkpoint verify"),
    *(
        "drill list",
        "schema",
        "status",
        "trace",
        "validate",
        "verify",
        "versions diff",
        "versions list",
    ),
}
# Commands that are no operations, and what a server has for them instead.
INSTEAD = {
    "run": "POST /api/jobs/{job}/start",
    "serve": "it is the server",
    "token add": "nothing: who may ask a server is decided on its machine",
    "token allow": "as `token add`",
    "token list": "as `token add`",
    "token revoke": "as `token add`",
    "demo": "nothing: it shows a new user what Ashore does, on a machine of their own",
    "services up": "nothing: development servers belong to a developer's machine",
    "services down": "as `services up`",
    "services status": "as `services up`",
    "services control": "as `services up`",
    "deploy": "PUT /api/jobs/{job}",
    "start": "POST /api/jobs/{job}/start",
    "restart": "POST /api/jobs/{job}/restart",
    "pause": "POST /api/jobs/{job}/pause",
    "remove": "DELETE /api/jobs/{job}",
    "jobs": "GET /api/jobs",
    "operations": "GET /api/operations",
    "cancel": "POST /api/operations/{id}/cancel",
}
LEFT_OUT = {"help", "debug", "as_json"}
PATHS = {"DIR", "FILE", "SAVEPOINT", "CHECKPOINT_DIR", "NEW.yaml", "CASES.yaml"}


def main() -> int:
    """Write the file, or compare it with `--check`."""
    commands = ",\n".join(json.dumps(each) for each in describe_all())  # a line for each
    text = f'{{"commands": [\n{commands}\n],\n"instead": {json.dumps(INSTEAD)}}}\n'
    if "--check" in sys.argv:
        return int(TARGET.read_text("utf-8") != text)
    TARGET.write_text(text, "utf-8")
    return 0


def describe_all() -> list[dict[str, object]]:
    """Return each command that is an operation of a server."""
    found = dict(walk(load_all()))
    unknown = INSTEAD.keys() - found.keys()
    if unknown:
        raise SystemExit(f"tools/commands.py tells of commands that are not there: {unknown}")
    return [describe(name, found[name]) for name in sorted(found.keys() - INSTEAD.keys())]


def walk(group: Any, before: tuple[str, ...] = ()) -> Iterator[tuple[str, Any]]:
    """Yield the name of each command, with its groups, and the command."""
    for name, command in sorted(group.commands.items()):
        if hasattr(command, "commands"):
            yield from walk(command, (*before, name))
        else:
            yield " ".join((*before, name)), command


def describe(name: str, command: Any) -> dict[str, object]:
    """Return a command as the file has it."""
    parameters = [describe_parameter(each) for each in command.params if each.name not in LEFT_OUT]
    return {
        "name": name,
        "help": command.help.partition("\n")[0],
        "changes": name not in LOOKS,
        "has_json": any(each.name == "as_json" for each in command.params),
        "parameters": parameters,
    }


def describe_parameter(parameter: Any) -> dict[str, object]:
    """Return an argument or an option as the file has it."""
    annotation = parameter.type_descriptor.annotation
    many = parameter.nargs == -1 or parameter.multiple
    kind, choices = kind_of(annotation)
    if kind == "text" and (parameter.metavar in PATHS or parameter.name == "lake"):
        kind = "path"
    kind = {"JOB.yaml": "job", "JOB.yaml...": "job", "WHERE": "place"}.get(parameter.metavar, kind)
    is_option = parameter.param_type_name == "option"
    return {
        "name": parameter.name,
        "flag": parameter.opts[0] if is_option else "",
        "kind": kind,
        "choices": choices,
        "many": many,
        "required": bool(parameter.required),
        "help": parameter.help or "",
    }


def kind_of(annotation: Any) -> tuple[str, list[str]]:
    """Return what a value is, and what it may be."""
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is typing.Annotated:
        return kind_of(arguments[0])
    if origin in (types.UnionType, typing.Union):
        return kind_of(next(each for each in arguments if each is not type(None)))
    if origin in (list, tuple):
        return kind_of(arguments[0])
    if origin is typing.Literal:
        return "text", [str(each) for each in arguments]
    if isinstance(annotation, type) and issubclass(annotation, Enum):
        return "text", [str(each.value) for each in annotation]
    kinds = {bool: "flag", int: "integer", float: "number", str: "text", Path: "path"}
    return kinds[annotation], []


if __name__ == "__main__":
    sys.exit(main())
