"""The reference page of the job file, rendered from the models.

What it promises: the same text for the same models; every key, its type, default and meaning.
"""

import types
from collections.abc import Iterator, Mapping
from typing import Literal, Union, get_args, get_origin

from pydantic.fields import FieldInfo

from ashore.jobs.file.catalogs import CatalogSection
from ashore.jobs.file.model import Job
from ashore.jobs.file.section import Section, default_text, fields_of, section_of
from ashore.jobs.file.unsupported import UNSUPPORTED
from ashore.jobs.file.values import Shown
from ashore.jobs.kafka_options import REFUSED_OPTIONS, REFUSED_PRODUCER_OPTIONS

_HEAD = """\
# The job file

A job file is YAML in UTF-8. Durations are written with a unit (`500ms`, `10s`, `5m`, `2h`, `30d`),
sizes too (`64KB`, `256MB`, `2GB`, `1GiB`); a number without a unit is refused. Unknown keys are
refused. `${NAME}` is replaced from the environment in `lake`, `source.kafka.options`,
`catalog.hive.uri`, `catalog.iceberg.uri` and its `properties`, `s3.access_key_id`,
`s3.secret_access_key`, `azure.account_key`, `azure.sas_token`, `azure.client_secret`,
`sql.checkpoints` and `sql.producer`, and shown by its name only.
"""
_SCALARS = {float: "number", bool: "true or false", int: "number", str: "text"}


def render_reference() -> str:
    """Return the reference of all keys as Markdown."""
    parts = [_HEAD]
    for title, section, is_list in _sections("", Job, is_list=False):
        heading = f"`{title}`" if title else "Top level"
        items = " (each item)" if is_list else ""
        summary = (section.__doc__ or "").strip()
        parts.append(f"## {heading}{items}\n\n{summary}\n\n{_keys(section)}")
    parts += [_owned(), _unsupported()]
    return "\n".join(parts)


def _sections(
    title: str, section: type[Section], *, is_list: bool
) -> Iterator[tuple[str, type[Section], bool]]:
    yield title, section, is_list
    for key, field in fields_of(section):
        inner = section_of(field)
        if inner is not None:
            in_list = get_origin(field.annotation) is tuple
            name = f"{title}.{key}" if title else key
            yield from _sections(name, inner, is_list=in_list)


def _keys(section: type[Section]) -> str:
    rows = []
    for key, field in fields_of(section):
        default = default_text(section, key)
        shown = "required" if default is None else _default(field, default)
        kind = f"{type_text(field)}; {shown}" if shown else type_text(field)
        kind = kind.replace(" or null; default `null`", "; optional")
        rows.append(f"- `{key}` ({kind}): {field.description}")
    return "\n".join(row.replace("\n", " ") for row in rows) + "\n"


def _default(field: FieldInfo, default: str) -> str:
    inner = section_of(field)
    if inner is None:
        return f"default `{default}`"
    if inner is CatalogSection:
        return "default `none`"
    return f"default `{default}`" if default in {"null", "[]"} else ""


def type_text(field: FieldInfo) -> str:
    """Return how the reference names the kind of value that the field takes."""
    for each in reversed(field.metadata):
        if isinstance(each, Shown):
            return each.text
    return _type_text(field.annotation)


def _type_text(annotation: object) -> str:
    for each in reversed(getattr(annotation, "__metadata__", ())):
        if isinstance(each, Shown):
            return each.text
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Literal:
        return ", ".join(f"`{choice}`" for choice in arguments)
    if origin in (Union, types.UnionType):
        return " or ".join("null" if each is type(None) else _type_text(each) for each in arguments)
    if origin is tuple:
        return f"list of {_type_text(arguments[0])}"
    if hasattr(annotation, "__metadata__"):
        return _type_text(arguments[0])
    if isinstance(annotation, type) and issubclass(annotation, Section):
        return "mapping"
    return _SCALARS[annotation] if isinstance(annotation, type) else str(annotation)


def _owned() -> str:
    return (
        "## Options of Kafka that are refused\n\n"
        "Case does not count. Also refused: names with `kafka.` in front.\n\n"
        f"{_refused(REFUSED_OPTIONS)}\n\n"
        "In `sql.producer`, besides options of security, which are those of `source.kafka`:\n\n"
        f"{_refused(REFUSED_PRODUCER_OPTIONS)}\n"
    )


def _refused(reasons: Mapping[str, tuple[str, ...]]) -> str:
    rows = ((", ".join(f"`{name}`" for name in names), why) for why, names in reasons.items())
    return "\n".join(f"- {names}: {why}." for names, why in rows)


def _unsupported() -> str:
    rows = [f"- `{'.'.join(each.key)}`: {each.what}; {each.instead}." for each in UNSUPPORTED]
    return "## Not in this release\n\n" + "\n".join(rows) + "\n"
