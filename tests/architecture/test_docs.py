"""The documents, compared with the code.

A document that is wrong costs more than none: what can be checked is checked here.
"""

import ast
import importlib.util
import inspect
import re
import shlex
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

import pytest

from ashore import errors
from ashore.cli.app import load_all
from ashore.errors import AshoreError, ExitCode, JobFileInvalid
from ashore.jobs.file import Job, parse_job
from ashore.jobs.file.cases import parse_cases
from ashore.jobs.file.section import Section, fields_of, section_of
from ashore.log.entries.frame import KINDS
from ashore.tables.ddl import Atom
from ashore.topics.loop.job import columns_of

ROOT = Path(__file__).parents[2]
REFERENCE = ROOT / "docs" / "reference"
STEP_COMMENT = re.compile(r"# Step (\d)\. (\w+)")
STEPS_COMMENT = re.compile(r"# Steps (\d) to \d\. ([^.(]+)")
EXAMPLE = ROOT / "examples" / "clicks.yaml"
CASES = sorted((ROOT / "examples").glob("*.cases.yaml"))
# Each page of these books ends with the modules that its rules are in.
BOOKS = ("docs/use", "docs/operate", "docs/internals", "docs/formats")
IN_THE_CODE = "In the code: "


def load_docs_tool() -> ModuleType:
    spec = importlib.util.spec_from_file_location("docs_tool", ROOT / "tools" / "docs.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


tool = load_docs_tool()
messages = tool.load_tool("messages")


@cache
def documents() -> dict[str, str]:
    """Return path and text of every Markdown file that belongs to the project."""
    found = [
        *ROOT.glob("*.md"),
        *(ROOT / "docs").rglob("*.md"),
        *(ROOT / "model").rglob("*.md"),
    ]
    return {str(path.relative_to(ROOT)): path.read_text("utf-8") for path in sorted(found)}


class Block(NamedTuple):
    """A fenced block of a document."""

    place: str
    language: str
    text: str


def blocks(language: str) -> list[Block]:
    fence = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
    return [
        Block(f"{path}:{text.count(chr(10), 0, match.start()) + 1}", match[1], match[2])
        for path, text in documents().items()
        for match in fence.finditer(text)
        if match[1] == language
    ]


def without_blocks(text: str) -> str:
    return re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL)


def prose(text: str) -> str:
    """Return a document without code, addresses of links and comments."""
    text = re.sub(r"^(    |\t).*$", "", without_blocks(text), flags=re.MULTILINE)
    text = re.sub(r"<!--.*?-->", "", text, flags=re.DOTALL)
    text = re.sub(r"`[^`]*`", "", text)
    return re.sub(r"\]\([^)]*\)", "]", text)


# --- the reference -----------------------------------------------------------------------------


def test_the_reference_is_what_the_code_says():
    assert tool.find_stale(REFERENCE) == [], "run: make docs"


def test_the_golden_page_has_the_messages_of_the_code() -> None:
    assert messages.PAGE.read_text("utf-8") == messages.render_page(), "run: make docs, and look"


def test_the_page_of_messages_has_errors_by_code_and_other_sentences(tmp_path: Path) -> None:
    (tmp_path / "wing").mkdir()
    (tmp_path / "wing" / "module.py").write_text(
        '''
"""Not a sentence for people, but a docstring."""
HINT = "start it again"
key = Option(help="a description that the reference has")

def stop(job, size):
    """A docstring, which nobody is shown."""
    if size:
        raise errors.Fenced(f"{job.name} was {size:,} bytes", hint=HINT)
    check(size, f"{len(job.files)} files")
    print("short", f"the job {job!r} is\\ntoo large", "'")
''',
        "utf-8",
    )
    page = messages.render_page((tmp_path,))
    assert page == messages.HEAD + (
        "\n## Errors\n\n### fenced\n\n- {name} was {size} bytes\n  - start it again\n"
        "\n### invariant-broken\n\n- {files} files\n"
        "\n## Other texts\n\n### wing.module\n\n- the job {job} is\\ntoo large\n"
    )


@pytest.mark.slow
def test_a_stale_page_is_found(tmp_path: Path):
    for name, text in tool.render_pages().items():
        (tmp_path / name).write_text(text, "utf-8")
    assert tool.find_stale(tmp_path) == []
    (tmp_path / "errors.md").write_text("other\n", "utf-8")
    (tmp_path / "stray.md").write_text("nobody's\n", "utf-8")
    (tmp_path / "events.md").unlink()
    assert tool.find_stale(tmp_path) == ["errors.md", "events.md", "stray.md"]


def every_error(kind: type[AshoreError] = AshoreError) -> Iterator[type[AshoreError]]:
    yield kind
    for below in kind.__subclasses__():
        yield from every_error(below)


def test_every_error_is_documented():
    page = documents()["docs/reference/errors.md"]
    for kind in every_error():
        assert f"### `{kind.code}`\n" in page, kind
        assert kind.exit_code in ExitCode, kind
        # Without a code of its own it would be shown as its parent.
        assert "code" in vars(kind), kind


def test_codes_of_errors_are_unique():
    codes = [kind.code for kind in every_error()]
    assert len(codes) == len(set(codes))


def test_every_exit_code_is_documented():
    pages = ("docs/reference/errors.md", "docs/reference/command-line.md")
    for page in pages:
        for each in ExitCode:
            assert f"| {each} | {each.meaning} |" in documents()[page]
    asked = re.findall(r"^\| (\d+) \|", documents()["docs/operate/recovery.md"], re.MULTILINE)
    assert {int(code) for code in asked} == {*ExitCode, 137}


def test_the_drawn_tree_of_errors_is_the_real_one():
    drawn: dict[str, str] = {}
    above = {-1: "Exception"}
    for line in inspect.cleandoc(errors.__doc__ or "").splitlines():
        if match := re.match(r"( *)[*+-] (.+)", line):
            depth = len(match[1]) // 2
            for name in match[2].split(", "):
                above[depth] = name
                drawn[name] = above[depth - 1]
    real = {kind.__name__: kind.__bases__[0].__name__ for kind in every_error()}
    assert drawn == real


def keys(section: type[Section], prefix: str = "") -> Iterator[tuple[str, str]]:
    for key, field in fields_of(section):
        yield prefix, key
        inner = section_of(field)
        if inner is not None:
            yield from keys(inner, f"{prefix}.{key}".lstrip("."))


def test_every_key_of_the_job_file_is_documented():
    page = documents()["docs/reference/job-file.md"]
    sections = dict(re.findall(r"^## (.+?)\n(.*?)(?=^## |\Z)", page, re.MULTILINE | re.DOTALL))
    for place, key in keys(Job):
        heading = f"`{place}`" if place else "Top level"
        text = next(found for title, found in sections.items() if title.startswith(heading))
        assert f"- `{key}` (" in text, f"{place}.{key}"


def commands() -> dict[str, dict[str, object]]:
    """Return what each command of the command line has, by its full name."""
    found: dict[str, dict[str, object]] = {}

    def walk(command: object, path: str) -> None:
        facts = vars(command)
        found[path] = facts
        for name, each in facts.get("commands", {}).items():
            walk(each, f"{path} {name}")

    walk(load_all(), "ashore")
    return found


def options_of(facts: dict[str, object]) -> set[str]:
    parameters = facts["params"]
    assert isinstance(parameters, list)
    return {option for each in parameters for option in each.opts if option.startswith("-")}


def test_every_command_and_option_is_documented_with_a_meaning():
    page = documents()["docs/reference/command-line.md"]
    sections = dict(re.findall(r"^## (.+?)\n(.*?)(?=^## |\Z)", page, re.MULTILINE | re.DOTALL))
    for path, facts in commands().items():
        if "commands" in facts and path != "ashore":
            continue
        text = sections[f"`{path}`"]
        for option in options_of(facts):
            if "-completion" not in option:
                assert f"`{option}`" in text, f"{path} {option}"
        assert ": None\n" not in text, f"{path} has an option without a help text"


# --- what people write by hand -----------------------------------------------------------------


def anchors(text: str) -> set[str]:
    """Return the anchors that headings make, as code hosts do."""
    titles = re.findall(r"^#+ (.+)$", without_blocks(text), re.MULTILINE)
    lowered = (re.sub(r"[^\w\- ]", "", title.lower()) for title in titles)
    return {title.strip().replace(" ", "-") for title in lowered}


def links() -> Iterator[tuple[str, str]]:
    for path, text in documents().items():
        for target in re.findall(r"\]\(([^)\s]+)\)", without_blocks(text)):
            yield path, target


def test_links_lead_somewhere():
    broken = []
    for path, target in links():
        if re.match(r"\w+://|mailto:", target):
            continue
        file, _, anchor = target.partition("#")
        found = (ROOT / path).parent / file if file else ROOT / path
        if not found.exists() or (anchor and anchor not in anchors(found.read_text("utf-8"))):
            broken.append(f"{path}: {target}")
    assert not broken, "\n".join(broken)


def test_the_rule_of_a_table_stands_alone():
    """Otherwise the table is shown as text."""
    lines = [line for text in documents().values() for line in without_blocks(text).splitlines()]
    rules = [line for line in lines if re.search(r"\| *:?-{2,}:? *\|", line)]
    assert rules
    assert [line for line in rules if set(line) - set("|-: ")] == []


def test_every_document_can_be_reached():
    """From the README, by links, as a reader would."""
    reached, waiting = set(), ["README.md"]
    while waiting:
        path = waiting.pop()
        if path in reached:
            continue
        reached.add(path)
        for source, target in links():
            if source == path and not re.match(r"\w+:", target):
                file = ((ROOT / path).parent / target.partition("#")[0]).resolve()
                if str(file.relative_to(ROOT)) in documents():
                    waiting.append(str(file.relative_to(ROOT)))
    assert set(documents()) - reached - {"CHANGELOG.md"} == set()


def test_the_navigation_of_the_site_names_every_page_once():
    books = tool.load_tool("build_site").read_navigation()
    assert list(books) == ["Use", "Operate", "Internals", "Reference", "Decisions"]
    named = [path for pages in books.values() for _, path in pages if path.startswith("docs/")]
    assert sorted(named) == [path for path in documents() if path.startswith("docs/")]


@pytest.mark.parametrize("book", BOOKS)
def test_each_page_of_a_book_ends_with_the_modules_of_its_rules(book: str):
    """`test_links_lead_somewhere` checks that the targets exist."""
    wrong = []
    for path, text in documents().items():
        if path.startswith(f"{book}/"):
            last = text.strip().rpartition("\n\n")[2]
            targets = re.findall(r"\]\(([^)\s]+)\)", last)
            found = [(ROOT / path).parent.joinpath(target).resolve() for target in targets]
            is_code = [each.is_relative_to(ROOT) and "docs" not in each.parts for each in found]
            if not (last.startswith(IN_THE_CODE) and found and all(is_code)):
                wrong.append(path)
    assert not wrong, f"the last paragraph has to be '{IN_THE_CODE}[name](../../src/ashore/...)'"


def steps_in_code() -> dict[int, set[str]]:
    """Return the first words that the code has for each number."""
    found: dict[int, set[str]] = {number: set() for number in range(1, 7)}
    for name in ("topics/loop/slice_loop", "log/store/committer"):
        text = (ROOT / "src" / "ashore" / f"{name}.py").read_text("utf-8")
        for number, word in STEP_COMMENT.findall(text):
            found[int(number)].add(word)
        for first, words in STEPS_COMMENT.findall(text):
            for number, word in enumerate(words.split(","), int(first)):
                found[number].add(word.strip().capitalize())
    return found


def test_steps_have_the_numbers_that_stand_in_the_code():
    page = documents()["docs/internals/commit.md"]
    written = re.findall(r"^## (\d)\. (\w+)$", page, re.MULTILINE)
    code = steps_in_code()
    assert [int(number) for number, _ in written] == list(code)
    for number, word in written:
        assert word in code[int(number)], f"step {number}"
    map_of_code = documents()["ARCHITECTURE.md"]
    assert re.findall(r"^(\d)\. \*\*(\w+)\.\*\*", map_of_code, re.MULTILINE) == written


def check_job_text(text: str) -> None:
    parse_job(text, check_schema=columns_of, environment={"ENV_NAME": "x"})


def test_the_example_can_be_run():
    check_job_text(EXAMPLE.read_text("utf-8"))


@pytest.mark.parametrize("block", blocks("yaml"), ids=lambda block: block.place)
def test_yaml_in_documents_can_be_run(block: Block):
    """A part of a job file is put in the place of the example's keys."""
    text = block.text
    if text.startswith("cases:"):  # test cases of a job: those that a test of Spark runs
        assert text in [file.read_text("utf-8") for file in CASES]
        assert parse_cases(text)
        return
    if not re.search(r"^job:", text, re.MULTILINE):
        own = set(re.findall(r"^(\w+):", text, re.MULTILINE))
        rest = re.split(r"^(?=\w+:)", EXAMPLE.read_text("utf-8"), flags=re.MULTILINE)
        text = "".join(part for part in rest if part.partition(":")[0] not in own) + text
    check_job_text(text)


def test_a_broken_example_would_be_found():
    with pytest.raises(JobFileInvalid):
        check_job_text(EXAMPLE.read_text("utf-8").replace("event_time", "event_tim"))


@pytest.mark.parametrize("block", blocks("python"), ids=lambda block: block.place)
def test_python_in_documents_compiles_and_imports_what_there_is(block: Block):
    for node in ast.walk(ast.parse(block.text, block.place)):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("ashore"):
            module = importlib.import_module(node.module or "")
            missing = [name.name for name in node.names if not hasattr(module, name.name)]
            assert not missing, f"{block.place}: {node.module} has no {missing}"


def written_commands() -> Iterator[tuple[str, str]]:
    """Yield every command line of `ashore` in code: indented, fenced or between backticks."""
    for path, text in documents().items():
        if path == "CHANGELOG.md":
            continue
        for line in re.findall(r"^(?:    |\$ )?(ashore [a-z-].*)$", text, re.MULTILINE):
            yield path, line
        for line in re.findall(r"`(ashore [a-z-][^`]*)`", text):
            yield path, line


def test_commands_in_documents_exist():
    known = commands()
    wrong = []
    for path, line in written_commands():
        words = shlex.split(line.replace("...", "x"))
        if words[1:2] == ["--server"]:  # of the group: its command follows
            del words[1:3]
        name = "ashore"
        for word in words[1:]:
            if f"{name} {word}" not in known:
                break
            name += f" {word}"
        rest = words[len(name.split()) :]
        options = options_of(known[name]) | {"--help"}
        is_unknown = "commands" in known[name] and not all(each[0] == "-" for each in rest)
        unknown = [each for each in rest if each.startswith("--") and each not in options]
        if is_unknown or unknown:
            wrong.append(f"{path}: {line}")
    assert not wrong, "\n".join(wrong)


def test_make_targets_in_documents_exist():
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE))
    for path, text in documents().items():
        for target in re.findall(r"(?:^    |`)make ([a-z-]+)", text, re.MULTILINE):
            assert target in targets, f"{path}: make {target}"


def test_names_of_modules_in_the_map_exist():
    page = documents()["ARCHITECTURE.md"]
    map_of_code = page.partition("## Code map")[2].partition("\n## ")[0]
    named = set(re.findall(r"^\| `([\w/.]+?)/?` \|", map_of_code, re.MULTILINE))
    source = ROOT / "src" / "ashore"
    packages = {path.parent.name for path in source.glob("*/__init__.py")}
    wings = {"topics", "queries"}  # their folders are named one by one
    assert packages - wings | {"errors.py", "library.py"} <= named
    assert not [name for name in named if not (source / name).exists()]


# --- words -------------------------------------------------------------------------------------


def glossary() -> tuple[list[str], set[str]]:
    words, _, short = documents()["docs/glossary.md"].partition("## Abbreviations")
    titles = re.findall(r"^### (.+)$", words, re.MULTILINE)
    rows = re.findall(r"^\| ([A-Z][A-Z, ]+) \|", short, re.MULTILINE)
    return titles, {each for row in rows for each in row.split(", ")}


def test_words_are_explained_once_and_in_order():
    words, _ = glossary()
    assert words == sorted(words, key=str.casefold)
    assert len({word.casefold() for word in words}) == len(words)


def test_abbreviations_are_those_of_the_glossary():
    _, known = glossary()
    # Names of things that are written so.
    names = {"README", "ARCHITECTURE", "CONTRIBUTING", "CHANGELOG", "SIGKILL", "SIGSTOP", "SIGTERM"}
    names |= {"AMD", "EPYC"}  # the processor of a measurement
    names |= {
        "DIR",
        "JOB",
        "LICENSE",
        "ARRAY",
        "DECIMAL",
        "MAP",
        "NOT",
        "NUL",
        "NULL",
        *(atom.value for atom in Atom),
    }
    found = {
        (path, word)
        for path, text in documents().items()
        if not path.startswith("model/")
        for word in re.findall(r"\b[A-Z]{2,}\b", prose(text))
        if word not in known | names
    }
    assert not found, "\n".join(f"{path}: {word}" for path, word in sorted(found))


# --- decisions ---------------------------------------------------------------------------------


def test_decisions_are_numbered_listed_and_have_their_parts():
    folder = ROOT / "docs" / "decisions"
    pages = sorted(path for path in folder.glob("*.md") if path.name != "README.md")
    assert [path.name[:4] for path in pages] == [f"{n:04d}" for n in range(1, len(pages) + 1)]
    listed = documents()["docs/decisions/README.md"]
    for path in pages:
        text = path.read_text("utf-8")
        title = re.match(r"# (\d{4}): (.+)\n", text)
        assert title is not None, path.name
        assert f"- [{title[1]}]({path.name}): {title[2]}\n" in listed
        headings = re.findall(r"^## (\w+)", text, re.MULTILINE)
        assert {"Context", "Decision", "Consequences"} <= set(headings), path.name


def test_the_glossary_names_every_kind_of_entry():
    text = (
        (ROOT / "docs" / "glossary.md")
        .read_text("utf-8")
        .partition("### entry\n")[2]
        .partition("###")[0]
    )
    assert set(re.findall(r"`(\w+)`", text)) == set(KINDS)
