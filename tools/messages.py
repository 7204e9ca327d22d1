"""Write every text for people into one golden page: run by `make docs`.

What it is: `tests/golden/messages.md`: messages and hints of errors by their codes, then all other
sentences by package. A changed word is one line of its diff, so that tests assert codes and fields.
What it promises: the same page for the same texts, whichever module of a package they are in.
Descriptions of options and keys are left out: the reference has them.
"""

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

from ashore import errors
from ashore.errors import AshoreError, InvariantBroken

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "tests" / "golden" / "messages.md"
SOURCES = (ROOT / "src", ROOT / "lab" / "src")
HEAD = """\
<!-- Written from the code by `make docs`. Do not edit. -->

# Messages

`{name}` is filled in at run time.
"""
WORDS_MIN = 5  # of a text that is no error's
LINES_MAX = 3  # of one: more are a document, a style sheet or a template
WORD = re.compile(r"[A-Za-z][a-z]*('[a-z]+)?[.,;:!?)]*")
CODES = {
    name: kind.code
    for name, kind in vars(errors).items()
    if isinstance(kind, type) and issubclass(kind, AshoreError)
}
CHECKS = {"fail": 0, "check": 1}  # which argument is the message
IN_REFERENCE = {"help", "description", "epilog"}


def render_page(sources: tuple[Path, ...] = SOURCES) -> str:
    """Return the page of the texts of these directories."""
    by_code: dict[str, set[str]] = defaultdict(set)
    by_package: dict[str, set[str]] = defaultdict(set)
    for source in sources:
        for path in sorted(source.rglob("*.py")):
            module = Module(ast.parse(path.read_text("utf-8")))
            for code, text in module.errors():
                by_code[code].add(text)
            package = ".".join(path.relative_to(source).with_suffix("").parts[:2])
            by_package[package] |= set(module.other_texts())
    lines = [HEAD]
    for title, groups in (("Errors", by_code), ("Other texts", by_package)):
        lines.append(f"## {title}\n")
        for group, texts in sorted(groups.items()):
            lines += [f"### {group}\n", *(f"- {text}" for text in sorted(texts)), ""] * bool(texts)
    return "\n".join(lines)


class Module:
    """The texts of one module."""

    def __init__(self, tree: ast.Module) -> None:
        self._tree = tree
        self._constants = {
            target.id: node.value
            for node in tree.body
            if isinstance(node, ast.Assign)
            for target in node.targets
            if isinstance(target, ast.Name)
        }

    def errors(self) -> Iterator[tuple[str, str]]:
        """Yield the code, and the message with its hint, of each error that is constructed."""
        for call in self._calls():
            message, hint = self._parts(call)
            lines = (self._text(part) for part in (message, hint) if part is not None)
            yield CODES.get(name_of(call), InvariantBroken.code), "\n  - ".join(lines)

    def other_texts(self) -> Iterator[str]:
        """Yield sentences that are not those of an error."""
        known = {id(part) for call in self._calls() for part in self._parts(call)}
        for node in self._walk(self._tree, known):
            text = self._text(node)
            words = filter(WORD.fullmatch, text.replace("\\n", " ").split())
            if len(list(words)) >= WORDS_MIN and text.count("\\n") < LINES_MAX:
                yield text

    def _calls(self) -> Iterator[ast.Call]:
        for node in ast.walk(self._tree):
            if isinstance(node, ast.Call):
                name = name_of(node)
                if (name in CODES and node.args) or len(node.args) > CHECKS.get(name, 9):
                    yield node

    def _parts(self, call: ast.Call) -> tuple[ast.expr, ast.expr | None]:
        hint = next((each.value for each in call.keywords if each.arg == "hint"), None)
        return call.args[CHECKS.get(name_of(call), 0)], hint

    def _text(self, node: ast.expr) -> str:
        match node:
            case ast.Constant(value=str(text)):
                return text.strip().replace("\n", "\\n")
            case ast.JoinedStr(values=values):
                return "".join(
                    f"{{{label(each.value)}}}"
                    if isinstance(each, ast.FormattedValue)
                    else str(getattr(each, "value", "")).replace("\n", "\\n")
                    for each in values
                ).strip()
            case ast.Name(id=name) if isinstance(
                self._constants.get(name), ast.Constant | ast.JoinedStr
            ):
                return self._text(self._constants[name])
        return f"{{{label(node)}}}"

    def _walk(self, node: ast.AST, known: set[int]) -> Iterator[ast.expr]:
        """Yield texts below `node`: no docstrings, no descriptions of options."""
        if isinstance(node, ast.Constant | ast.JoinedStr):
            if id(node) not in known and (
                isinstance(node, ast.JoinedStr) or isinstance(node.value, str)
            ):
                yield node
            if isinstance(node, ast.Constant):
                return
        for child in ast.iter_child_nodes(node):
            if isinstance(node, ast.JoinedStr) and isinstance(child, ast.Constant):
                continue
            if isinstance(child, ast.Expr) and isinstance(child.value, ast.Constant):
                continue
            if isinstance(child, ast.keyword) and child.arg in IN_REFERENCE:
                continue
            yield from self._walk(child, known)


def name_of(call: ast.Call) -> str:
    """Return the name of what is called."""
    function = call.func
    return function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")


def label(node: ast.AST) -> str:
    """Return a short name of an expression: that of its value, without what formats it."""
    match node:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name.strip("_")
        case ast.Call(args=[first, *_]):
            return label(first)
        case ast.Call(func=inner) | ast.Subscript(value=inner) | ast.IfExp(body=inner):
            return label(inner)
        case ast.BoolOp(values=[inner, *_]) | ast.BinOp(left=inner) | ast.UnaryOp(operand=inner):
            return label(inner)
        case ast.GeneratorExp(elt=inner) | ast.ListComp(elt=inner) | ast.Starred(value=inner):
            return label(inner)
    return "..."


def main() -> None:
    """Write the page."""
    page = render_page()
    if not PAGE.exists() or PAGE.read_text("utf-8") != page:
        PAGE.write_text(page, "utf-8")
        print(f"wrote {PAGE.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
