"""The proof of one entry: the verifier's, for one entry alone.

What it is: `prove` reads an entry's files, asks the source about what is in none of them, and
lets the verifier's judge speak.
What it promises: reads only. What the source could not answer is distinguished from what it does
not have: the entry waits then.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from ashore.errors import StorageError
from ashore.proof.audit.judge import Observation, state_file
from ashore.proof.evidence.ledger import Ledger, LoggedFile, Part
from ashore.proof.evidence.packing import Packed
from ashore.proof.evidence.result import Findings, Progress, quiet
from ashore.proof.evidence.second_reading import Answer, Answers, read_again
from ashore.proof.evidence.stored_files import Visible, look_at_files
from ashore.proof.verify.offset_evidence import Evidence
from ashore.proof.verify.verdict import Judge, plan_again, total
from ashore.storage.base import Storage
from ashore.topics.read.source import Source


@dataclass(slots=True)
class Claim:
    """What an entry says that it has landed."""

    slice: str
    entry: int
    parts: Packed[Part] = field(default_factory=Packed)
    files: Packed[LoggedFile] = field(default_factory=Packed)
    size_bytes: int = 0  # what there is to read

    def __str__(self) -> str:
        """Return `main/7`."""
        return f"{self.slice}/{self.entry}"

    def add(self, files: Sequence[LoggedFile]) -> None:
        """Add files that it lists."""
        self.files.add(files)
        self.size_bytes += sum(file.file.size_bytes for file in files)


@dataclass(frozen=True, slots=True)
class Proof:
    """What became of a claim."""

    entry: Observation
    files: dict[str, Observation]  # by final path
    is_waiting: bool  # for the source

    @property
    def is_sound(self) -> bool:
        """Whether nothing is wrong."""
        return not (self.entry.problems or any(each.problems for each in self.files.values()))


def prove(
    storage: Storage, source: Source | None, ledger: Ledger, progress: Progress = quiet
) -> Proof:
    """Prove what `ledger` claims, which is one entry's. Raises StorageError.

    Without a source, what needs it stays unproven.
    """
    evidence = Evidence(ledger)
    files: dict[str, Observation] = {}
    for file, look in look_at_files(storage, ledger, Visible(), None, progress):
        if look.failed is not None:
            raise StorageError(look.failed)
        for _ in evidence.take(file, look):
            pass  # what is wrong with the file, `state_file` says too
        files[file.final] = state_file(file, look, is_counted=True)
    unproven = plan_again(ledger, evidence, None)
    if source is None:
        answers = Answers(
            {each.key: Answer(0, each.missing.size, ()) for each in unproven},
            (),
            frozenset(each.key.shard for each in unproven),
        )
    else:
        answers = read_again(source, unproven, ledger.generations, progress)
    findings = Findings()
    tally = total(Judge(ledger, None, findings, {}).judge(evidence, answers, ()))
    is_waiting = any(each.key.shard in answers.failed for each in unproven)
    unaccounted = tally.lost + tally.duplicated + (tally.unprovable if is_waiting else 0)
    unprovable = 0 if is_waiting else tally.unprovable
    return Proof(Observation(findings.named(), unaccounted, unprovable), files, is_waiting)


def claim_only(ledger: Ledger, parts: list[Part], files: list[LoggedFile]) -> Ledger:
    """Return a ledger that claims nothing but these."""
    return replace(
        ledger,
        parts=tuple(parts),
        files=tuple(files),
        excused_files=(),
        skipped=(),
        batches=(),
        problems=(),
    )
