"""The command `ashore checkpoint doctor`.

What it promises: without `--to` or `--repair`, and with `--explain`, nothing is changed, and no JVM
is started.
"""

from collections.abc import Iterator
from typing import Annotated

import typer

from ashore.base.clock import SystemClock
from ashore.cli.options import AsJson, Debug, Explain, Query, TakeOver, Where
from ashore.cli.output import CommandAnswer, print_answer, reported_errors, shown_progress
from ashore.errors import ExitCode
from ashore.queries.tools import doctor
from ashore.queries.tools.doctor import DoctorAsked, Examined, Repaired

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
    request = DoctorAsked(where, query, to, sources, brokers, take_over, deep, not no_trial)
    clock = SystemClock()
    with reported_errors(as_json=as_json, debug=debug):
        if undo and (repair or to is not None or explain):
            raise typer.BadParameter("--undo goes with no other action")
        if undo:
            batch = doctor.undo(request)
            line = f"the query continues with its former checkpoint, at batch {batch}"
            print_answer([line], {"batch": batch, "done": True}, as_json=as_json)
            return
        if explain or not (repair or to is not None):
            examined = doctor.examine(request, clock)
            document = {**examined.to_dict(), "done": False}
            print_answer(_describe(examined), document, as_json=as_json)
            _answer(examined)
            return
        with shown_progress(quiet=as_json) as progress:
            found = doctor.repair(
                request, clock, lambda done, all_: progress("copying", done, all_)
            )
        match found:
            case Examined():
                document = {**found.to_dict(), "done": False}
                print_answer(_describe(found), document, as_json=as_json)
                _answer(found)
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


def _answer(found: Examined) -> None:
    if found.findings:
        raise CommandAnswer(ExitCode.DECISION, "findings")
    _require_proven(found)


def _require_proven(found: Examined) -> None:
    if found.seen.unproven:
        raise CommandAnswer(ExitCode.UNPROVEN, "not all checked")


def _describe(found: Examined) -> Iterator[str]:
    for each in found.findings:
        yield f"{each.code}: {each.sentence}"
        yield f"  repair: {each.repair}"
    looked, count = found.seen.looked, len(found.findings)
    yield (
        f"{found.place}: {count} finding{'s' * (count != 1)}; looked at {looked.files:,} files: "
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
