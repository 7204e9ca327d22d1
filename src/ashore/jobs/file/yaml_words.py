"""What is wrong with a text that is not YAML, in words.

What it is: `explain_syntax`, from the parser's error to a finding and its line.
What it promises: pure; the words repeat no value of the file, which may be a secret: at most one
character of it. What is not known here has the parser's words.
"""

import re
from collections.abc import Callable
from typing import NamedTuple

from ruamel.yaml.composer import ComposerError
from ruamel.yaml.error import MarkedYAMLError

LATER = "what else is wrong can only be seen then"
_QUOTES = "put the value in quotes"


class SyntaxProblem(NamedTuple):
    """What is wrong in which line, from 1, and what to write instead."""

    line: int
    message: str
    instead: str


class _Place(NamedTuple):
    """Where the parser stopped, and where what it was reading begins: lines and columns from 0."""

    lines: list[str]
    line: int
    column: int
    begin: int

    def before(self) -> str:
        """Return the line up to where the parser stopped."""
        return self.lines[self.line][: self.column] if self.line < len(self.lines) else ""

    def above(self) -> tuple[int, str]:
        """Return the last line above that is not empty, with its number."""
        known = enumerate(self.lines[: self.line])
        return next(((n, text) for n, text in reversed([*known]) if text.strip()), (0, ""))


def explain_syntax(text: str, error: MarkedYAMLError) -> SyntaxProblem:
    """Return what is wrong with a text at which the parser raised an error."""
    mark = error.problem_mark or error.context_mark
    begin = error.context_mark or mark
    if mark is None or begin is None:
        return SyntaxProblem(1, "this is not YAML", "correct it")
    place = _Place(text.splitlines(), mark.line, mark.column, begin.line)
    problem = (error.problem or "broken syntax").strip().splitlines()[0]
    found = None if isinstance(error, ComposerError) else _explain(problem, place)
    if found is not None:
        return found
    return SyntaxProblem(mark.line + 1, _in_words_of_parser(error, problem), "correct the YAML")


def _explain(problem: str, place: _Place) -> SyntaxProblem | None:
    for pattern, explain in _KNOWN.items():
        if match := re.match(pattern, problem):
            return explain(match, place)
    return None


def _explain_character(match: re.Match[str], place: _Place) -> SyntaxProblem:
    here = place.line + 1
    if match[1] != "\\t":
        return SyntaxProblem(here, f"a value cannot begin with {match[1]}", _QUOTES)
    if place.before().strip():
        return SyntaxProblem(here, "a tab stands before a value", "write a space")
    return SyntaxProblem(here, "a tab indents this line", "indent by spaces only")


def _explain_indent(_match: re.Match[str], place: _Place) -> SyntaxProblem:
    message = "the indentation of this line is that of no line above"
    instead = "indent it as the keys, or the dashes, that it belongs to"
    return SyntaxProblem(place.line + 1, message, instead)


def _explain_rest(_match: re.Match[str], place: _Place) -> SyntaxProblem:
    return SyntaxProblem(place.line + 1, "the line continues after its value", _QUOTES)


def _explain_bracket(match: re.Match[str], place: _Place) -> SyntaxProblem:
    opening = "[" if match[1] == "]" else "{"
    message = f"a comma or `{match[1]}` is missing for the `{opening}` of this line"
    return SyntaxProblem(place.begin + 1, message, f"close it with `{match[1]}`")


def _explain_quote(_match: re.Match[str], place: _Place) -> SyntaxProblem:
    return SyntaxProblem(place.begin + 1, "the quote of this line is not closed", "close it")


def _explain_escape(match: re.Match[str], place: _Place) -> SyntaxProblem:
    message = f"`\\{match[1]}` is not an escape in double quotes"
    return SyntaxProblem(place.line + 1, message, "double the backslash, or use single quotes")


def _explain_colon(_match: re.Match[str], place: _Place) -> SyntaxProblem:
    line = place.lines[place.begin] if place.begin < len(place.lines) else ""
    if re.match(r"\s*(?:- +)?[\w.-]+:\S", line):
        return SyntaxProblem(
            place.begin + 1, "a space is missing after the colon", "write `key: value`"
        )
    return SyntaxProblem(
        place.begin + 1,
        "a colon is missing after the key",
        "write `key: value`; a text below `|` is indented further than its key",
    )


def _explain_value(_match: re.Match[str], place: _Place) -> SyntaxProblem:
    here, (number, above) = place.line + 1, place.above()
    if re.search(r":(\s|$)", place.before()):
        return SyntaxProblem(here, "the value has a colon with a space behind it", _QUOTES)
    if re.match(r"\s*-[^\s-]", above):
        return SyntaxProblem(
            number + 1, "a space is missing after the dash", "write `- key: value`"
        )
    return SyntaxProblem(
        here,
        "this line is indented below a line that has a value already",
        "indent it as the keys that it belongs to",
    )


# By what the parser says; the first that fits.
_KNOWN: dict[str, Callable[[re.Match[str], _Place], SyntaxProblem]] = {
    r"found character '(.+)' that cannot start any token$": _explain_character,
    r"could not find expected ':'$": _explain_colon,
    r"mapping values are not allowed here$": _explain_value,
    r"expected <block end>, but found '(?:<block|-|\?|<key>)": _explain_indent,
    r"expected <block end>": _explain_rest,
    r"expected ',' or '([]}])'": _explain_bracket,
    r"found unexpected end of stream$": _explain_quote,
    r"found unknown escape character '(.)'$": _explain_escape,
}


def _in_words_of_parser(error: MarkedYAMLError, problem: str) -> str:
    if isinstance(error, ComposerError):  # its words repeat the value, which may be a secret
        if "single document" in str(error.context):
            return "there is a second document in the file"
        return "an *alias without its &anchor, or one that contains itself"
    if "tag handle" in problem:  # it too repeats the value
        problem = "an undefined !tag!"
    return f"this is not YAML: {problem}"
