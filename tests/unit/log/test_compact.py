"""`compact`: what an entry must follow, when it counts, and which files are put together."""

from collections.abc import Callable
from dataclasses import replace

import pytest
from tests.strategies import Chain, Part, key_of, target_of

from ashore.errors import LogDamaged
from ashore.log.entries import Commit, Compact, FilePart, ReplacedFile
from ashore.log.files import BatchPlace, DataFile, FileSpan, TableCommit, Target
from ashore.log.names import SliceName
from ashore.log.plan_clean import find_wanted
from ashore.log.plan_commit import NO_CATALOG, CommitTable, PublishBatch, plan_commit
from ashore.log.plan_compact import (
    CompactRule,
    ListedFile,
    compact_entry,
    leave_large,
    plan_groups,
    split_chunks,
)

NAME = SliceName("clicks", "main")
COMMIT = TableCommit("ods.clicks", "uuid", 0, 0, 7)
RULE = CompactRule(10_000, 2)


def landed(batches: int = 3) -> tuple[Chain, list[ListedFile]]:
    chain, files = Chain.started(), list[ListedFile]()
    for _ in range(batches):
        body = replace(chain.batch(Part(key_of(), 3, {8: 3})), commits=(COMMIT,))
        number = chain.fold.end + 1
        chain.add(body)
        place = BatchPlace(NAME, 1, body.batch)
        files += [
            ListedFile(
                place.place(file, target).final, target, file, (FilePart(number, key_of()),), COMMIT
            )
            for file in body.files
            for target in [body.targets[file.target]]
        ]
    chain.commit()
    return chain, files


def written(chain: Chain, files: list[ListedFile]) -> Compact:
    (group,) = plan_groups(files, RULE)
    file = chain.file(0, 0, FileSpan(0, 0, 1, group.rows))
    return compact_entry(chain.fold, 7, 8, [(group, file)])


def test_a_compaction_counts_once_it_is_closed() -> None:
    chain, files = landed()
    before = chain.fold.partitions[target_of().key]
    fold = chain.add(written(chain, files))
    assert fold.partitions[target_of().key] == before
    assert fold.commits["ods.clicks"].snapshot_id == 7
    fold = chain.commit()
    assert fold.partitions[target_of().key] == replace(before, files=1, entry=fold.end - 1)
    assert fold.commits["ods.clicks"].snapshot_id == 8


def test_an_abandoned_one_changes_nothing() -> None:
    chain, files = landed()
    before = chain.fold
    chain.add(written(chain, files))
    closing = replace(chain.closing(), abandoned="another writer was there")
    fold = chain.append(chain.draft(Commit("compact"), closing))
    assert (fold.partitions, fold.commits) == (before.partitions, before.commits)


def test_only_a_compaction_is_abandoned() -> None:
    chain, _ = landed()
    chain.prepare()
    closing = replace(chain.closing(), abandoned="no reason")
    with pytest.raises(LogDamaged, match="what is no compaction"):
        chain.append(chain.draft(Commit("idle"), closing))


def with_rows(body: Compact, rows: int) -> Compact:
    (file,) = body.files
    spans = (replace(file.spans[0], rows=rows, end=rows), *file.spans[1:])
    return replace(body, files=(replace(file, rows=file.rows - 3 + rows, spans=spans),))


@pytest.mark.parametrize(
    ("spoil", "reason"),
    [
        (lambda body: replace(body, batch=9), "batch 9, the last one is 2"),
        (lambda body: with_rows(body, 2), "the rows before and after differ"),
        (lambda body: with_rows(body, 4), "the rows before and after differ"),
        (lambda body: replace(body, replaced=body.replaced[:2]), "the rows before and after"),
        (lambda body: replace(body, replaced=body.replaced * 2), "a file twice"),
        (lambda body: replace(body, targets=(target_of(9),)), "before and after differ"),
        (
            lambda body: replace(body, commit=replace(body.commit, table="ods.orders")),
            "commits of tables without files",
        ),
        (lambda body: replace(body, parts=(FilePart(99, key_of()),) * 3), "rows of entry 99"),
        (lambda body: replace(body, parts=(FilePart(2, key_of(5)),) * 3), "never joined"),
        (lambda body: replace(body, parts=()), "a span has no shard"),
    ],
)
def test_one_that_does_not_follow_is_refused(
    spoil: Callable[[Compact], Compact], reason: str
) -> None:
    chain, files = landed()
    with pytest.raises(LogDamaged, match=reason):
        chain.add(spoil(written(chain, files)))


def test_its_steps_move_the_new_files_and_commit_one_snapshot() -> None:
    chain, files = landed()
    body = written(chain, files)
    chain.add(body)
    moves, commit, _ = plan_commit(NAME, chain.fold, NO_CATALOG)
    assert isinstance(moves, PublishBatch)
    assert [each.file for each in moves.places] == list(body.files)
    assert isinstance(commit, CommitTable)
    assert commit.replaced == {each.path for each in files}
    assert commit.is_whole
    assert find_wanted(chain.fold) == ({body.files[0].unique}, 3)
    (file,) = body.files
    (look, _) = plan_commit(NAME, chain.fold, NO_CATALOG, without=[file.unique])
    assert isinstance(look, CommitTable)
    assert not look.is_whole


# ---- which files are put together


def listed(number: int, size_bytes: int = 1_000, **changes: object) -> ListedFile:
    file = DataFile(0, 0, f"{number:016x}", 3, size_bytes, "", (FileSpan(0, 0, 3, 3),), None, None)
    part = FilePart(number, key_of())
    made = ListedFile(f"{target_of().directory}/{number}", target_of(), file, (part,), COMMIT)
    return replace(made, **changes)


def test_neighbours_fill_the_target_and_large_files_stay() -> None:
    files = [
        listed(number, size) for number, size in enumerate([4_000, 7_500, 4_000, 4_000, 4_000])
    ]
    groups = plan_groups(files, RULE)
    assert [[each.path[-1] for each in group.files] for group in groups] == [["0", "2"], ["3", "4"]]


def test_few_files_stay() -> None:
    assert plan_groups([listed(1), listed(2)], CompactRule(10_000, 3)) == ()
    assert plan_groups([listed(1)], RULE) == ()


@pytest.mark.parametrize(
    "changes",
    [
        {"target": target_of(9)},
        {"target": replace(target_of(), schema="id BIGINT, more STRING")},
        {"commit": replace(COMMIT, schema_id=1)},
        {"commit": replace(COMMIT, spec_id=1)},
        {"parts": (FilePart(2, key_of(generation=2)),)},
    ],
)
def test_files_that_differ_are_not_put_together(changes: dict[str, Target]) -> None:
    assert plan_groups([listed(1), listed(2, **changes)], RULE) == ()


def test_an_entry_has_files_of_one_schema() -> None:
    other = replace(COMMIT, schema_id=1)
    files = [listed(1), listed(2, commit=other), listed(3), listed(4, commit=other)]
    chunks = [*split_chunks(plan_groups(files, RULE))]
    assert [chunk[0].files[0].commit.schema_id for chunk in chunks] == [0, 1]


def test_a_file_that_is_compacted_again_keeps_its_offsets() -> None:
    chain, files = landed(2)
    body = written(chain, files)
    chain.add(body)
    chain.commit()
    (file,) = body.files
    assert [(span.shard, span.start, span.rows) for span in file.spans] == [(0, 0, 3), (1, 3, 3)]
    again = ListedFile("there", body.targets[0], file, body.parts, body.commit)
    more = listed(8, parts=(FilePart(5, key_of()),))
    (group,) = plan_groups([again, more], RULE)
    new = compact_entry(chain.fold, 8, 9, [(group, replace(file, unique="f" * 16))])
    assert [part.entry for part in new.parts] == [2, 3, 5]
    assert [span.shard for span in new.files[0].spans] == [0, 1, 2]
    assert ReplacedFile("there", 6, 1000, "0" * 16) in new.replaced


def of_sizes(*sizes: int) -> list[ListedFile]:
    _, files = landed(1)
    return [
        replace(files[0], path=f"{n}", file=replace(files[0].file, size_bytes=size))
        for n, size in enumerate(sizes)
    ]


@pytest.mark.parametrize(
    ("sizes", "left"),
    [
        ([], []),
        ([7], []),
        ([7, 7], [7, 7]),
        ([100, 3, 2, 1], [3, 2, 1]),
        ([6, 3, 2, 1], [6, 3, 2, 1]),
        ([5, 9], [5, 9]),
        ([103, 50, 1], []),
    ],
)
def test_a_file_much_larger_than_the_others_together_is_left(
    sizes: list[int], left: list[int]
) -> None:
    found = leave_large(of_sizes(*sizes))
    assert [each.file.size_bytes for each in found] == left


def test_a_row_is_written_anew_as_often_as_its_file_grows_by_half() -> None:
    sizes, rewritten, rule = list[int](), 0, CompactRule(10_240, 10)
    for _ in range(1_000):
        sizes += [1] * 10
        files = {each.path: each for each in of_sizes(*sizes)}
        for group in plan_groups(leave_large(files.values()), rule):
            for each in group.files:
                del files[each.path]
            rewritten += group.size_bytes
            files["new"] = replace(
                group.files[0], file=replace(group.files[0].file, size_bytes=group.size_bytes)
            )
        sizes = [each.file.size_bytes for each in files.values()]
    assert len(sizes) < 20
    assert rewritten < 10_000 * 20
