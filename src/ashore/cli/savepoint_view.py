"""What the commands for savepoints print: sentences and a table for people, a document as JSON.

What it promises: a view of a value: no clock, no storage.
"""

from collections.abc import Iterator, Mapping, Sequence

from ashore.base.units import format_size, format_time
from ashore.cli.output import print_lines, print_table
from ashore.errors import AshoreError
from ashore.queries.state.savepoints.manifest import Manifest, SavepointKind
from ashore.queries.state.savepoints.restore import Restored
from ashore.queries.state.savepoints.save import Saved
from ashore.queries.state.savepoints.store import FoundSavepoint
from ashore.queries.tools.savepoints import PlannedSavepoint

Answer = tuple[list[str], dict[str, object]]  # lines for people, the document of `--json`


def describe_plan(planned: PlannedSavepoint, to: str) -> Answer:
    """Return what `savepoint --explain` prints."""
    required = planned.required
    shared_bytes = sum(each.size_bytes for each in planned.shared)
    copied = len(required.files) - len(planned.shared)
    line = (
        f"would copy {copied:,} files, {format_size(required.size_bytes - shared_bytes)}, of batch "
        f"{required.batch} into {to}"
    )
    shared = _describe_shared(len(planned.shared), shared_bytes)
    counted = {"files": len(required.files), "bytes": required.size_bytes}
    parts = _count_shared(counted, len(planned.shared), shared_bytes)
    document = {"batch": required.batch, "kind": str(planned.kind), **counted, **parts}
    return [line, *shared], {**document, "done": False}


def describe_saved(saved: Saved) -> Answer:
    """Return what `savepoint` prints."""
    manifest, place = saved.manifest, saved.savepoint.place
    kind = "shared savepoint" if manifest.kind is SavepointKind.SHARED else "savepoint"
    line = (
        f"{kind} {place}: batch {manifest.batch}, {len(manifest.files):,} files, "
        f"{format_size(manifest.size_bytes)}, {saved.seconds:.1f} s"
    )
    shared = _describe_shared(len(saved.shared), saved.shared_bytes)
    document = {
        "path": place,
        "kind": str(manifest.kind),
        **_manifest(manifest, saved.linked, saved.seconds),
        **_count_shared(_counts(manifest), len(saved.shared), saved.shared_bytes),
    }
    return [line, *shared, *_describe_links(saved.linked, "the checkpoint")], document


def describe_restore(manifest: Manifest, to: str) -> Answer:
    """Return what `restore --explain` prints."""
    line = (
        f"would bring batch {manifest.batch} of query {manifest.query_id} to {to}: "
        f"{_amount(manifest)}"
    )
    return [line], {"path": to, "batch": manifest.batch, **_counts(manifest), "done": False}


def describe_restored(restored: Restored) -> Answer:
    """Return what `restore` prints."""
    manifest, place = restored.manifest, restored.checkpoint.uri.removeprefix("file://")
    line = (
        f"checkpoint {place}: batch {manifest.batch} of query {manifest.query_id}, "
        f"{_amount(manifest)}, {restored.seconds:.1f} s"
    )
    lines = [line, *_describe_links(restored.linked, "the savepoint")]
    return lines, {"path": place, **_manifest(manifest, restored.linked, restored.seconds)}


def describe_verified(manifest: Manifest, wrong: Sequence[AshoreError]) -> Answer:
    """Return what `verify` prints."""
    complete = f"batch {manifest.batch} is complete: {_amount(manifest)}"
    problems = [each.to_dict() for each in wrong]
    about = {"batch": manifest.batch, "kind": str(manifest.kind), **_counts(manifest)}
    return [each.message for each in wrong] or [complete], {**about, "problems": problems}


def show_list(directory: str, listed: Sequence[FoundSavepoint]) -> None:
    """Print the savepoints in a directory."""
    if not listed:
        print_lines([f"no savepoints in {directory}"])
        return
    rows = [
        [
            each.savepoint.place,
            str(each.manifest.batch) if each.manifest else "",
            each.manifest.kind if each.manifest else "",
            format_time(each.manifest.made_ms) if each.manifest else "",
            f"{len(each.manifest.files):,}" if each.manifest else "",
            format_size(each.manifest.size_bytes) if each.manifest else "incomplete",
        ]
        for each in listed
    ]
    columns = {
        "savepoint": "left",
        "batch": "right",
        "kind": "left",
        "taken": "left",
        "files": "right",
    }
    print_table("", {**columns, "size": "right"}, rows)


def list_document(listed: Sequence[FoundSavepoint]) -> dict[str, object]:
    """Return what `list --json` prints."""
    return {"savepoints": [_listed(each) for each in listed]}


def _listed(each: FoundSavepoint) -> dict[str, object]:
    if each.manifest is None:
        return {"path": each.savepoint.place, "complete": False, "problem": each.problem}
    return {
        "path": each.savepoint.place,
        "complete": True,
        "kind": str(each.manifest.kind),
        "query_id": each.manifest.query_id,
        "batch": each.manifest.batch,
        "made_ms": each.manifest.made_ms,
        "source": each.manifest.source,
        **_counts(each.manifest),
    }


def _amount(manifest: Manifest) -> str:
    return f"{len(manifest.files):,} files, {format_size(manifest.size_bytes)}"


def _counts(manifest: Manifest) -> dict[str, int]:
    return {"files": len(manifest.files), "bytes": manifest.size_bytes}


def _manifest(manifest: Manifest, linked: int, seconds: float) -> dict[str, object]:
    return {
        "query_id": manifest.query_id,
        "batch": manifest.batch,
        **_counts(manifest),
        "linked": linked,
        "seconds": round(seconds, 3),
    }


def _count_shared(counted: Mapping[str, int], files: int, size_bytes: int) -> dict[str, int]:
    """Return what was copied and what the pool had, of all files."""
    return {
        "copied_files": counted["files"] - files,
        "copied_bytes": counted["bytes"] - size_bytes,
        "shared_files": files,
        "shared_bytes": size_bytes,
    }


def _describe_shared(files: int, size_bytes: int) -> Iterator[str]:
    if files:
        yield f"{files:,} files, {format_size(size_bytes)}, are in the pool already"


def _describe_links(linked: int, other: str) -> Iterator[str]:
    if linked:
        yield (
            f"{linked:,} of them are hard links: {other} may be deleted, but a damaged disk "
            "block damages both; with --copy nothing is shared"
        )
