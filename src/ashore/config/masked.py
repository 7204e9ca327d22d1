"""The text of a job file for somebody who may not see its secrets.

What it is: `mask_secrets`, which puts a mark in the place of each secret that is written out, and
`restore_secrets`, which puts them back into a text that was edited meanwhile.
What it promises: a secret is what is a value of a key that is called like one, unless it is made of
variables alone; a text whose secrets cannot be found is refused, not shown.
What it must not know: who looks.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from ruamel.yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from ashore.config.document import compose, read_document
from ashore.config.options import SECRET_NAME
from ashore.config.values import VARIABLE
from ashore.errors import JobFileInvalid

_MAY_NAME = re.compile(r"password|secret|token|jaas|credential|private|\.key")
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
    found = {} if node is None else {at.start_mark.index: (at, key) for at, key in _secrets(node)}
    for start, (at, key) in sorted(found.items(), key=lambda each: each[0]):
        if start < end:
            continue  # within what has a mark already
        name = key if key not in kept else f"{key} {start}"
        written = text[start : at.end_mark.index]
        body = written.rstrip()  # a block ends with the line before the next key
        kept[name] = body
        made += f"{text[end:start]}{_mark(name)}"
        end = start + len(body)
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


def _secrets(node: Node, key: str = "", *, is_secret: bool = False) -> Iterator[tuple[Node, str]]:
    """Yield the nodes of secrets, with their keys."""
    match node:
        case MappingNode():
            for name, value in node.value:
                own = (
                    re.sub(r'["*\s]', "", str(name.value)) if isinstance(name, ScalarNode) else "?"
                )
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
