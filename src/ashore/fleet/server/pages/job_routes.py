"""The addresses of the pages of one job."""

from functools import partial
from typing import Annotated
from urllib.parse import quote

from fastapi import APIRouter, Query, Request
from fastapi.responses import RedirectResponse, Response

from ashore.base.recent import Recent
from ashore.errors import AshoreError, RequestInvalid
from ashore.fleet.access.guard import asker_of
from ashore.fleet.records.history import read_history
from ashore.fleet.server.pages.frame import PageFrame
from ashore.fleet.server.pages.job_text import read_job_texts
from ashore.fleet.server.pages.job_view import OVER_MS, view_job
from ashore.fleet.server.pages.log_view import page_of, view_entry, view_log
from ashore.fleet.server.pages.output_view import read_output
from ashore.fleet.server.pages.render import HEADERS
from ashore.fleet.server.pages.supervision import VERBS
from ashore.fleet.server.pages.versions_svg import view_diff
from ashore.log.entries import Entry
from ashore.log.names import SliceName
from ashore.log.store.reader import list_log
from ashore.log.store.walk import RecentBatch, read_batches, read_window
from ashore.proof.evidence.dead_letters import read_dead_letters
from ashore.proof.status.query_versions import compare, list_versions
from ashore.proof.trace import FileHistory, trace_in_lake
from ashore.topics.loop.job import lake_of
from ashore.topics.open_job import OpenJob

BATCHES = 20
READ_MAX = 256  # jobs whose last batches are kept
Batches = dict[str, tuple[RecentBatch, ...]]


def job_routes(frame: PageFrame) -> APIRouter:
    """Return the pages of a job."""
    router, recent = frame.router(), _RecentBatches(frame)

    @router.get("/ui/jobs/{name}")
    async def job(request: Request, name: str, over: str = "hour") -> Response:
        live, seen = frame.live(name), frame.job(name)
        batches: Batches = {}
        problem = ""
        if seen.row.status is not None and seen.row.status.slices:
            try:
                batches = await recent.read(name, str(live["stamp"]))
            except AshoreError as error:
                problem = f"The last batches are not shown: {error.message}. {error.hint}"
        over = over if over in OVER_MS else "hour"
        path, since_ms = frame.plane.run_files(name).history, seen.seen_ms - OVER_MS[over]
        samples = await frame.wait(partial(read_history, path, since_ms))
        values = {**view_job(seen, batches, samples, over, problem), "tab": "Overview", **live}
        return frame.show(request, "job.html", name=name, at="Jobs", **values)

    @router.get("/ui/jobs/{name}/log")
    async def log(request: Request, name: str, part: str = "", to: str = "") -> Response:
        live = frame.live(name)
        newest = int(to) if to.isdecimal() and len(to) < 12 else None
        view = await frame.look(name, partial(_read_log, part, newest))
        shown = {**view, "tab": "Landing log", **live}
        return frame.show(request, "log.html", name=name, at="Jobs", **shown)

    @router.get("/ui/jobs/{name}/output")
    async def output(request: Request, name: str) -> Response:
        live, path = frame.live(frame.job(name).name), frame.plane.run_files(name).log
        lines = await frame.wait(partial(read_output, path))
        shown = {"lines": lines, "path": path, "tab": "Process log", **live}
        return frame.show(request, "output.html", name=name, at="Jobs", **shown)

    @router.get("/ui/jobs/{name}/job-file")
    async def job_file(request: Request, name: str) -> Response:
        texts = await frame.check(read_job_texts, frame.job(name).path)
        shown = {"texts": texts, "tab": "Job file", "at": "Jobs"}
        return frame.show(request, "job_file.html", name=name, **shown)

    @router.get("/ui/jobs/{name}/log/{part}/{number}")
    async def entry(request: Request, name: str, part: str, number: int) -> Response:
        part_name, found, end = await frame.look(name, partial(_read_entry, part, number))
        shown = {**view_entry(part_name, found), "end": end, "tab": "Landing log"}
        return frame.show(request, "entry.html", name=name, at="Jobs", **shown)

    @router.get("/ui/jobs/{name}/dead-letters")
    async def dead_letters(request: Request, name: str) -> Response:
        found = await frame.look(name, read_dead_letters)
        shown = {"found": found, "tab": "Dead letters", "at": "Jobs"}
        return frame.show(request, "dead_letters.html", name=name, **shown)

    _add_looks(frame, router)
    _add_verbs(frame, router)
    return router


class _RecentBatches:
    """The last batches of jobs, read once for what a job is at. Used on the event loop."""

    def __init__(self, frame: PageFrame) -> None:
        self._frame = frame
        self._read = Recent[str, tuple[str, Batches]](READ_MAX)

    async def read(self, name: str, stamp: str) -> Batches:
        """Return the batches of each slice. Raises AshoreError."""
        known = self._read.get(name)
        if known is None or known[0] != stamp:
            known = self._read.put(name, (stamp, await self._frame.look(name, _read_batches)))
        return known[1]


def _add_looks(frame: PageFrame, router: APIRouter) -> None:
    @router.get("/ui/jobs/{name}/versions")
    async def versions(
        request: Request, name: str, query: str = "", before: int = 0, after: int = 0
    ) -> Response:
        read = partial(_read_versions, (query or None, before or None, after or None))
        shown = {**await frame.look(name, read), "tab": "Versions", "at": "Jobs"}
        return frame.show(request, "versions.html", name=name, **shown)

    @router.get("/ui/jobs/{name}/file")
    async def file(
        request: Request, name: str, path: str = "", since: Annotated[int, Query(ge=0)] = 0
    ) -> Response:
        found = None
        if path:
            found = await frame.look(name, partial(_trace, path, since))
        shown = {"found": found, "path": path, "tab": "Landing log", "at": "Jobs"}
        return frame.show(request, "file.html", name=name, **shown)


def _add_verbs(frame: PageFrame, router: APIRouter) -> None:
    @router.get("/ui/jobs/{name}/do/{verb}")
    async def ask(request: Request, name: str, verb: str) -> Response:
        frame.job(name)
        if verb not in VERBS:
            raise RequestInvalid(f"{verb} is not a verb", hint=f"there is {', '.join(VERBS)}")
        shown = {"verb": verb, "meaning": VERBS[verb], "tab": "", "at": "Jobs"}
        return frame.show(request, "verb.html", name=name, **shown)

    @router.post("/ui/jobs/{name}/do/{verb}")
    async def act(request: Request, name: str, verb: str) -> Response:
        await frame.wait(partial(frame.plane.act, name, verb, asker_of(request)))
        target = "/ui/jobs" if verb == "remove" else f"/ui/jobs/{quote(name)}"
        return RedirectResponse(target, 303, HEADERS)


def _read_versions(
    chosen: tuple[str | None, int | None, int | None], opened: OpenJob
) -> dict[str, object]:
    """Return all versions; compared are those that are asked for, else the last two of one."""
    query, before, after = chosen
    queries = list_versions(opened)
    if query is None:
        query = next((each.query for each in queries if len(each.versions) > 1), None)
    shown: dict[str, object] = {"queries": queries, "compared": None}
    return shown if query is None else shown | view_diff(compare(opened, before, after, query))


def _trace(path: str, since: int, opened: OpenJob) -> FileHistory:
    lake = lake_of(opened.job).uri
    return trace_in_lake(opened.storage, lake, opened.job.job, path, since)


def _read_batches(opened: OpenJob) -> Batches:
    return {each.slice: read_batches(opened.storage, each, BATCHES) for each in opened.slices}


def _find_slice(opened: OpenJob, part: str) -> tuple[SliceName, list[SliceName]]:
    slices = opened.slices
    if not slices:
        raise AshoreError(
            f"job {opened.job.job} has no landing log yet",
            hint="a job writes one when it has started: load this page again then",
        )
    for each in slices:
        if each.slice == (part or slices[0].slice):
            return each, slices
    names = ", ".join(each.slice for each in slices)
    raise AshoreError(f"job {opened.job.job} has no slice {part}", hint=f"there is {names}")


def _read_log(part: str, newest: int | None, opened: OpenJob) -> dict[str, object]:
    name, slices = _find_slice(opened, part)
    end = list_log(opened.storage, name).latest
    start, stop = page_of(end, newest)
    entries = read_window(opened.storage, name, start - 1, stop)
    return {"slices": slices, **view_log(name, entries, end)}


def _read_entry(part: str, number: int, opened: OpenJob) -> tuple[SliceName, Entry, int]:
    name, _ = _find_slice(opened, part)
    end = list_log(opened.storage, name).latest
    found = read_window(opened.storage, name, number, number + 1)
    if not found:
        raise AshoreError(
            f"the log of {name} has no entry {number}", hint=f"it has entries 0 to {end}"
        )
    return name, found[0], end
