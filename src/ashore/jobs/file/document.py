"""YAML text as plain data, with the line of every key.

What it is: nodes of ruamel's round-trip loader, turned into dicts, lists and scalars.
What it promises: any text gives data and findings, never another exception; keys are text as
written; a duplicate key is found; a timestamp stays text.
"""

import re
from collections.abc import Collection
from dataclasses import dataclass, field

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.events import CollectionEndEvent, CollectionStartEvent
from ruamel.yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode
from ruamel.yaml.reader import ReaderError

from ashore.jobs.file.problems import Finding
from ashore.jobs.file.section import Key
from ashore.jobs.file.source_text import Scalar
from ashore.jobs.file.yaml_words import LATER, explain_syntax

_NODES_MAX = 100_000
_DEPTH_MAX = 50
_LEVELS_MAX = 2 * _DEPTH_MAX  # of text that is composed at all: that takes the square of the depth
_FOLD = "\a"  # ruamel's mark before each fold of a `>`; no character that YAML lets a file hold
_TAG = "tag:yaml.org,2002:"


@dataclass(frozen=True, slots=True)
class Document:
    """What a text says: `data`, the line of each key from 1, and what is wrong with it.

    `scalars`: how those are written that were asked for.
    """

    data: object
    lines: dict[Key, int]
    findings: list[Finding]
    scalars: dict[Key, Scalar] = field(default_factory=dict)


def read_document(
    text: str, text_at: Collection[Key] = (), scalars_at: Collection[Key] = ()
) -> Document:
    """Return the document in `text`.

    Scalars directly in a mapping at one of `text_at` stay text as written: `0123`, `true`. How
    those at one of `scalars_at` are written is in the answer.
    """
    reader = _NodeReader(text, frozenset(text_at), frozenset(scalars_at))
    try:
        node = compose(text)
        if node is not None:
            reader.lines[()] = node.start_mark.line + 1
            data = reader.plain(node, ())
            return Document(data, reader.lines, reader.findings, reader.scalars)
    except _TooLargeError as error:
        message = "the file has too many values once its aliases (*name) are expanded"
        finding = Finding((), message, "write the values where they are needed")
        return Document(None, {(): error.line}, [finding])
    except ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        return _broken(line, "this character is not allowed in YAML")
    except MarkedYAMLError as error:
        return _broken(*explain_syntax(text, error))
    except RecursionError:
        return _broken(1, "the file is nested too deeply")
    except (YAMLError, ValueError, ArithmeticError, AssertionError) as error:
        # The parser answers odd %YAML directives and escapes past Unicode with errors of Python.
        return _broken(1, f"this is not YAML ({type(error).__name__})")
    return Document(None, {}, [])


def compose(text: str) -> Node | None:
    """Return the nodes of a text, with where each stands. Raises YAMLError and others of it."""
    yaml = YAML(typ="rt", pure=True)
    yaml.composer.warn_double_anchors = False
    _check_depth(yaml, text)
    node: Node | None = yaml.compose(text)
    return node


def _text_of(node: ScalarNode) -> str:
    text: str = node.value
    return text.replace(_FOLD, "") if node.style == ">" else text


def _check_depth(yaml: YAML, text: str) -> None:
    """Raise RecursionError at the first level too many, before more of the text is looked at."""
    depth = 0
    for event in yaml.parse(text):
        if isinstance(event, CollectionStartEvent):
            depth += 1
            if depth > _LEVELS_MAX:
                raise RecursionError
        elif isinstance(event, CollectionEndEvent):
            depth -= 1


def _broken(line: int, message: str, instead: str = "correct the YAML") -> Document:
    return Document(None, {(): line}, [Finding((), message, f"{instead}; {LATER}")])


class _TooLargeError(Exception):
    """The file is too large; problems of its cut rest would not be the author's."""

    def __init__(self, line: int) -> None:
        super().__init__()
        self.line = line


@dataclass(slots=True)
class _NodeReader:
    written: str  # the document
    text_at: frozenset[Key]
    scalars_at: frozenset[Key] = frozenset()
    scalars: dict[Key, Scalar] = field(default_factory=dict)
    lines: dict[Key, int] = field(default_factory=dict)
    findings: list[Finding] = field(default_factory=list)
    nodes: int = 0
    open_nodes: set[int] = field(default_factory=set)

    def plain(self, node: Node, key: Key) -> object:
        """Return the node's data. Aliases are followed; each place has its own lines."""
        self.nodes += 1
        if self.nodes > _NODES_MAX:
            raise _TooLargeError(self.lines.get(key[:1], 1))
        if isinstance(node, ScalarNode):
            text = _text_of(node)
            if not _is_unicode(text):
                self.findings.append(Finding(key, "an unpaired surrogate is not a character"))
                return None
            if key in self.scalars_at:
                start, end = node.start_mark, node.end_mark
                raw = self.written[start.index : end.index]
                place = (start.line + 1, start.column + 1)
                self.scalars[key] = Scalar(raw, *place, node.style or "")
            scalar = self._scalar(text, node.tag, key)
            return scalar if scalar is None or key[:-1] not in self.text_at else text
        if len(key) > _DEPTH_MAX:
            self.findings.append(Finding(key[:4], "this is nested too deeply"))
            return None
        if id(node) in self.open_nodes:
            self.findings.append(Finding(key, "an anchor contains itself", "write the value"))
            return None
        self.open_nodes.add(id(node))
        value: object = None
        if isinstance(node, MappingNode):
            value = self._mapping(node, key)
        elif isinstance(node, SequenceNode):
            value = self._list(node, key)
        self.open_nodes.discard(id(node))
        return value

    def _list(self, node: SequenceNode, key: Key) -> list[object]:
        items = []
        for index, item in enumerate(node.value):
            self.lines[(*key, index)] = item.start_mark.line + 1
            items.append(self.plain(item, (*key, index)))
        return items

    def _mapping(self, node: MappingNode, key: Key) -> dict[str, object]:
        values: dict[str, object] = {}
        merged: list[Node] = []
        for key_node, value_node in node.value:
            if not isinstance(key_node, ScalarNode) or not _is_unicode(key_node.value):
                self.findings.append(Finding(key, "a key must be a string"))
                continue
            if key_node.tag == f"{_TAG}merge":
                merged.append(value_node)
                continue
            name, line = _text_of(key_node), key_node.start_mark.line + 1
            place = (*key, name)
            if name in values:
                first = self.lines[place]
                self.lines[place] = line
                self.findings.append(
                    Finding(place, f"the key was given in line {first} already", "remove one")
                )
                continue
            self.lines[place] = line
            values[name] = self.plain(value_node, place)
        for value_node in merged:
            self._merge(value_node, key, values)
        return values

    def _merge(self, node: Node, key: Key, values: dict[str, object]) -> None:
        """Add what `<<` brings in; keys that are there already win."""
        for each in node.value if isinstance(node, SequenceNode) else [node]:
            if not isinstance(each, MappingNode):
                self.findings.append(
                    Finding(key, "expected a mapping after '<<'", "write <<: *anchor")
                )
                continue
            before = dict(self.lines)
            for name, value in self._merged(each, key).items():
                values.setdefault(name, value)
            self.lines.update(before)

    def _merged(self, node: MappingNode, key: Key) -> dict[str, object]:
        data = self.plain(node, key)
        return data if isinstance(data, dict) else {}

    def _scalar(self, text: str, tag: str | None, key: Key) -> object:
        kind = (tag or "").removeprefix(_TAG)
        try:
            match kind:
                case "str" | "timestamp":
                    return text
                case "null":
                    return None
                case "bool":
                    return {"true": True, "false": False}[text.casefold()]
                case "int":
                    return int(text.replace("_", ""), _base(text))
                case "float":
                    return float(re.sub(r"_|\.(?=inf|nan)", "", text.casefold()))
        except (ValueError, KeyError):
            self.findings.append(Finding(key, f"the value is not a YAML {kind}", "use quotes"))
            return None
        self.findings.append(Finding(key, "tags are not supported", "drop it"))
        return None


def _is_unicode(text: str) -> bool:
    return not any("\ud800" <= character <= "\udfff" for character in text)


def _base(text: str) -> int:
    digits = text.lstrip("+-").casefold()
    return {"0x": 16, "0o": 8, "0b": 2}.get(digits[:2], 10)
