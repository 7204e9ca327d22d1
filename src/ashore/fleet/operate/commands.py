"""The commands that a server runs as operations, as the command line has them.

What it is: `COMMANDS`, read from `commands.json`, which `make docs` writes; `CommandTwin.line`.
What it promises: a command line is made of checked values alone: no value can pass for an option.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ashore.errors import RequestInvalid

Value = bool | int | float | str | list[str]


@dataclass(frozen=True, slots=True)
class Parameter:
    """An argument or an option.

    Arguments:
        name: its key in a request.
        flag: how the option is spelled; empty: it is an argument.
        kind: flag | integer | number | text | path | job | place (a job file or a path).
        choices: what its text may be; empty: anything.
        many: it takes several values.
        required: it has to be given.
        help: what it means.

    """

    name: str
    flag: str
    kind: str
    choices: tuple[str, ...]
    many: bool
    required: bool
    help: str

    @property
    def is_job(self) -> bool:
        """Whether the job of the request is its value."""
        return self.kind in {"job", "place"}

    @property
    def is_path(self) -> bool:
        """Whether its values are confined to the roots of the server."""
        return self.kind in {"path", "place"}


@dataclass(frozen=True, slots=True)
class CommandTwin:
    """A command of the command line."""

    name: str
    help: str
    changes: bool
    has_json: bool
    parameters: tuple[Parameter, ...]

    @property
    def target(self) -> Parameter | None:
        """The parameter that the job of a request stands for."""
        return next((each for each in self.parameters if each.is_job), None)

    @property
    def route(self) -> str:
        """Its part of an address."""
        return self.name.replace(" ", "/")

    @property
    def own(self) -> tuple[Parameter, ...]:
        """What a request of a job says beside the job."""
        return tuple(each for each in self.parameters if not each.is_job)

    def line(self, values: Mapping[str, Value], *, as_json: bool) -> list[str]:
        """Return the words of the command line. Raises RequestInvalid.

        Arguments:
            values: of parameters by name; one that is missing has its default.
            as_json: whether the result is to be JSON, where the command has it.

        """
        options: list[str] = ["--json"] if as_json and self.has_json else []
        arguments: list[str] = []
        for each in self.parameters:
            value = values.get(each.name)
            if value is None or value is False or value == []:
                if each.required:
                    raise RequestInvalid(f"{self.name}: `{each.name}` is missing", hint=each.help)
                continue
            texts = [str(one) for one in value] if isinstance(value, list) else [str(value)]
            if value is True:
                options.append(each.flag)
            elif each.flag:
                options += [f"{each.flag}={text}" for text in texts]
            else:
                arguments += texts
        return [*self.name.split(), *options, "--", *arguments]


def _read() -> tuple[tuple[CommandTwin, ...], dict[str, str]]:
    document: Any = json.loads(Path(__file__).with_name("commands.json").read_text("utf-8"))
    commands = tuple(
        CommandTwin(
            each["name"],
            each["help"],
            each["changes"],
            each["has_json"],
            tuple(
                Parameter(**{**one, "choices": tuple(one["choices"])}) for one in each["parameters"]
            ),
        )
        for each in document["commands"]
    )
    return commands, dict(document["instead"])


COMMANDS, INSTEAD = _read()
BY_NAME = {each.name: each for each in COMMANDS}
