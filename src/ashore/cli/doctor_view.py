"""What a diagnosis looks like, and what was done about it."""

from collections.abc import Sequence
from dataclasses import asdict

from rich.markup import escape

from ashore.cli.output import out, print_json
from ashore.errors import AshoreError, ExitCode
from ashore.proof.doctor.apply import Done, diagnose, treat
from ashore.proof.doctor.observe import FormerAt
from ashore.proof.doctor.repair_plan import Diagnosis, explain_repair
from ashore.topics.open_job import OpenJob

NOTHING = (
    "nothing to repair, judged by log, names and sizes; the content of files was not read: ashore "
    "verify JOB.yaml reads it"
)


def show_treatment(
    opened: OpenJob, at: FormerAt, *, applies: bool, takes_over: bool, as_json: bool
) -> int:
    """Diagnose a job, treat it where that is asked for, show it, and return the exit code."""
    found, done = Diagnosis((), (), ()), list[Done]()
    try:
        if applies:
            found = treat(opened, at, done.append, takes_over=takes_over)
        else:
            found = diagnose(opened, at)
    except AshoreError as error:  # how to undo what was done must not get lost
        error.fields["done"] = done_to_list(done)
        if not as_json:
            show_done(done)
        raise
    show(found, done, applies=applies, as_json=as_json)
    return exit_code(found)


def exit_code(found: Diagnosis) -> int:
    """Return the exit code: a decision is needed where something is left for a person."""
    return ExitCode.DECISION if found.refusals else ExitCode.DONE


def show(found: Diagnosis, done: Sequence[Done], *, applies: bool, as_json: bool) -> None:
    """Print a diagnosis, and the steps that were done.

    Arguments:
        found: what is left, where steps were done.
        done: these steps.
        applies: whether steps were to be done.
        as_json: one JSON document instead of lines.

    """
    if as_json:
        print_json(to_dict(found, done))
        return
    show_done(done)
    for step in found.steps:
        out.print(f"[bold]would[/] {escape(explain_repair(step))}")
    for refusal in found.refusals:
        out.print(f"[bold]not done[/] {escape(f'{refusal.subject}: {refusal.text}')}")
        out.print(f"     next: {escape(refusal.hint)}")
    for note in found.notes:
        out.print(f"note: {escape(note)}")
    if found.steps and not applies:
        out.print("nothing was changed; to do it, repeat the command with --apply")
    elif not found.steps and not found.refusals and not done:
        out.print(NOTHING)


def show_done(done: Sequence[Done]) -> None:
    """Print the steps that were done, and how each is undone."""
    for each in done:
        out.print(f"[bold]done[/] {escape(explain_repair(each.step))}")
        if each.undo:
            out.print(f"     to undo: {escape(each.undo)}")


def to_dict(found: Diagnosis, done: Sequence[Done]) -> dict[str, object]:
    """Return what `--json` prints."""
    return {
        "steps": [
            {"kind": type(each).__name__, "text": explain_repair(each)} for each in found.steps
        ],
        "done": done_to_list(done),
        "refusals": [asdict(each) for each in found.refusals],
        "notes": list(found.notes),
        "exit_code": exit_code(found),
    }


def done_to_list(done: Sequence[Done]) -> list[dict[str, str]]:
    """Return the steps that were done as `--json` prints them."""
    return [
        {"kind": type(each.step).__name__, "text": explain_repair(each.step), "undo": each.undo}
        for each in done
    ]
