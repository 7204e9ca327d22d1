"""The commands of `ashore checkpoint`.

What it promises: no JVM is started, but by `rescale`, `diff` and `inspect --rows`; with `--explain`
nothing is changed. `doctor` changes nothing without `--to` or `--repair`.
"""

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape

from ashore.base.clock import SystemClock
from ashore.base.units import format_count, format_duration, format_size
from ashore.cli import savepoint_view
from ashore.cli.checkpoint_inspect import checkpoint_diff, checkpoint_inspect
from ashore.cli.options import AsJson, Batch, Debug, Explain, Query, TakeOver, Where, new_group
from ashore.cli.output import (
    CommandAnswer,
    print_answer,
    print_json,
    print_lines,
    print_table,
    reported_errors,
    say,
    shown_progress,
)
from ashore.errors import ExitCode
from ashore.log.progress import StateWork
from ashore.queries.state.savepoints.save import open_shelf
from ashore.queries.tools import doctor, savepoints
from ashore.queries.tools.addresses import find_checkpoint, is_job_file
from ashore.queries.tools.clean_checkpoint import OLDER_THAN, Cleaned, clean, parse_age
from ashore.queries.tools.doctor import DoctorOptions, Examined, Repaired

if TYPE_CHECKING:  # the commands beside this one do not load events
    from ashore.jobs.events import StateStep
    from ashore.queries.tools.rescale import RescaleResult, Undo

_WORK = {
    StateWork.COUNT: "counting the rows",
    StateWork.WRITE: "rewriting the rows",
    StateWork.COMPARE: "comparing the rows",
}


def checkpoint_rescale(  # noqa: PLR0913, PLR0917 - each parameter is an option of the command
    where: Where,
    partitions: Annotated[
        int | None, typer.Option(min=1, help="How many partitions the state is to have.")
    ] = None,
    to: Annotated[
        str | None,
        typer.Option(
            metavar="DIR",
            help="Where the new checkpoint goes: a directory that does not exist. Needed for a "
            "directory; a job continues with its new one by itself.",
        ),
    ] = None,
    query: Query = None,
    undo: Annotated[bool, typer.Option("--undo", help="Undo the last rescale of a job.")] = False,
    explain: Explain = False,
    take_over: TakeOver = False,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Give the state of a query another number of partitions. The original is only read."""
    with reported_errors(as_json=as_json, debug=debug):
        from ashore.queries.tools import rescale  # noqa: PLC0415 - loads what opens jobs

        if undo == (partitions is not None):
            raise typer.BadParameter("give either --partitions or --undo")
        request = rescale.RescaleOptions(where, query, to, explain, take_over, debug)
        if partitions is None:
            went = rescale.undo(request)
            counts = {"batch": went.batch, "from": went.from_partitions, "to": went.to_partitions}
            document = {**counts, "done": not explain}
            print_answer([_undone(went, is_done=not explain)], document, as_json=as_json)
            return
        found = rescale.rescale(request, partitions, SystemClock(), _report)
        print_answer(_lines(found), found.to_dict(), as_json=as_json)


def _report(step: "StateStep") -> None:
    say(f"{_WORK[step.work]} of operator {step.operator}, {step.stores}")


def _lines(found: "RescaleResult") -> list[str]:
    change = f"from {found.from_partitions:,} to {found.to_partitions:,} partitions"
    if not found.is_done:
        return [f"{found.path}: the state of batch {found.batch} would be rescaled {change}"]
    took = format_duration(1000 * found.took_s)
    return [
        f"rescaled {change} in {took}: {found.rows:,} rows, compared store by store",
        f"{found.path} is at batch {found.batch}; the previous checkpoint is unchanged",
    ]


def _undone(went: "Undo", *, is_done: bool) -> str:
    verb = "has" if is_done else "would have"
    return (
        f"the query {verb} {went.to_partitions:,} partitions again instead of "
        f"{went.from_partitions:,}, at batch {went.batch}"
    )


def checkpoint_clean(
    where: Where,
    query: Query = None,
    older_than: Annotated[
        str, typer.Option(help="Files that were modified since are kept.")
    ] = OLDER_THAN,
    explain: Explain = False,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Delete the files that no kept batch of a checkpoint refers to, or of a directory of many."""
    with reported_errors(as_json=as_json, debug=debug):
        age_ms = parse_age(older_than)
        found = clean(where, query, age_ms, SystemClock(), explain=explain)
        if as_json:
            print_json(cleaned_document(found, explain=explain))
        else:
            show_cleaned(found, explain=explain)


checkpoint = new_group("Checkpoints of queries: inspect, copy and restore them.")


SavepointPath = Annotated[
    str, typer.Argument(metavar="SAVEPOINT", help="A savepoint: its own directory.")
]
Copy = Annotated[
    bool,
    typer.Option(
        "--copy", help="Copy all files. Without it files of state on one disk get hard links."
    ),
]


checkpoint.command("inspect")(checkpoint_inspect)
checkpoint.command("diff")(checkpoint_diff)


@checkpoint.command("savepoint")
def checkpoint_savepoint(  # noqa: PLR0913, PLR0917 - each parameter is an option of the command
    where: Where,
    to: Annotated[
        str, typer.Option(metavar="DIR", help="The directory of savepoints: a path or hdfs://...")
    ],
    query: Query = None,
    batch: Batch = None,
    copy: Copy = False,
    shared: Annotated[
        bool,
        typer.Option(
            "--shared",
            help="Copy only what other shared savepoints there do not have, into a pool.",
        ),
    ] = False,
    explain: Explain = False,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Take a savepoint: a copy of what one batch needs. A job that runs is asked for it."""
    clock = SystemClock()
    with reported_errors(as_json=as_json, debug=debug):
        found = find_checkpoint(where, query, clock)
        if explain:
            shelf = open_shelf(to, clock, links=not copy, is_shared=shared)
            planned = savepoints.plan_savepoint(found, batch, shelf)
            print_answer(*savepoint_view.describe_plan(planned, to), as_json=as_json)
            return
        with shown_progress(quiet=as_json) as progress:
            shelf = open_shelf(to, clock, links=not copy, is_shared=shared)

            if batch is None and is_job_file(where):
                # What asks a job takes longer to import than a savepoint to be taken.
                from ashore.queries.tools.savepoint_request import SavepointOptions, save_query  # noqa: PLC0415 - as said above

                request = SavepointOptions(where, query, found, shelf)
                saved = save_query(
                    request, clock, partial(progress, "copying"), lambda line: say(escape(line))
                )
            else:
                saved = savepoints.take_savepoint(
                    found, batch, shelf, clock, partial(progress, "copying")
                )
        print_answer(*savepoint_view.describe_saved(saved), as_json=as_json)


@checkpoint.command("list")
def checkpoint_list(
    directory: Annotated[str, typer.Argument(metavar="DIR", help="The directory of savepoints.")],
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """List the savepoints in a directory, and those that were never finished."""
    with reported_errors(as_json=as_json, debug=debug):
        listed = savepoints.list_directory(directory, SystemClock())
        if as_json:
            print_json(savepoint_view.list_document(listed))
        else:
            savepoint_view.show_list(directory, listed)


@checkpoint.command("verify")
def checkpoint_verify(
    savepoint: SavepointPath, as_json: AsJson = False, debug: Debug = False
) -> None:
    """Read all files of a savepoint and compare them with its manifest."""
    with reported_errors(as_json=as_json, debug=debug):
        found = savepoints.find_savepoint(savepoint, SystemClock())
        with shown_progress(quiet=as_json) as progress:
            manifest, wrong = savepoints.verify_savepoint(found, partial(progress, "reading"))
        print_answer(*savepoint_view.describe_verified(manifest, wrong), as_json=as_json)
        if wrong:
            raise CommandAnswer(ExitCode.DECISION, "damaged")


@checkpoint.command("delete")
def checkpoint_delete(
    savepoint: SavepointPath,
    explain: Explain = False,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Delete a savepoint, also one that was never finished. What others need of it stays."""
    with reported_errors(as_json=as_json, debug=debug):
        found = savepoints.find_savepoint(savepoint, SystemClock())
        files = savepoints.count_files(found) if explain else savepoints.delete(found)
        verb = "would delete" if explain else "deleted"
        line = f"{verb} {format_count(files, 'file')} of {found.place}"
        print_answer(
            [line], {"path": found.place, "files": files, "done": not explain}, as_json=as_json
        )


@checkpoint.command("restore")
def checkpoint_restore(
    savepoint: SavepointPath,
    to: Annotated[
        str, typer.Option(metavar="DIR", help="The new checkpoint: a path or hdfs://...")
    ],
    copy: Copy = False,
    explain: Explain = False,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Create a checkpoint from a savepoint, in an empty directory; Spark can continue from it."""
    clock = SystemClock()
    with reported_errors(as_json=as_json, debug=debug):
        found = savepoints.find_savepoint(savepoint, clock)
        if explain:
            manifest = savepoints.plan_restore(found, to, clock)
            print_answer(*savepoint_view.describe_restore(manifest, to), as_json=as_json)
            return
        with shown_progress(quiet=as_json) as progress:
            restored = savepoints.restore_savepoint(
                found, to, clock, partial(progress, "copying"), links=not copy
            )
        print_answer(*savepoint_view.describe_restored(restored), as_json=as_json)


_To = Annotated[
    str | None,
    typer.Option(
        metavar="DIR", help="Write a repaired copy to this directory, which must not exist."
    ),
]
_Repair = Annotated[
    bool,
    typer.Option(
        "--repair", help="With a job file: repair into a copy with which the job continues."
    ),
]
_Brokers = Annotated[
    str | None,
    typer.Option(
        metavar="HOST:PORT", help="Of a directory: ask these brokers of Kafka for its topics."
    ),
]
_Deep = Annotated[
    bool,
    typer.Option(
        "--deep",
        help="Read the tables of RocksDB block by block, and list the files of file sources.",
    ),
]
_NoTrial = Annotated[
    bool, typer.Option("--no-trial", help="Do not let Spark load the copy before it counts.")
]


def checkpoint_doctor(  # noqa: PLR0913, PLR0917 - each parameter is an option of the command
    where: Where,
    to: _To = None,
    repair: _Repair = False,
    undo: Annotated[bool, typer.Option("--undo", help="Undo the last repair of a job.")] = False,
    query: Query = None,
    sources: Annotated[
        int | None, typer.Option(min=1, help="How many sources the query reads now.")
    ] = None,
    brokers: _Brokers = None,
    deep: _Deep = False,
    no_trial: _NoTrial = False,
    explain: Explain = False,
    take_over: TakeOver = False,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Find what is wrong with a checkpoint; repair it into a copy. The original is only read."""
    request = DoctorOptions(where, query, to, sources, brokers, take_over, deep, not no_trial)
    clock = SystemClock()
    with reported_errors(as_json=as_json, debug=debug):
        if undo and (repair or to is not None or explain):
            raise typer.BadParameter("--undo goes with no other action")
        if undo:
            batch = doctor.undo(request)
            line = f"the query continues with its former checkpoint, at batch {batch}"
            print_answer([line], {"batch": batch, "done": True}, as_json=as_json)
            return
        found: Examined | Repaired
        if explain or not (repair or to is not None):
            found = doctor.examine(request, clock)
        else:
            with shown_progress(quiet=as_json) as progress:
                found = doctor.repair(request, clock, partial(progress, "copying"))
        match found:
            case Examined():
                document = {**found.to_dict(), "done": False}
                print_answer(_describe_examined(found), document, as_json=as_json)
                if found.findings:
                    raise CommandAnswer(ExitCode.DECISION, "findings")
                _require_proven(found)
            case Repaired(examined, plan, place, trial):
                document = {
                    **examined.to_dict(),
                    "copy": place,
                    "batch": plan.batch,
                    "done": True,
                    "trial": trial.to_dict(),
                }
                print_answer(_describe_repaired(found), document, as_json=as_json)
                _require_proven(examined)
                if trial.is_left:
                    raise CommandAnswer(ExitCode.UNPROVEN, "not tried")


def _require_proven(found: Examined) -> None:
    if found.seen.unproven:
        raise CommandAnswer(ExitCode.UNPROVEN, "not all checked")


def _describe_examined(found: Examined) -> Iterator[str]:
    for each in found.findings:
        yield f"{each.code}: {each.sentence}"
        yield f"  repair: {each.repair}"
    looked, findings = found.seen.looked, format_count(len(found.findings), "finding")
    yield (
        f"{found.place}: {findings}; looked at {format_count(looked.files, 'file')}: "
        f"{looked.batches:,} of batches, {looked.texts:,} other texts, {looked.changes:,} changes, "
        f"{looked.snapshots:,} snapshots, {looked.tables:,} tables; {looked.checksums:,} compared "
        "with a checksum"
    )
    for text in found.not_looked:
        yield f"not looked at: {text}"


def _describe_repaired(found: Repaired) -> Iterator[str]:
    for each in found.examined.findings:
        yield f"{each.code}: {each.repair}"
    for text in found.examined.seen.unproven:
        yield f"not proven: {text}"
    yield found.trial.describe()
    yield f"{found.place} is at batch {found.plan.batch}; the previous checkpoint is unchanged"


checkpoint.command("rescale")(checkpoint_rescale)
checkpoint.command("clean")(checkpoint_clean)
checkpoint.command("doctor")(checkpoint_doctor)


def show_cleaned(found: Cleaned, *, explain: bool) -> None:
    """Print what was deleted, or would be."""
    rows = [
        [str(why), f"{each.files:,}", format_size(each.size_bytes)]
        for why, each in sorted(found.amounts.items())
    ]
    if rows:
        print_table("", {"not needed": "left", "count": "right", "size": "right"}, rows)
    print_lines(f"left alone: {each.path}: {each.why}" for each in found.left)
    total, count = found.total, len(found.checkpoints)
    verb = "would be deleted" if explain else "deleted"
    where = found.checkpoints[0] if count == 1 else f"{count} checkpoints"
    print_lines(
        [f"{where}: {format_count(total.files, 'file')} {verb}, {format_size(total.size_bytes)}"]
    )


def cleaned_document(found: Cleaned, *, explain: bool) -> dict[str, object]:
    """Return what `clean --json` prints."""
    total = found.total
    return {
        "files": total.files,
        "bytes": total.size_bytes,
        "checkpoints": found.checkpoints,
        "reasons": {
            why.name.lower(): {"count": each.files, "bytes": each.size_bytes}
            for why, each in sorted(found.amounts.items())
        },
        "left_alone": [{"path": each.path, "why": each.why} for each in found.left],
        "done": not explain,
    }
