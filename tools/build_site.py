"""Build the documentation as a site with a search: the last step of `make docs`.

What it is: the pages that the README leads to, in build/site, by zensical. The navigation is the
README's section of books, and the list of decisions.
What it promises: a link that leads nowhere is an error, and so is one to a heading that is not
there. Links to files of the repository lead to copies of them, so the site needs no other host.
"""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

ROOT = Path(__file__).resolve().parent.parent
BUILD = ROOT / "build"
PAGES = BUILD / "site-pages"
BOOKS = "## The documentation\n"
DECISIONS = "docs/decisions/README.md"
# Code is skipped: what looks like a link in it is none.
LINK = re.compile(
    r"^```.*?^```$|^    [^\n]*|`[^`]*`|(!?\[(?:[^][]|\[[^][]*\])*\])\(([^)\s]+)\)",
    re.MULTILINE | re.DOTALL,
)
CONFIG = """\
[project]
site_name = "Ashore"
site_description = "Kafka topics to lake tables exactly once; SQL with state that can be kept"
docs_dir = "site-pages"
site_dir = "site"
nav = {nav}

[project.theme]
font = false
features = ["navigation.tabs", "navigation.sections", "content.code.copy", "toc.follow"]

[[project.theme.palette]]
media = "(prefers-color-scheme: light)"
scheme = "default"

[[project.theme.palette]]
media = "(prefers-color-scheme: dark)"
scheme = "slate"

[project.markdown_extensions.toc]
permalink = true
slugify = {{object = "pymdownx.slugs.slugify", kwds = {{case = "lower"}}}}

[project.markdown_extensions.pymdownx.highlight]
[project.markdown_extensions.pymdownx.superfences]
[project.markdown_extensions.tables]
[project.markdown_extensions.sane_lists]
"""


def read_books(readme: str) -> dict[str, list[tuple[str, str]]]:
    """Return the pages of each book, as title and path in the repository."""
    section = readme.partition(BOOKS)[2].partition("\n## ")[0]
    books = re.findall(r"^\*\*(\w+)\*\*: (.*?)(?:\n\n|\Z)", section, re.MULTILINE | re.DOTALL)
    return {name: re.findall(r"\[([^]]+)\]\(([^)]+)\)", text) for name, text in books}


def read_navigation() -> dict[str, list[tuple[str, str]]]:
    """Return the books, and the decisions as one more."""
    books = read_books((ROOT / "README.md").read_text("utf-8"))
    listed = re.findall(r"^- \[(\d+)\]\((\S+)\): (.+)$", _text(DECISIONS), re.MULTILINE)
    decisions = [(f"{number} {title}", f"docs/decisions/{file}") for number, file, title in listed]
    for pages in books.values():
        pages[:] = [(title, path) for title, path in pages if path != DECISIONS]
    return {**books, "Decisions": [("Index", DECISIONS), *decisions]}


def place_of(path: str) -> str:
    """Return where a file of the repository is on the site: sources are shown as text."""
    if path == "README.md":
        return "index.md"
    inside = path.removeprefix("docs/")
    if inside.endswith("README.md"):
        return inside.removesuffix("README.md") + "index.md"
    if inside != path or path.endswith(".md"):
        return inside
    if (ROOT / path).is_dir():
        return f"files/{path}/index.md"
    return f"files/{path}.txt"


def copy_pages() -> None:
    """Copy every file that the README leads to, with links between their places."""
    waiting = ["README.md"]
    done: set[str] = set()
    while waiting:
        path = waiting.pop()
        if path in done:
            continue
        done.add(path)
        target = PAGES / place_of(path)
        target.parent.mkdir(parents=True, exist_ok=True)
        if path.endswith(".md") or (ROOT / path).is_dir():
            text, found = _with_links(path, _text(path))
            target.write_text(text, "utf-8")
            waiting += found
        else:
            shutil.copyfile(ROOT / path, target)


def _text(path: str) -> str:
    """Return a page; of a directory, the list of its files."""
    file = ROOT / path
    if not file.is_dir():
        return file.read_text("utf-8")
    names = sorted(each.name for each in file.iterdir() if each.is_file())
    return f"# {path}\n\n" + "".join(f"- [{name}]({name})\n" for name in names)


def _with_links(path: str, text: str) -> tuple[str, list[str]]:
    found: list[str] = []
    place = PurePosixPath(place_of(path))
    folder = path if (ROOT / path).is_dir() else str(PurePosixPath(path).parent)

    def moved(match: re.Match[str]) -> str:
        file, sharp, anchor = (match[2] or "").partition("#")
        if not file or re.match(r"\w+:", file):
            return match[0]
        aim = os.path.normpath(f"{folder}/{file}")
        if (ROOT / aim / "README.md").exists():
            aim += "/README.md"
        found.append(aim)
        return f"{match[1]}({os.path.relpath(place_of(aim), place.parent)}{sharp}{anchor})"

    return LINK.sub(moved, text), found


def _entries(pages: list[tuple[str, str]]) -> Iterator[str]:
    for title, path in pages:
        shown = (title[0].upper() + title[1:]).replace("`", "").replace('"', "'")
        yield f'{{"{shown}" = "{place_of(path)}"}}'


def main() -> int:
    """Build the site, strictly."""
    shutil.rmtree(PAGES, ignore_errors=True)
    copy_pages()
    books = [
        f'{{"{name}" = [{", ".join(_entries(of))}]}}' for name, of in read_navigation().items()
    ]
    nav = f'[{{"Home" = "index.md"}}, {", ".join(books)}]'
    config = BUILD / "site.toml"
    config.write_text(CONFIG.format(nav=nav), "utf-8")
    command = [str(Path(sys.executable).parent / "zensical"), "build", "--clean", "--strict"]
    return subprocess.run([*command, "-f", str(config)], cwd=BUILD, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
