"""Messages, help texts and pages, held to `docs/style.md`.

Only phrases that are never right are listed here: a page of style cannot be checked as a whole.
"""

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
STYLE = ROOT / "docs" / "style.md"
# What was said once, and what to say.
NEVER = {
    r"rides? out": "retries, survives",
    r"held against|against the (log|files)": "compared with",
    r"\bany more\b": "no longer",
    r"\bhas? no more\b": "no longer has",
    r"\bput off\b": "deferred",
    r"\banew\b": "again",
    r"\bcut into\b": "has ... partitions",
    r"\bstands? (there|in it|here)( twice)?\b": "is, appears twice",
    r"\ba (row|file|line|batch|call) a (table|batch|second|entry)\b": "per",
    r"\bof one's own\b": "user-defined, your own",
    r"\bstrangers?\b": "orphans",
    r"\bleft aside\b": "dead letters, skipped",
    r"\bfor (the|its) state alone\b": "only to rebuild the state",
    r"\bcomes of\b": "comes from",
    r"\bis wanted\b": "expected ..., got ...",
    r"\bis no [a-z]+ of (the|a)\b": "is not a ... of",
    r"\bdoes not heed\b": "does not react to",
    r"\bnot yours to set\b": "cannot be set",
    r"\b(is|are) (fed|sinks) by\b": "sink table",
    r"\b(go|goes|going|went) on\b": "continue, resume",
    r"\bof before\b|\bof now\b": "previous, current",
    r"\bin the midst\b": "during",
    r"\bleave (it |the \w+ |--[\w-]+ )away\b": "omit",
    r"\b(bring|brought) \S+( \S+){0,4} back\b": "restore",
    r"\bno more:": "no longer",
    r"\bwas begun\b": "was started",
}
# Refused in docstrings, comments, messages and help of `src`; and as the whole of a name.
WORDS = re.compile(
    r"\b(told|tells?|telling|(?:no|some|every)body|who(?:m|so)?ever|(?:go|goes|going|went) on|held|"
    r"so many|what becomes of|lets? go of|holds against|wants?)\b",
    re.IGNORECASE,
)
NAMES = frozenset(
    ["asked", "given", "gone", "held", "nobody", "said", "tell", "tells", "told", "wanted"]
)
# How many words and names areas still have; others have none. A count may only fall.
REMAINING = {"plans": (0, 3)}  # two keys of stored plans, and a member of an enumeration


def texts_of(source: str) -> Iterator[tuple[int, str]]:
    """Yield line and text of every string of a module that is not a docstring."""
    tree = ast.parse(source)
    docstrings = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        and node.body
        and isinstance(node.body[0], ast.Expr)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and id(node) not in docstrings:
            value = node.value
            if isinstance(value, str) and " " in value.strip():
                yield node.lineno, value


@cache
def messages() -> tuple[tuple[str, str], ...]:
    return tuple(
        (f"{path.relative_to(ROOT)}:{line}", text)
        for folder in ("src", "lab")
        for path in sorted((ROOT / folder).rglob("*.py"))
        for line, text in texts_of(path.read_text("utf-8"))
    )


@pytest.mark.parametrize("phrase", NEVER)
def test_no_message_says_what_the_field_would_not_say(phrase: str) -> None:
    pattern = re.compile(phrase, re.IGNORECASE)
    found = [(place, text) for place, text in messages() if pattern.search(text)]
    assert not found, f"say: {NEVER[phrase]} (docs/style.md)"


@cache
def pages() -> tuple[tuple[str, str], ...]:
    """Return place and text of every paragraph; not of quotes, and decisions are of their day."""
    found = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]
    texts = {
        path: re.sub(r"^```.*?^```$", "", path.read_text("utf-8"), flags=re.MULTILINE | re.DOTALL)
        for path in found
        if path != STYLE and "decisions" not in path.parts
    }
    return tuple(
        (str(path.relative_to(ROOT)), re.sub(r"`[^`]*`", "", " ".join(each.split())))
        for path, text in sorted(texts.items())
        for each in text.split("\n\n")
    )


@pytest.mark.parametrize("phrase", NEVER)
def test_no_page_says_what_the_field_would_not_say(phrase: str) -> None:
    pattern = re.compile(phrase, re.IGNORECASE)
    found = [(place, text) for place, text in pages() if pattern.search(text)]
    assert not found, f"say: {NEVER[phrase]} (docs/style.md)"


def words_of(source: str) -> list[str]:
    """Return the refused words of the docstrings, comments and messages of a module."""
    strings = (node.value for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Constant))
    texts = [each for each in strings if isinstance(each, str) and " " in each]
    texts += re.findall(r"(?<!\S)# .*", source)
    return [word for text in texts for word in WORDS.findall(" ".join(text.split()))]


def names_of(source: str) -> list[str]:
    """Return the refused names that a module gives to anything."""
    found: list[str] = []
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Name(id=name, ctx=ast.Store()) | ast.Attribute(attr=name, ctx=ast.Store()):
                found.append(name)
            case ast.arg(arg=name) | ast.FunctionDef(name=name) | ast.ClassDef(name=name):
                found.append(name)
    return [name for name in found if name.strip("_").lower() in NAMES]


def test_docstrings_help_and_names_are_plain_english() -> None:
    found: dict[str, tuple[list[str], list[str]]] = {}
    for path in sorted((ROOT / "src" / "ashore").rglob("*.py")):
        parts = path.relative_to(ROOT / "src" / "ashore").parts
        area = "/".join(parts[: 2 if parts[0] in {"queries", "topics"} else 1])
        words, names = found.setdefault(area, ([], []))
        source = path.read_text("utf-8")
        words += words_of(source)
        names += [*names_of(source), *({path.stem.strip("_")} & NAMES)]
    for area, (words, names) in found.items():
        words_max, names_max = REMAINING.get(area, (0, 0))
        assert len(words) <= words_max, f"{area}: rewrite one of {words} (docs/style.md)"
        assert len(names) <= names_max, f"{area}: rename one of {names} (docs/style.md)"


def test_a_message_is_read_as_one_whatever_its_lines_and_docstrings_are_left_out() -> None:
    source = '''
def fail(name):
    """It rides out nothing."""
    raise ValueError(
        "is held "
        "against the files"
        f"; {name} is left aside"
    )
'''
    (text,) = [text for _, text in texts_of(source) if "held" in text]
    assert "held against the files" in text
    assert not any("rides out" in text for _, text in texts_of(source))


def test_the_page_of_style_stays_short() -> None:
    rows = [line for line in STYLE.read_text("utf-8").splitlines() if line.startswith("| ")]
    pairs = [row for row in rows if not row.startswith(("| Not |", "|---"))]
    assert 20 <= len(pairs) <= 40
