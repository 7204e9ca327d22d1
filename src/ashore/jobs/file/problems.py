"""What is wrong with a job file, and how it is reported.

What it is: one located problem; the words for what pydantic found; the error that carries all.
What it promises: no value of the file is repeated that could be a secret.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TypeVar

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from ashore.base.suggest import suggest
from ashore.errors import JobFileInvalid
from ashore.jobs.file.section import Key, Section, example_text, key_text, known_keys, line_of
from ashore.jobs.file.values import ValueRefused

S = TypeVar("S", bound=Section)

_EXPECTED = {
    "tuple_type": ("a list", "write a list"),
    "int_type": ("a whole number", "write a whole number"),
    "bool_type": ("true or false", "write true or false"),
}


@dataclass(frozen=True, slots=True)
class Finding:
    """Something wrong at a key, not yet located."""

    key: Key
    message: str
    instead: str = ""


@dataclass(frozen=True, slots=True, order=True)
class JobFileProblem:
    """Something wrong at a line. Line 0 means the file as a whole."""

    file: str
    line: int
    key: str
    message: str
    instead: str

    def __str__(self) -> str:
        place = f"{self.file}:{self.line}: " if self.line else f"{self.file}: "
        key = f"{self.key}: " if self.key else ""
        instead = f"\n    {self.instead}" if self.instead else ""
        return f"{place}{key}{self.message}{instead}"


def locate_problem(
    findings: Sequence[Finding], file: str, lines: Mapping[Key, int]
) -> list[JobFileProblem]:
    """Return the findings as problems, in the order of the file, each once."""
    problems = {
        JobFileProblem(
            file, line_of(lines, each.key), key_text(each.key), each.message, each.instead
        )
        for each in findings
    }
    return sorted(problems)


def invalid(file: str, problems: Sequence[JobFileProblem]) -> JobFileInvalid:
    """Return the error that lists all problems, one paragraph each."""
    count = "1 problem" if len(problems) == 1 else f"{len(problems)} problems"
    message = "\n".join([f"{file} cannot be run: {count}", *map(str, problems)])
    return JobFileInvalid(
        message,
        hint=f"correct {file} and start again",
        path=file,
        problems=[asdict(problem) for problem in problems],
    )


def read_file_text(path: Path, instead: str) -> str:
    """Return the text of a file. Raises JobFileInvalid; `instead`: what to do about it."""
    try:
        return path.read_text("utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        why = "there is no such file" if isinstance(error, FileNotFoundError) else str(error)
        raise invalid(str(path), [JobFileProblem(str(path), 0, "", why, instead)]) from None


def validate(
    kind: type[S], data: object, findings: list[Finding], context: dict[str, object] | None = None
) -> S | None:
    """Return the section that plain data is; None: why not is added to `findings`."""
    try:
        return kind.model_validate(data, context=context)
    except ValidationError as error:
        findings += [finding_of(each, kind) for each in error.errors(include_url=False)]
        return None


def finding_of(error: ErrorDetails, root: type[Section]) -> Finding:
    """Return one of pydantic's errors in the words of the job file."""
    key = error["loc"]
    if key[-1:] == ("[key]",) and error["type"] != "extra_forbidden":
        key = key[:-1]  # pydantic's mark for the key of a mapping
    example = example_text(root, key)
    write = f"write {key_text(key[-1:])}: {example}" if example else ""
    found = _kind(error["input"])
    context = error.get("ctx", {})
    refused = context.get("error")
    if isinstance(refused, ValueRefused):
        return Finding(key, refused.message, refused.advise(example) or write)
    match error["type"]:
        case "missing":
            return Finding(key, "this key is required", write.replace("write", "add", 1))
        case "extra_forbidden":
            return _unknown(key, known_keys(root, key[:-1]))
        case "literal_error":
            return _not_a_choice(key, error["input"], str(context["expected"]), write)
        case "model_type" | "dict_type" | "mapping_type":
            known = ", ".join(known_keys(root, key))
            keys = f"write a mapping with the keys {known}" if known else "write {name: value}"
            return Finding(
                key, f"expected a mapping, got {found}", keys if known else write or keys
            )
        case "greater_than":
            return Finding(key, f"must be more than {context['gt']}", write)
        case "string_type":
            quotes = "" if error["input"] is None else "write the value in quotes"
            return Finding(key, f"expected a string, got {found}", write or quotes)
        case kind if kind in _EXPECTED:
            expected, instead = _EXPECTED[kind]
            dash = _dash(error["input"], known_keys(root, key)) if kind == "tuple_type" else ""
            return Finding(key, f"expected {expected}, got {found}", dash or write or instead)
        case _:
            return Finding(key, error["msg"].lower(), write)


def _dash(value: object, known: Sequence[str]) -> str:
    """Return what to write where an item stands in place of a list: its `- ` was left out."""
    names = value if isinstance(value, dict) else {}
    first = next((each for each in names if each in known), None)
    return f"begin each item with a dash: `- {first}: ...`" if first else ""


# Names that others have for a key and that are not spelled like it.
_MEANT = {
    **dict.fromkeys(("statement", "statements", "query", "queries", "insert", "inserts"), "text"),
    **dict.fromkeys(("path", "script"), "file"),
}


def _unknown(key: Key, known: Sequence[str]) -> Finding:
    name = str(key[-1])
    meant = _MEANT.get(name.casefold())
    if meant in known:
        return Finding(key, f"{name!r} is not a known key", f"did you mean `{meant}`?")
    instead = suggest(name, known, f"known keys: {', '.join(known)}")
    return Finding(key, f"{name!r} is not a known key", instead)


def _not_a_choice(key: Key, value: object, expected: str, write: str) -> Finding:
    found = expected.replace(" or ", ", ").split(", ")
    choices = [each.strip("'") if each.startswith("'") else each.lower() for each in found]
    shown = repr(value) if isinstance(value, str) and len(value) <= 40 else _kind(value)
    instead = suggest(value, choices) if isinstance(value, str) else ""
    instead = instead or (write if "true" in choices else "")
    return Finding(key, f"must be one of {', '.join(choices)}; got {shown}", instead)


def _kind(value: object) -> str:
    match value:
        case None:
            return "nothing"
        case bool():
            return "true or false"
        case int() | float():
            return "a number"
        case str():
            return "a string"
        case list() | tuple():
            return "a list"
        case dict():
            return "a mapping"
        case _:
            return type(value).__name__
