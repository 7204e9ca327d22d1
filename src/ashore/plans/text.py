"""Statements of SQL as text: what of it plays no part, and which names stand in it.

What it promises: pure. White space and comments outside of literals play no part; those inside do.
"""

import re
from collections.abc import Iterator, Mapping

_PIECES = re.compile(
    r"""(?P<literal>[rR]'[^']*'|[rR]"[^"]*"|'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|`(?:[^`]|``)*`)"""
    r"""|(?P<line>--[^\r\n]*)|(?P<comment>/\*(?!\+))|(?P<space>\s+)|(?P<word>\w+)|(?P<other>.)""",
    re.DOTALL,
)
_MADE = re.compile(
    r"\b(?:VIEW|FUNCTION)\s+(?:IF\s+NOT\s+EXISTS\s+)?(?P<name>`(?:[^`]|``)*`|\w+)", re.IGNORECASE
)


def cut(text: str) -> Iterator[tuple[int, str, str]]:
    """Yield the pieces of a text: where each begins, its kind, and what it is.

    A kind is `literal`, `line` or `comment` (both comments), `space`, `word` or `other`: one sign.
    """
    at = 0
    for kind, part in _cut(text):
        yield at, kind, part
        at += len(part)


def normalise_sql(text: str) -> str:
    """Return a statement with one space for white space and comments, but for those in literals."""
    parts = [" " if kind in {"line", "space", "comment"} else part for kind, part in _cut(text)]
    joined = "".join(
        part for at, part in enumerate(parts) if part != " " or (at and parts[at - 1] != " ")
    )
    return joined.strip()


def names_in(text: str) -> frozenset[str]:
    """Return what may be names in a statement, in lower case: more rather than fewer."""
    quoted = (part[1:-1].replace("``", "`") for kind, part in _cut(text) if kind == "literal")
    words = (part for kind, part in _cut(text) if kind == "word")
    return frozenset(each.casefold() for each in (*words, *quoted))


def mask_literals(text: str, secret: re.Pattern[str], mask: str) -> str:
    """Return a statement in which the values of secret OPTIONS are replaced by `mask`.

    `secret`: which names, in lower case, are those of secrets. Variables of the environment stay.
    """
    parts: list[str] = []
    name, depth, is_options = "", 0, False
    for kind, part in _cut(text):
        bare = part.strip("'\"`").casefold()
        if kind == "literal" and depth and secret.search(name) and "${" not in part:
            parts.append(f"'{mask}'")
            name = ""
            continue
        parts.append(part)
        if kind in {"word", "literal"}:
            name = f"{name}.{bare}" if name.endswith(".") else bare
            is_options = bare == "options" or (is_options and bool(depth))
        elif part == "(" and is_options:
            depth += 1
        elif part == ")" and depth:
            depth -= 1
        elif part == ",":
            name = ""
        elif part in ".-":
            name += part
    return "".join(parts)


def find_outside_literals(pattern: str, text: str) -> tuple[int, str] | None:
    """Return place and text of the first match that is in no literal and no comment."""
    blank = "".join(
        part if kind not in {"literal", "line", "comment"} else re.sub(r"[^\r\n]", " ", part)
        for kind, part in _cut(text)
    )
    found = re.search(pattern, blank, re.IGNORECASE)
    return (found.start(), found[0]) if found else None


def name_made(text: str) -> str:
    """Return the name of the view or function that a CREATE makes, in lower case; empty: none."""
    found = _MADE.search(normalise_sql(text))
    return found["name"].strip("`").replace("``", "`").casefold() if found else ""


def find_read(text: str, views: Mapping[str, str]) -> frozenset[str]:
    """Return the names that a statement may read, by itself and by the views that it reads.

    `views`: texts of views and functions, by their names in lower case.
    """
    found, waiting = frozenset[str](), [text]
    while waiting:
        new = names_in(waiting.pop()) - found
        found |= new
        waiting += [views[name] for name in sorted(new & views.keys())]
    return found


def _cut(text: str) -> Iterator[tuple[str, str]]:
    at = 0
    while found := _PIECES.match(text, at):
        kind = found.lastgroup or "other"
        at = _end_of_comment(text, found.end()) if kind == "comment" else found.end()
        yield kind, text[found.start() : at]


def _end_of_comment(text: str, at: int) -> int:
    """Return where a comment ends that began before `at`: they may stand in each other."""
    depth = 1
    for found in re.finditer(r"/\*|\*/", text[at:]):
        depth += 1 if found[0] == "/*" else -1
        if not depth:
            return at + found.end()
    return len(text)
