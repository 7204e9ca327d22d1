"""A job file for users who may not see its secrets: its text, and its settings.

What it is: `mask_secrets` replaces secrets by marks, `restore_secrets` puts them back after an
edit; `show_settings` lists all values, defaults included.
What it promises: a value of a key with a secret's name is a secret, unless it is made of variables
alone; so is a comment beside one. A text whose secrets cannot be found is refused.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from ruamel.yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from ashore.errors import JobFileInvalid
from ashore.jobs.file.document import compose, read_document
from ashore.jobs.file.model import Job
from ashore.jobs.file.values import MASK, VARIABLE
from ashore.jobs.kafka_options import SECRET_NAME

_MAY_NAME = re.compile(r"password|secret|token|jaas|credential|private|\.key")
_COMMENT = re.compile(r"(?<![^\s])#[^\r\n]*")
_MARK = re.compile(r'"\*\*\*kept: ([^"*]+)\*\*\*"')


@dataclass(frozen=True, slots=True)
class MaskedText:
    """A text with marks. `kept`: what stands in the place of each, by the key that it is of."""

    text: str
    kept: Mapping[str, str]


def mask_secrets(text: str) -> MaskedText:
    """Return a job file without its secrets. Raises JobFileInvalid where they cannot be found."""
    if read_document(text).data is None:
        if _MAY_NAME.search(text.casefold()) is None:
            return MaskedText(text, {})
        raise JobFileInvalid(
            "the job file is not shown: it may have secrets, and it cannot be read as YAML",
            hint="mend it on the server's machine; `ashore validate` says what is wrong",
        )
    node, kept, made, end = compose(text), dict[str, str](), "", 0
    found = [] if node is None else [_Part.of(text, at, key) for at, key in _secrets(node)]
    for start, stop, key in sorted({*found, *_risky_comments(text, node, found)}):
        if start < end:
            continue  # within what has a mark already
        name = key if key not in kept else f"{key} {start}"
        kept[name] = text[start:stop]
        made += f"{text[end:start]}{_mark(name)}"
        end = stop
    return MaskedText(made + text[end:], kept)


def restore_secrets(text: str, *known: Mapping[str, str]) -> str:
    """Return a text with secrets in the place of marks, from the first of `known` that has each.

    Raises JobFileInvalid for a mark that none has.
    """

    def put_back(mark: re.Match[str]) -> str:
        for each in known:
            if mark[1] in each:
                return each[mark[1]]
        raise JobFileInvalid(
            f"the secret of {mark[1]} is no longer known",
            hint="write it in the place of its mark, or name a variable of the environment",
        )

    return _MARK.sub(put_back, text)


def _mark(name: str) -> str:
    return f'"***kept: {name}***"'


class _Part(NamedTuple):
    """A part of a text, and what it is called in a mark."""

    start: int
    stop: int
    key: str = ""

    @classmethod
    def of(cls, text: str, node: Node, key: str = "") -> "_Part":
        start, stop = node.start_mark.index, node.end_mark.index
        body = text[start:stop].rstrip()  # a block ends with the line before the next key
        return cls(start, start + len(body), key)


def _risky_comments(text: str, node: Node | None, secrets: Sequence[_Part]) -> Iterator[_Part]:
    lines = {text.count("\n", 0, each.stop) for each in secrets}
    for number, (start, stop) in enumerate(_comments(text, node), 1):
        is_beside = text.count("\n", 0, start) in lines
        if is_beside or _MAY_NAME.search(text[start:stop].casefold()):
            yield _Part(start + 1, stop, f"comment {number}")


def _comments(text: str, node: Node | None) -> Iterator[tuple[int, int]]:
    """Yield where comments are: what looks like one within a value is a part of that."""
    written = [] if node is None else sorted(_lines_of(text, each) for each in _scalars(node))
    starts = [0, *(stop for _start, stop in written)]
    stops = [*(start for start, _stop in written), len(text)]
    for start, stop in zip(starts, stops, strict=True):
        for found in _COMMENT.finditer(text, start, stop):
            yield found.span()


def _lines_of(text: str, node: Node) -> tuple[int, int]:
    """Return where the content of a value is: a block may have a comment beside its `|`."""
    start, stop, _key = _Part.of(text, node)
    is_block = isinstance(node, ScalarNode) and node.style in {"|", ">"}
    return (text.find("\n", start, stop) if is_block and "\n" in text[start:stop] else start), stop


def _scalars(node: Node) -> Iterator[Node]:
    match node:
        case MappingNode():
            for pair in node.value:
                for each in pair:
                    yield from _scalars(each)
        case SequenceNode():
            for each in node.value:
                yield from _scalars(each)
        case ScalarNode():
            yield node


def _secrets(node: Node, key: str = "", *, is_secret: bool = False) -> Iterator[tuple[Node, str]]:
    match node:
        case MappingNode():
            for name, value in node.value:
                own = _name_of(name)
                below = f"{key}.{own}" if key else own
                yield from _secrets(value, below, is_secret=_is_secret(own) or is_secret)
        case SequenceNode():
            for number, each in enumerate(node.value):
                yield from _secrets(each, f"{key}[{number}]", is_secret=is_secret)
        case ScalarNode() if is_secret and VARIABLE.sub("", node.value) and node.value != "null":
            yield node, key


def _name_of(node: Node) -> str:
    return re.sub(r'["*\s]', "", str(node.value)) if isinstance(node, ScalarNode) else "?"


def _is_secret(name: str) -> bool:
    return SECRET_NAME.search(name.casefold()) is not None


_ELSEWHERE = {"sql.text", "sql.file"}  # the SQL itself
_NAMES = ("table", "topic", "name")
_NAMED_BY_OTHERS = re.compile(r"(^|\.)(azure|conf|hdfs|options|producer|s3)\.")  # named by others
_VARIABLES = re.compile(r"(\$\{\w+\})+")


def show_settings(job: Job) -> tuple[tuple[str, str], ...]:
    """Return each key of a job file, with its value as JSON, sorted by their keys."""
    found = _flatten("", job.model_dump(mode="json", by_alias=True))
    return tuple(sorted((key, value) for key, value in found if key not in _ELSEWHERE))


def _flatten(key: str, value: object) -> Iterator[tuple[str, str]]:
    match value:
        case dict():
            for name, each in value.items():
                yield from _flatten(f"{key}.{name}" if key else str(name), each)
        case list() if any(isinstance(each, dict) for each in value):
            for number, each in enumerate(value):
                yield from _flatten(f"{key}[{_name(each) or number}]", each)
        case _:
            yield key, _mask(key, json.dumps(value))


def _name(item: object) -> str:
    found = (item.get(name) for name in _NAMES) if isinstance(item, dict) else iter(())
    return next((str(each) for each in found if each is not None), "")


def _mask(key: str, text: str) -> str:
    bare = text.strip('"')
    is_plain = text == "null" or not bare or _VARIABLES.fullmatch(bare) is not None
    is_secret = _NAMED_BY_OTHERS.search(key) and SECRET_NAME.search(key.casefold())
    return json.dumps(MASK) if is_secret and not is_plain else text
