"""The base of all models of the job file, and the way from a key to its field.

What it is: one frozen mapping, and look-ups that errors and the reference share.
What it promises: keys are looked up by the names that users write.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, get_args

from pydantic import BaseModel, ConfigDict
from pydantic.fields import FieldInfo

Key = tuple[str | int, ...]
"""A place in the job file: `("tables", 0, "late", "after")`."""


class Section(BaseModel):
    """One mapping of the job file: frozen, unknown keys refused, nothing secret in errors."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)


def key_text(key: Key) -> str:
    """Return the key as messages show it: `tables[0].late.after`."""
    text = ""
    for part in key:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else part
    return text


def line_of(lines: Mapping[Key, int], key: Key) -> int:
    """Return the line of `key`, or of the nearest section around it."""
    while key and key not in lines:
        key = key[:-1]
    return lines.get(key, 1)


def fields_of(section: type[Section]) -> Iterator[tuple[str, FieldInfo]]:
    """Yield each key of the section, as users write it, with its field."""
    for name, field in section.model_fields.items():
        yield field.alias or name, field


def section_of(field: FieldInfo) -> type[Section] | None:
    """Return the section that the field holds: directly, optionally or as a list."""
    return _section_in(field.annotation)


def _section_in(annotation: object) -> type[Section] | None:
    if isinstance(annotation, type) and issubclass(annotation, Section):
        return annotation
    found = (_section_in(each) for each in get_args(annotation))
    return next((section for section in found if section is not None), None)


def section_at(root: type[Section], key: Key) -> type[Section] | None:
    """Return the section that stands at `key`, None where there is none."""
    section: type[Section] | None = root
    for part in key:
        if isinstance(part, int):
            continue
        field = dict(fields_of(section)).get(part) if section else None
        section = section_of(field) if field else None
    return section


def field_at(root: type[Section], key: Key) -> FieldInfo | None:
    """Return the field at `key`, None for items of lists and unknown keys."""
    if not key or isinstance(key[-1], int):
        return None
    section = section_at(root, key[:-1])
    return dict(fields_of(section)).get(key[-1]) if section else None


def default_text(section: type[Section], key: str) -> str | None:
    """Return the default of a key as YAML in one line; None where the key is required."""
    name, field = next(
        (name, field) for name, field in section.model_fields.items() if key in (field.alias, name)
    )
    if field.is_required():
        return None
    plain = section.model_construct().model_dump(mode="json", by_alias=True, include={name})
    return flow_text(plain[key])


def flow_text(value: Any) -> str:
    """Return plain data as YAML in one line."""
    match value:
        case dict():
            return "{" + ", ".join(f"{key}: {flow_text(each)}" for key, each in value.items()) + "}"
        case list() | tuple():
            return "[" + ", ".join(flow_text(each) for each in value) + "]"
        case str():
            return value if value and value.replace("_", "").isalnum() else json.dumps(value)
        case _:
            return json.dumps(value)


def example_text(root: type[Section], key: Key) -> str:
    """Return what `key` may look like in one line of YAML; empty where nothing is known."""
    field = field_at(root, key)
    if field is None:
        return ""
    if field.examples:
        return str(field.examples[0])
    section = section_at(root, key[:-1])
    last = key[-1]
    default = default_text(section, str(last)) if section else None
    return default if default is not None and default != "null" else ""


def known_keys(root: type[Section], key: Key) -> Sequence[str]:
    """Return the keys that the section at `key` knows; empty where there is no section."""
    section = section_at(root, key)
    return [name for name, _ in fields_of(section)] if section else []
