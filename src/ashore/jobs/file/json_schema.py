"""The JSON Schema of the job file (draft 7), for editors: rendered from the models.

What it promises: what the loader accepts the schema accepts. Only the loader checks keys against
each other, and the meaning of DDL, SQL and variables.
"""

import types
from collections.abc import Mapping, Sequence
from typing import Any, Literal, Union, get_args, get_origin

from annotated_types import Gt, Le
from pydantic import AfterValidator

from ashore.jobs.file.model import Job
from ashore.jobs.file.section import Section, default_text, fields_of
from ashore.jobs.file.tables import no_repeats
from ashore.jobs.file.values import SOME, EnvText, JsonForm

Node = dict[str, Any]

_TABLES = "tables"  # which SQL may declare instead, by CREATE TABLE
_SCALARS: Mapping[object, Node] = {
    EnvText: {"type": "string"},
    bool: {"type": "boolean"},
    float: {"type": "number"},
    int: {"type": "integer"},
    str: {"type": "string"},
    type(None): {"type": "null"},
}


def job_schema() -> Node:
    """Return the schema of a job file, as plain data."""
    draft = "http://json-schema.org/draft-07/schema#"
    node = _section_node(Job)
    keys = [key for key in node["required"] if key != _TABLES]
    either: Node = {"anyOf": [{"required": [_TABLES]}, {"required": ["sql"]}]}
    return {"$schema": draft, "title": "Job file of Ashore", **node, "required": keys, **either}


def _section_node(section: type[Section]) -> Node:
    properties, required = {}, []
    for key, field in fields_of(section):
        default = default_text(section, key)
        if default is None:
            required.append(key)
        has_default = default is not None and default != "null" and "{" not in default
        about = f"{field.description} Default: {default}." if has_default else field.description
        properties[key] = {"description": about, **_node(field.annotation, field.metadata)}
    node: Node = {"type": "object", "additionalProperties": False, "properties": properties}
    return {**node, "required": required} if required else node


def _node(annotation: object, metadata: Sequence[object]) -> Node:
    """Return the node of a type, with what its metadata adds; the outermost form counts."""
    form = next((each for each in reversed(metadata) if isinstance(each, JsonForm)), None)
    if form is None:
        return _with_limits(_type_node(annotation), metadata)
    if form.is_beside:
        return {"anyOf": [dict(form.node), _type_node(_without_null(annotation))]}
    return dict(form.node)


def _type_node(annotation: object) -> Node:
    origin, arguments = get_origin(annotation), get_args(annotation)
    if hasattr(annotation, "__metadata__"):
        return _node(arguments[0], annotation.__metadata__)
    if origin is Literal:
        return {"enum": list(arguments)}
    if origin in (Union, types.UnionType):
        return {"anyOf": [_type_node(each) for each in arguments]}
    if origin is tuple:
        return {"type": "array", "items": _type_node(arguments[0])}
    if isinstance(annotation, type) and issubclass(annotation, Section):
        return _section_node(annotation)
    return dict(_SCALARS[annotation])


def _without_null(annotation: object) -> object:
    found = [each for each in get_args(annotation) if each is not type(None)]
    return found[0] if found and type(None) in get_args(annotation) else annotation


def _with_limits(node: Node, metadata: Sequence[object]) -> Node:
    for each in metadata:
        match each:
            case Gt(limit) if node.get("type") == "integer":
                node["exclusiveMinimum"] = limit
            case Le(limit) if node.get("type") == "integer":
                node["maximum"] = limit
            case AfterValidator(func) if func is no_repeats:
                node["uniqueItems"] = True
            case _ if each is SOME:
                node["minItems"] = 1
    return node
