"""Where requests may point to: directories that a server is confined to.

What it promises: a path is looked at as the system would resolve it, links and `..` too. A server
without roots of its own allows the directory of job files, and the lakes of those that are there.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote, urlsplit

from ashore.errors import PathNotAllowed
from ashore.jobs.file import Job


@dataclass(frozen=True, slots=True)
class Roots:
    """What a server is confined to.

    Arguments:
        base: what relative paths are relative to: the directory of job files.
        configured: directories and URIs.
        closed: directories that no request may name, wherever they are: the server's state.

    """

    base: Path
    configured: tuple[str, ...] = ()
    closed: tuple[Path, ...] = ()

    def confine(self, text: str, lakes: Iterable[str] = ()) -> str:
        """Return a path or URI as it may be used. Raises PathNotAllowed.

        `lakes`: of the job files that are there, whose places are allowed as well.
        """
        resolved = self._resolve(text)
        if any(_is_below(resolved, self._resolve(str(each))) for each in self.closed):
            raise PathNotAllowed(
                f"{text[:200]!r} is in the directory where the server keeps its state",
                hint="name another directory: tokens and results of operations are there",
            )
        allowed = [self._resolve(each) for each in (str(self.base), *self.configured, *lakes)]
        if any(_is_below(resolved, each) for each in allowed):
            return resolved
        raise PathNotAllowed(
            f"{text[:200]!r} is outside the directories that this server is confined to",
            hint="start the server with --root DIR for each directory that requests may name",
        )

    def check_job(self, job: Job, lakes: Iterable[str]) -> None:
        """Check the places that a job file names. Raises PathNotAllowed."""
        known = list(lakes)
        named = [job.lake.reveal()]
        if job.sql is not None:
            files = (job.sql.file, job.sql.functions)
            named += [each for each in files if each is not None]
            named += [job.sql.checkpoints.reveal()] if job.sql.checkpoints is not None else []
        if job.metrics is not None and job.metrics.file is not None:
            named.append(job.metrics.file)
        for each in named:
            self.confine(each, known)

    def _resolve(self, text: str) -> str:
        """Return a local path without links and `..`; a URI with its path so."""
        parts = urlsplit(text)
        if "\0" in text:
            raise PathNotAllowed("a path holds a zero byte")
        if len(parts.scheme) > 1 and parts.scheme != "file":
            if ".." in unquote(parts.path).split("/"):
                raise PathNotAllowed(f"{text[:200]!r} holds `..`")
            return f"{parts.scheme}://{parts.netloc}{parts.path}".rstrip("/")
        path = unquote(parts.path) if parts.scheme == "file" else text
        try:
            return str((self.base / path).resolve())
        except (OSError, RuntimeError, ValueError) as error:
            raise PathNotAllowed(f"{text[:200]!r} cannot be resolved: {error}") from None


def _is_below(path: str, directory: str) -> bool:
    return path == directory or path.startswith(directory.rstrip("/") + "/")
