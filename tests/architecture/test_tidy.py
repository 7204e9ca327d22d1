"""Limits that only go down, and things that do not belong in the tree.

A place that breaks a rule for a good reason stands in EXCEPTIONS, which fails as well when the
reason is gone. Words that are forbidden are put together here, so that this file may hold them.
"""

import ast
import os
import re
from collections import Counter
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parents[2]
CODE = ("src", "lab", "tools", "bench", "tests")
TEXT_SUFFIXES = {
    *(".cfg", ".css", ".html", ".ini", ".js", ".json", ".lock", ".md", ".py", ".rs", ".sh"),
    *(".svg", ".toml", ".txt", ".yaml", ".yml", ""),
}

FUNCTION_LINES_MAX = 60
MODULE_LINES_MAX = 600
LINE_LENGTH_MAX = 100
PARAMETERS_MAX = 5
CONSTRUCTOR_PARAMETERS_MAX = 8  # where some can be given by name only

MARKS = re.compile(r"\b(TO" + r"DO|FIX" + r"ME|XX" + r"X)\b")
PRAGMA = re.compile(r"\s+# (noqa|type: ignore)\b.*")
MOCKS = {"mock", "unittest.mock", "pytest_mock"}
CLOCKS = {"time.time", "time.sleep", "datetime.now", "datetime.utcnow", "datetime.datetime.now"}
MACHINE_PATHS = re.compile(r"(?<![\w.}~$/-])/(?:root|home|work|Users)/(?!\.\.\.)\w")
REGISTRY_HOSTS = re.compile(
    r"(?:\bpy" + r"pi\.org|python" + r"hosted\.org|repo1?\.maven|maven\.apache\.org/maven2"
    r"|sonatype\.org|crates" + r"\.io\b|npmjs" + r"\.org)"
)

# (rule, place) -> why it may be so.
EXCEPTIONS: dict[tuple[str, str], str] = {
    ("clock", "src/ashore/base/clock.py"): "the one home of the machine's clock",
    ("class name", "src/ashore/library.py::Job"): "what users call `ashore.Job`",
    (
        "parameters",
        "src/ashore/cli/recover.py::recover",
    ): "each parameter is an option of the command",
    (
        "parameters",
        "src/ashore/cli/checkpoint.py::checkpoint_clean",
    ): "each parameter is an option of the command",
    ("parameters", "src/ashore/cli/checkpoint.py::checkpoint_doctor"): "as above",
    ("parameters", "src/ashore/cli/init.py::init"): "as above",
    ("parameters", "src/ashore/cli/token.py::token_add"): "as above",
    ("parameters", "src/ashore/cli/token.py::token_allow"): "as above",
    ("parameters", "src/ashore/cli/run.py::run"): "as above",
    ("parameters", "src/ashore/cli/verify.py::verify"): "as above",
    ("parameters", "src/ashore/cli/decisions.py::reset_clock"): "as above",
    ("parameters", "src/ashore/cli/checkpoint.py::checkpoint_rescale"): "as above",
    ("parameters", "src/ashore/cli/clean.py::retire"): "as above",
    ("parameters", "src/ashore/cli/compact.py::compact"): "as above",
    ("parameters", "src/ashore/cli/decisions.py::roll_back"): "as above",
    ("parameters", "src/ashore/cli/decisions.py::skip"): "as above",
    ("parameters", "src/ashore/cli/checkpoint.py::checkpoint_savepoint"): "as above",
    ("parameters", "src/ashore/cli/checkpoint.py::checkpoint_restore"): "as above",
    ("parameters", "src/ashore/cli/checkpoint_inspect.py::checkpoint_inspect"): "as above",
    ("parameters", "src/ashore/cli/checkpoint_inspect.py::checkpoint_diff"): "as above",
    ("parameters", "src/ashore/cli/sql.py::sql"): "as above",
    ("parameters", "src/ashore/cli/status.py::status"): "as above",
    ("parameters", "src/ashore/cli/migrate.py::migrate_check"): "as above",
    ("parameters", "src/ashore/cli/migrate.py::migrate_apply"): "as above",
    ("parameters", "src/ashore/cli/migrate.py::migrate_undo"): "as above",
    ("parameters", "src/ashore/cli/versions.py::versions_diff"): "as above",
    ("parameters", "src/ashore/cli/stop.py::stop"): "as above",
    ("parameters", "src/ashore/cli/fleet.py::start"): "as above",
    ("parameters", "src/ashore/cli/fleet.py::stop_all"): "as above",
    ("parameters", "src/ashore/cli/serve.py::serve"): "as above",
    (
        "function length",
        "src/ashore/cli/serve.py::serve",
    ): "its lines are options of the command, with what they mean",
    (
        "parameters",
        "src/ashore/cli/audit.py::audit",
    ): "each parameter is an option of the command",
    (
        "parameters",
        "src/ashore/cli/doctor.py::doctor",
    ): "each parameter is an option of the command",
    (
        "parameters",
        "src/ashore/cli/drill.py::drill_run",
    ): "each parameter is an option of the command",
    (
        "parameters",
        "src/ashore/topics/write/write_task.py::write_task",
    ): "what it needs, and two seams that tests replace",
}


class Finding(NamedTuple):
    """A rule broken at a place: a path, with the function's name where there is one."""

    place: str
    detail: str


def walk_files() -> Iterator[Path]:
    """Yield the files of the checkout that belong to the project."""
    for folder, folders, names in os.walk(ROOT):
        folders[:] = sorted(
            name
            for name in folders
            if name in {".ci", ".github"}
            or not (name.startswith((".", "__pycache__")) or name in {"build", "dist", "target"})
        )
        # Cargo's own lock names a registry, and is made of crates.lock (tools/native.py). In a
        # work tree beside the first `.git` is a file, with a path of this machine.
        left_out = {"Cargo.lock", ".git"}
        yield from (Path(folder, name) for name in sorted(names) if name not in left_out)


@cache
def text_files() -> dict[str, str]:
    """Return path and text of every text file."""
    return {
        str(path.relative_to(ROOT)): path.read_text("utf-8")
        for path in walk_files()
        if path.suffix in TEXT_SUFFIXES
    }


@cache
def modules() -> dict[str, ast.Module]:
    """Return path and syntax tree of every Python file."""
    return {
        path: ast.parse(text, path)
        for path, text in text_files().items()
        if path.endswith(".py") and path.startswith(CODE)
    }


@cache
def nodes(path: str) -> list[ast.AST]:
    """Return every node of a Python file."""
    return list(ast.walk(modules()[path]))


def functions() -> Iterator[tuple[str, ast.FunctionDef | ast.AsyncFunctionDef]]:
    for path in modules():
        for node in nodes(path):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                yield f"{path}::{node.name}", node


def long_functions() -> Iterator[Finding]:
    for place, node in functions():
        lines = (node.end_lineno or node.lineno) - node.lineno + 1
        if lines > FUNCTION_LINES_MAX:
            yield Finding(place, f"{lines} lines")


def long_modules() -> Iterator[Finding]:
    for path in modules():
        lines = text_files()[path].count("\n")
        if lines > MODULE_LINES_MAX:
            yield Finding(path, f"{lines} lines")


def long_lines() -> Iterator[Finding]:
    """A remark to a tool, with its reason, does not count: it cannot go on a line of its own."""
    for path in modules():
        for number, line in enumerate(text_files()[path].splitlines(), 1):
            length = len(PRAGMA.sub("", line))
            if length > LINE_LENGTH_MAX:
                yield Finding(path, f"line {number}: {length} characters")


def many_parameters() -> Iterator[Finding]:
    """Tests are left out: pytest hands them fixtures as parameters."""
    for place, node in functions():
        arguments = node.args
        named = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
        count = len([each for each in named if each.arg not in {"self", "cls"}])
        is_constructor = node.name == "__init__" and arguments.kwonlyargs
        most = CONSTRUCTOR_PARAMETERS_MAX if is_constructor else PARAMETERS_MAX
        if count > most and not place.startswith("tests"):
            yield Finding(place, f"{count} parameters")


def task_marks() -> Iterator[Finding]:
    return search_text(MARKS)


def machine_paths() -> Iterator[Finding]:
    return search_text(MACHINE_PATHS)


def registry_hosts() -> Iterator[Finding]:
    return search_text(REGISTRY_HOSTS)


def search_text(pattern: re.Pattern[str]) -> Iterator[Finding]:
    for path, text in text_files().items():
        for number, line in enumerate(text.splitlines(), 1):
            if match := pattern.search(line):
                yield Finding(path, f"line {number}: {match[0]}")


def bare_asserts() -> Iterator[Finding]:
    """`python -O` removes them: production code uses ashore.errors.check."""
    for path in modules():
        if path.startswith(("src", "lab")):
            for node in nodes(path):
                if isinstance(node, ast.Assert):
                    yield Finding(path, f"line {node.lineno}")


def machine_clocks() -> Iterator[Finding]:
    """Time is an argument (ashore.base.clock)."""
    for path in modules():
        for node in nodes(path) if path.startswith(("src", "lab")) else ():
            if isinstance(node, ast.Attribute) and ast.unparse(node) in CLOCKS:
                yield Finding(path, f"line {node.lineno}: {ast.unparse(node)}")
            if isinstance(node, ast.ImportFrom) and node.module == "time":
                yield Finding(path, f"line {node.lineno}: from time import")


def mock_imports() -> Iterator[Finding]:
    """Fakes are in ashore_lab.testing, real servers in ashore_lab.services."""
    for path in modules():
        for node in nodes(path):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom):
                names = [node.module or "", *(f"{node.module}.{a.name}" for a in node.names)]
            if MOCKS.intersection(names):
                yield Finding(path, f"line {node.lineno}")


def shared_class_names() -> Iterator[Finding]:
    """One word, one thing: a class is found by its name. Private ones are at home."""
    homes: dict[str, str] = {}
    for path in sorted(modules()):
        for node in modules()[path].body if path.startswith(("src", "lab")) else ():
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                if node.name in homes:
                    yield Finding(f"{path}::{node.name}", f"also in {homes[node.name]}")
                homes[node.name] = path


def shared_basenames() -> Iterator[Finding]:
    """A module is found by its name: at most two of `src` have the same; processes have `main`."""
    paths = [Path(path) for path in modules() if path.startswith("src/ashore/")]
    counts = Counter(path.name for path in paths)
    for path in paths:
        if counts[path.name] > 2 and path.name not in {"__init__.py", "main.py"}:
            yield Finding(str(path), f"{counts[path.name]} modules have this name")


RULES: dict[str, Callable[[], Iterator[Finding]]] = {
    "function length": long_functions,
    "module length": long_modules,
    "line length": long_lines,
    "parameters": many_parameters,
    "task mark": task_marks,
    "assert": bare_asserts,
    "clock": machine_clocks,
    "mock": mock_imports,
    "class name": shared_class_names,
    "basename": shared_basenames,
    "machine path": machine_paths,
    "registry host": registry_hosts,
}


@cache
def findings(rule: str) -> list[Finding]:
    """Return every place that breaks a rule."""
    return list(RULES[rule]())


@pytest.mark.parametrize("rule", RULES)
def test_rule(rule: str):
    broken = [finding for finding in findings(rule) if (rule, finding.place) not in EXCEPTIONS]
    assert not broken, "\n".join(f"{each.place}: {each.detail}" for each in broken)


def test_every_exception_is_needed():
    needed = {(rule, finding.place) for rule in RULES for finding in findings(rule)}
    assert set(EXCEPTIONS) - needed == set()


def test_the_rules_look_at_the_whole_tree():
    assert {"Makefile", "pyproject.toml", ".ci/run", "requirements.lock"} <= set(text_files())
    assert {"src/ashore/errors.py", "tests/architecture/test_tidy.py"} <= set(modules())


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        (MARKS, "# TO" + "DO: later"),
        (MACHINE_PATHS, "see /ro" + "ot/x"),
        (MACHINE_PATHS, "open('/ho" + "me/me/x')"),
        (REGISTRY_HOSTS, "https://py" + "pi.org/simple"),
        (REGISTRY_HOSTS, "https://repo1" + ".maven.org/maven2"),
    ],
)
def test_patterns_find_what_they_are_for(pattern: re.Pattern[str], text: str):
    assert pattern.search(text)


@pytest.mark.parametrize(
    "text", ["file:///data/lake", "tests/wo" + "rk/x", "~/ho" + "me/x", "a/ro" + "ot/b"]
)
def test_paths_that_belong_to_nobody_are_allowed(text: str):
    assert not MACHINE_PATHS.search(text)
