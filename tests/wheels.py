"""The wheel, installed as a user has it: outside the checkout, beside what it says it needs.

A venv gets the wheel's files, and links to those installed packages that the wheel's requirements
lead to. So nothing is downloaded, and what the wheel forgets to require is missing.
"""

import os
import subprocess
import sys
import venv
import zipfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from importlib.metadata import Distribution, distribution
from pathlib import Path

from packaging.requirements import Requirement

ROOT = Path(__file__).resolve().parents[1]
# What an installer makes of the entry point.
SCRIPT = """
from importlib.metadata import entry_points
(ashore,) = entry_points(group="console_scripts", name="ashore")
ashore.load()()
"""


@dataclass(frozen=True, slots=True)
class Installed:
    """A venv with the wheel. Commands see nothing of the checkout that tests run in."""

    home: Path

    def run(self, *arguments: object, timeout_s: float = 120) -> subprocess.CompletedProcess[str]:
        """Run `ashore` to its end."""
        return self.python("-c", SCRIPT, *arguments, timeout_s=timeout_s)

    def python(
        self, *arguments: object, timeout_s: float = 120
    ) -> subprocess.CompletedProcess[str]:
        """Run the venv's Python to its end."""
        command = [self.home / "bin" / "python", *map(str, arguments)]
        environment = {
            "PATH": os.environ["PATH"],
            "HOME": os.environ["HOME"],  # the cache of jars is there
            "ASHORE_HOME": str(self.home / "state"),
            **{
                name: os.environ[name]
                for name in ("JAVA_HOME", "ASHORE_CACHE")
                if name in os.environ
            },
        }
        return subprocess.run(
            command,
            cwd=self.home,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=timeout_s,
        )


def build_wheel(directory: Path, project: Path = ROOT) -> Path:
    """Build the wheel of a project as `pip wheel` does, without its isolation."""
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(directory)]
    subprocess.run(command, cwd=project, check=True, capture_output=True, timeout=120)
    (wheel,) = directory.glob("*.whl")
    return wheel


def install(wheel: Path, home: Path, *extras: str, lab: Path | None = None) -> Installed:
    """Make a venv with the wheel, with what it requires with these extras, and with the lab's."""
    venv.create(home, with_pip=False, symlinks=True)
    (packages,) = (home / "lib").glob("python*/site-packages")
    for each in (wheel, *([lab] if lab else [])):
        with zipfile.ZipFile(each) as archive:
            archive.extractall(packages)
    (own,) = packages.glob("ashore-*.dist-info")
    requirements = [Requirement(line) for line in Distribution.at(own).requires or ()]
    for name in sorted(_needed(requirements, extras)):
        _link(distribution(name), packages)
    return Installed(home)


def _needed(requirements: Iterable[Requirement], extras: Iterable[str]) -> set[str]:
    """Return the names of all packages that requirements lead to."""
    needed: set[str] = set()
    waiting = list(_that_apply(requirements, extras))
    while waiting:
        each = waiting.pop()
        if each.name not in needed:
            needed.add(each.name)
            theirs = [Requirement(line) for line in distribution(each.name).requires or ()]
            waiting += _that_apply(theirs, each.extras)
    return needed


def _that_apply(
    requirements: Iterable[Requirement], extras: Iterable[str]
) -> Iterator[Requirement]:
    for each in requirements:
        marker = each.marker
        if marker is None or any(marker.evaluate({"extra": extra}) for extra in ("", *extras)):
            yield each


def _link(package: Distribution, packages: Path) -> None:
    tops = {file.parts[0] for file in package.files or ()} - {"..", "__pycache__"}
    for top in tops:
        target = packages / top
        if not target.exists():
            target.symlink_to(Path(str(package.locate_file(top))))
