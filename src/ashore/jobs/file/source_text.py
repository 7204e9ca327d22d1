"""A text of an author, and the line and column of each of its characters in a file.

What it promises: pure. Without white space, a scalar and its value have the same characters in the
same order: a place is found by counting them, and a text where that is not so is reported.
"""

import re
from dataclasses import dataclass

_PROPERTIES = re.compile(r"(?:[&!]\S*\s+)*")  # an anchor, a tag
_BLOCKS = frozenset("|>")
_PIECES = {"'": re.compile(r"''|.", re.DOTALL), '"': re.compile(r"\\(?:\r?\n|.)|.", re.DOTALL)}
_SPACES = frozenset("nrt \n\r\t")  # what an escape may stand for, or fold, that is white space


@dataclass(frozen=True, slots=True)
class Place:
    """A character of a file, both counted from 1.

    Where `of_text` is set, the line is that of the text's beginning, and `of_text` says where in
    the text the character is.
    """

    file: str
    line: int
    column: int
    of_text: str = ""

    def __str__(self) -> str:
        if self.of_text:
            return f"{self.file}:{self.line} ({self.of_text} of the text)"
        return f"{self.file}:{self.line}:{self.column}"


@dataclass(frozen=True, slots=True)
class Scalar:
    """A scalar as it is written, with its quotes, and where it begins, from 1.

    `style`: `|`, `>`, `'` or `"`; empty where it is plain, or a file as a whole.
    """

    raw: str
    line: int
    column: int
    style: str = ""


@dataclass(frozen=True, slots=True)
class WrittenText:
    """A text, how it is written, and in which file."""

    text: str
    file: str
    scalar: Scalar

    def place(self, index: int) -> Place:
        """Return where the character at `index` stands; where it is white space, what follows."""
        raw, scalar = self.scalar.raw, self.scalar
        count = len("".join(self.text[:index].split()))
        found = _characters(raw, scalar.style)
        if not "".join(each for _, each in found).startswith("".join(self.text.split())):
            line, column = _line_and_column(self.text, index)
            of_text = f"line {line}, column {column}"
            return Place(self.file, scalar.line, scalar.column, of_text)
        places = [at for at, _ in found]
        end = places[-1] + 1 if places else 0
        line, column = _line_and_column(raw, [*places, end][count])
        column += scalar.column - 1 if line == 1 else 0
        return Place(self.file, scalar.line + line - 1, column)


def written_file(text: str, file: str) -> WrittenText:
    """Return the text of a file as a whole."""
    return WrittenText(text, file, Scalar(text, 1, 1))


def _characters(raw: str, style: str) -> list[tuple[int, str]]:
    """Return the characters of a scalar's value but white space, each with its place in `raw`."""
    start, end = 0, len(raw)
    if style:
        properties = _PROPERTIES.match(raw)
        start = properties.end() if properties else 0
    if style in _BLOCKS:
        start = raw.find("\n", start) + 1 or end
    if style not in _PIECES:
        return [(at, raw[at]) for at in range(start, end) if not raw[at].isspace()]
    pieces = _PIECES[style].finditer(raw, start + 1, end - 1)
    return [
        (each.start(), each[0][-1])
        for each in pieces
        if not (each[0].isspace() or (each[0][0] == "\\" and each[0][-1] in _SPACES))
    ]


def _line_and_column(text: str, index: int) -> tuple[int, int]:
    return text.count("\n", 0, index) + 1, index - text.rfind("\n", 0, index)
