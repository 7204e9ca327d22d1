"""The page on which a job file is written: propose, check, preview, save."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from fastapi import APIRouter, Request
from fastapi.responses import Response

from ashore.base.clock import SystemClock
from ashore.errors import AshoreError, JobFileInvalid, RequestInvalid
from ashore.fleet.access.guard import Admits, form_of, require_operate, visitor_of
from ashore.fleet.access.permissions import note_caller
from ashore.fleet.access.tokens import UserRole
from ashore.fleet.records.job_files import check_name
from ashore.fleet.records.server_files import is_name
from ashore.fleet.server.pages.frame import PageFrame
from ashore.fleet.server.pages.job_text import check_size, read_masked
from ashore.jobs.file import Job, parse_job
from ashore.jobs.file.masking import restore_secrets
from ashore.topics.loop.job import columns_of
from ashore.topics.open_job import SOURCE_TIMEOUT_S
from ashore.topics.read.lazy import open_later
from ashore.topics.use.preview import TopicPreview, preview_job
from ashore.topics.use.propose import propose_table, sample_topic
from ashore.topics.use.proposed_file import JobProposal, job_text, table_names

PROBLEMS_MAX = 100  # who mends these may ask again
MESSAGE_MAX = 2_000


@dataclass(frozen=True, slots=True)
class DraftProblem:
    """Something wrong with a job file. Line 0: with it as a whole."""

    line: int
    column: int
    key: str
    message: str
    instead: str


@dataclass(frozen=True, slots=True)
class CheckedDraft:
    """A job file as it is typed: the job, or what is wrong. `more`: problems not listed."""

    job: Job | None
    problems: tuple[DraftProblem, ...]
    more: int = 0


def check_draft(name: str, text: str) -> CheckedDraft:
    """Return what is wrong with the text of a job file. `name`: it is to be saved under."""
    if not is_name(name):
        problem = f"{name[:100]!r} is not a name for a job file"
        instead = "letters, digits, `-`, `_` and `.`, at most 100"
        return CheckedDraft(None, (DraftProblem(0, 0, "", problem, instead),))
    try:
        job = parse_job(text, path=f"{name}.yaml", check_schema=columns_of)
        check_name(name, job)
    except JobFileInvalid as error:
        listed = error.fields.get("problems")
        found = listed if isinstance(listed, Sequence) else ()
        lines = text.splitlines()
        problems = tuple(_problem(each, lines) for each in found[:PROBLEMS_MAX])
        whole = DraftProblem(0, 0, "", error.message[:MESSAGE_MAX], error.hint)
        return CheckedDraft(None, problems or (whole,), max(0, len(found) - PROBLEMS_MAX))
    return CheckedDraft(job, ())


def _problem(found: Mapping[str, object], lines: Sequence[str]) -> DraftProblem:
    line, key = int(str(found["line"])), str(found["key"])
    text = lines[line - 1] if 0 < line <= len(lines) else ""
    leaf = key.rpartition(".")[2].partition("[")[0]
    column = text.find(leaf) + 1 if leaf else 0
    start = len(text) - len(text.lstrip()) + 1
    return DraftProblem(line, column or start, key, str(found["message"]), str(found["instead"]))


SAMPLED = 100  # records of each topic partition
SAMPLING_S = 25.0  # reading records takes longer than looking
FIELDS: Mapping[str, str] = {
    "servers": "127.0.0.1:9092",
    "topics": "",
    "lake": "",
    "database": "ods",
    "name": "",
}


def write_routes(frame: PageFrame) -> APIRouter:
    """Return the page to write a job."""
    router = frame.router(Admits.READERS)  # a form may be a check, which changes nothing
    jobs = frame.guard.jobs

    @router.get("/ui/write")
    async def write(request: Request, job: str = "") -> Response:
        text, fields = "", dict(FIELDS)
        if job:
            jobs.require(visitor_of(request).caller, job, UserRole.READ)
            text = (await frame.check(read_masked, frame.job(job).path)).text
            fields["name"] = job
        return _page(request, frame, fields, text=text)

    @router.post("/ui/write")
    async def act(request: Request) -> Response:
        form, caller = form_of(request), visitor_of(request).caller
        fields = {name: form.get(name, "").strip() for name in FIELDS}
        text, wish = form.get("text", "").replace("\r\n", "\n"), form.get("do", "")
        if wish != "check":
            require_operate(request)
        shown: dict[str, object] = {}
        try:
            check_size(text, "the text")
            if wish == "propose":
                fields["name"] = fields["name"] or _first_topic(fields)
                text = await frame.wait(partial(_propose, fields), SAMPLING_S)
            whole = text  # who may only read gets no secret into it: an error would show it
            if jobs.may_operate(caller, fields["name"]):
                whole = restore_secrets(text, await _kept(frame, fields["name"]))
            checked = await frame.check(check_draft, fields["name"], whole)
            shown["checked"] = checked
            if wish == "preview" and checked.job is not None:
                shown["previews"] = await frame.wait(partial(_preview, checked), SAMPLING_S)
            if wish == "save" and checked.job is not None:
                await frame.wait(partial(frame.plane.deploy, fields["name"], whole, caller))
                grant = jobs.role_on(caller, fields["name"])
                note_caller(request.scope, caller, is_change=True, grant=grant)
                shown["saved"] = f"{fields['name']}.yaml"
        except AshoreError as error:
            shown["error"] = error
        return _page(request, frame, fields, text=text, **shown)

    return router


async def _kept(frame: PageFrame, name: str) -> Mapping[str, str]:
    """Return the secrets of a job that there is; one whose file is gone has none."""
    known = frame.plane.job(name)
    if known is None or not known.path.exists():
        return {}
    return (await frame.check(read_masked, known.path)).kept


def _page(
    request: Request, frame: PageFrame, fields: Mapping[str, str], **shown: object
) -> Response:
    values = {"checked": None, "previews": (), "error": None, "saved": "", **shown}
    may_read = frame.guard.jobs.readable(visitor_of(request).caller)
    views = [each.supervised for each in frame.plane.jobs() if may_read(each.name)]
    jobs = [each.file.job for each in views if each and each.file and each.file.job]
    values["brokers"] = sorted({str(each.source.kafka.bootstrap_servers) for each in jobs})
    values["lakes"] = sorted({str(each.lake) for each in jobs})
    return frame.show(request, "write.html", fields=fields, at="Write a job", **values)


def _first_topic(fields: Mapping[str, str]) -> str:
    names = table_names([fields["topics"].split(",")[0].strip()], "ods")
    return next(iter(names.values())).partition(".")[2]


def _propose(fields: Mapping[str, str]) -> str:
    """Return a job file for topics. Raises SourceError, JobFileInvalid."""
    topics = [each.strip() for each in fields["topics"].split(",") if each.strip()]
    if not topics or not fields["servers"]:
        raise RequestInvalid(
            "a proposal needs brokers and topics", hint="fill in both; topics with commas"
        )
    now_ms = SystemClock().now_ms()
    tables = table_names(topics, fields["database"] or "ods")
    source = open_later(fields["servers"], {}, SOURCE_TIMEOUT_S)
    try:
        found = tuple(
            propose_table(sample_topic(source, topic, SAMPLED), table, now_ms)
            for topic, table in tables.items()
        )
    finally:
        source.close()
    lake = fields["lake"] or "file:///tmp/lake"
    return job_text(JobProposal(fields["name"], lake, fields["servers"], {}, found))


def _preview(checked: CheckedDraft) -> tuple[TopicPreview, ...]:
    job = checked.job
    if job is None:
        return ()
    kafka = job.source.kafka
    source = open_later(kafka.bootstrap_servers, dict(kafka.options), SOURCE_TIMEOUT_S)
    try:
        return preview_job(job, source, SystemClock())
    finally:
        source.close()
