import gzip
import hashlib
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from bench.log_start import make_prepare
from tests.strategies import Chain
from tools.golden import DIRECTORY, build_golden

from ashore.base import codec
from ashore.errors import InvariantBroken
from ashore.log.entries import (
    KINDS,
    Closing,
    DeferredAction,
    Entry,
    EntryInvalid,
    EntryNewer,
    FailedTries,
    Joined,
    Prepare,
    Query,
    SealedPartition,
    ShardRead,
    read_checksummed,
    read_entry,
    write_checksummed,
)
from ashore.log.files import BatchPlace, DataFile, FileSpan, Target
from ashore.log.fold import Failing, PartitionState, ShardState
from ashore.log.names import ARCHIVE_ENTRIES, SliceName
from ashore.log.query import PlanState, QueryState
from ashore.log.snapshot import read_snapshot

GOLDEN = build_golden()
MORE = ("commit-failed", "retire-counted", "open-looks")
ENTRIES = [f"entry-{kind}.json" for kind in (*KINDS, *MORE)]
QUERY = ["query-prepare.json", "query-snapshot.json", "plan-snapshot.json", "version-snapshot.json"]
LEADERS = [f"leader-{name}.json" for name in ("prepare", "snapshot", "skip", "rollback")]
ASIDE = [
    "planned-prepare.json",
    "dead-rollback.json",
    *(f"aside-{name}.json" for name in ("prepare", "rollback", "snapshot")),
]
MIGRATION = [
    *("migrate-snapshot.json", "undo-migrate.json", "undo-rollback.json", "table-rollback.json"),
    *("edited-migrate.json", "edited-snapshot.json"),
]
TABLES = [
    "snapshot-tables.json",
    "headers-define.json",
    "generation-define.json",
    "rules-define.json",
]
MOVED = ["begin-snapshot.json"]
COMPACTED = ["compact-snapshot.json", "abandoned-commit.json"]
SHOWN = [
    *ENTRIES,
    "snapshot.json",
    *QUERY,
    *ASIDE,
    *MIGRATION,
    *LEADERS,
    *TABLES,
    *MOVED,
    *COMPACTED,
]


@pytest.mark.parametrize("name", GOLDEN)
def test_the_bytes_are_the_golden_ones(name: str):
    golden = (DIRECTORY / name).read_bytes()
    if name.endswith(".gz"):  # libraries compress differently: what is packed must be the same
        assert gzip.decompress(golden) == gzip.decompress(GOLDEN[name])
    else:
        assert golden == GOLDEN[name]


def test_there_is_a_golden_file_of_every_kind_and_no_other():
    expected = {*SHOWN, "archive.gz", "log.jsonl"}
    files = {path.name for path in DIRECTORY.iterdir() if path.is_file()} - {"messages.md"}
    assert files == expected == set(GOLDEN)


@pytest.mark.parametrize("kind", KINDS)
def test_a_golden_entry_reads_back(kind: str):
    entry = read_entry((DIRECTORY / f"entry-{kind}.json").read_bytes())
    assert entry.kind == kind
    assert isinstance(entry.body, KINDS[kind])


@pytest.mark.parametrize("name", [*(f"entry-{kind}.json" for kind in KINDS), "snapshot.json"])
def test_a_flipped_bit_anywhere_in_a_golden_file_is_detected(name: str):
    data = (DIRECTORY / name).read_bytes()
    read = read_snapshot if name == "snapshot.json" else read_entry
    for place in range(len(data)):
        for bits in (0x01, 0x20):
            damaged = data[:place] + bytes([data[place] ^ bits]) + data[place + 1 :]
            with pytest.raises(EntryInvalid):
                read(damaged)


@pytest.mark.parametrize("name", ["entry-prepare.json", "snapshot.json"])
def test_a_truncated_golden_file_is_detected(name: str):
    data = (DIRECTORY / name).read_bytes()
    read = read_snapshot if name == "snapshot.json" else read_entry
    for length in range(len(data)):
        with pytest.raises(EntryInvalid):
            read(data[:length])


def test_the_golden_archive_holds_a_chain_of_a_thousand_entries():
    lines = gzip.decompress((DIRECTORY / "archive.gz").read_bytes()).splitlines(keepends=True)
    entries = [read_entry(line) for line in lines]
    assert [entry.number for entry in entries] == list(range(ARCHIVE_ENTRIES))
    assert [entry.previous for entry in entries[1:]] == [entry.checksum for entry in entries[:-1]]


def test_the_checksum_is_over_the_bytes_before_it():
    data = (DIRECTORY / "entry-open.json").read_bytes()
    digest = hashlib.sha256(data[:-80]).hexdigest()
    assert data[-80:] == b',"checksum":"' + digest.encode() + b'"}\n'


def changed_entry(**changes: object) -> bytes:
    document = json.loads((DIRECTORY / "entry-commit.json").read_bytes())
    del document["checksum"]
    for name, value in changes.items():
        if value is ...:
            del document[name]
        else:
            document[name] = value
    return write_checksummed(document)


def raw(text: str) -> bytes:
    """Write what `write_checksummed` would not."""
    head = text.encode()[:-1]
    return head + b',"checksum":"' + hashlib.sha256(head).hexdigest().encode() + b'"}\n'


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "the file is empty"),
        (b"\n", "with a checksum"),
        (b"PAR1", "with a checksum"),
        (b'{"format_version":1}\n', "with a checksum"),
        (b"\x00" * 4096, "with a checksum"),
        (changed_entry(kind="rename"), "kind 'rename' is not"),
        (changed_entry(kind=None), "kind None is not supported"),
        (changed_entry(kind=["commit"]), r"kind \['commit'\] is not supported"),
        (changed_entry(kind=...), "kind None is not supported"),
        (changed_entry(format_version=2), "format version 2 is not"),
        (changed_entry(format_version=...), "format version None is not supported"),
        (changed_entry(format_version=True), "format version True is not supported"),
        (changed_entry(format_version=1.0), "format version 1.0 is not supported"),
        (changed_entry(number="3"), "^number: '3' is not int"),
        (changed_entry(epoch=1.0), "^epoch: 1.0 is not int"),
        (changed_entry(more=1), "unknown or missing keys: more"),
        (changed_entry(id=...), "unknown or missing keys: id"),
        (changed_entry(body=...), "^body: None is not"),
        (changed_entry(body={"reason": "idle", "x": 1}), "^body: unknown or missing keys: x"),
        (changed_entry(closing={"entry": 2}), "^closing: unknown or missing keys"),
        (raw('[{"format_version":1}]'), "not JSON"),
        (raw('{"format_version":1,"kind":"commit","kind":"open"}'), "not JSON"),
        (raw('{"format_version":1,\n"kind":"commit"}'), "more than one line"),
        (raw('{"format_version":1,"x":' + "[" * 100_000 + "}"), "not JSON"),
        (raw('{"x":' + "9" * 5000 + "}"), "not JSON"),
        (raw("{}"), "not JSON"),
    ],
)
def test_what_is_no_entry_is_named(data: bytes, reason: str):
    with pytest.raises(EntryInvalid, match=reason):
        read_entry(data)


def test_bytes_that_are_not_utf8_are_named():
    head = b'{"format_version":1,"x":"\xff"'
    data = head + b',"checksum":"' + hashlib.sha256(head).hexdigest().encode() + b'"}\n'
    with pytest.raises(EntryInvalid, match="not JSON"):
        read_checksummed(data)


def test_an_entry_is_no_snapshot_and_a_snapshot_no_entry():
    with pytest.raises(EntryInvalid):
        read_snapshot((DIRECTORY / "entry-commit.json").read_bytes())
    with pytest.raises(EntryInvalid):
        read_entry((DIRECTORY / "snapshot.json").read_bytes())


def test_a_document_is_sealed_once():
    with pytest.raises(InvariantBroken):
        write_checksummed({"checksum": ""})


def test_text_that_looks_like_the_tail_does_not_confuse():
    chain = Chain.started()
    chain.commit('","checksum":"' + "0" * 64 + '"}\n')
    assert read_entry(chain.data[-1]) == chain.entries[-1]


def test_a_prepare_of_ten_thousand_files_fits():
    data = make_prepare(10_000, 1)
    assert len(data) < 1_500_000
    body = read_entry(data).body
    assert isinstance(body, Prepare)
    assert len(body.files) == 10_000


# ---- the page that describes the bytes

PAGE = (Path(__file__).parents[3] / "docs/formats/landing-log.md").read_text()


@pytest.mark.parametrize("name", SHOWN)
def test_the_format_page_shows_the_golden_files(name: str):
    """One of each kind as it is, the others by a link."""
    text = f"```json\n{(DIRECTORY / name).read_text().rstrip()}\n```"
    is_linked = f"](../../tests/golden/{name})" in PAGE
    assert (text in PAGE) != is_linked
    assert not is_linked or name not in {f"entry-{kind}.json" for kind in KINDS}


DESCRIBED = [
    *(
        *KINDS.values(),
        Entry,
        Closing,
        DeferredAction,
        FailedTries,
        Failing,
        Joined,
        ShardRead,
        Query,
        SealedPartition,
    ),
    *(Target, DataFile, FileSpan, ShardState, PartitionState, QueryState, PlanState),
]


@pytest.mark.parametrize("described", DESCRIBED, ids=lambda each: each.__name__)
def test_the_format_page_names_every_field(described: type):
    for name in codec.find_keys(described):
        assert re.search(rf"[`.\[ ]{name}[`,\]]", PAGE), name


def test_the_format_page_shows_where_a_file_lies():
    entry = read_entry((DIRECTORY / "entry-prepare.json").read_bytes())
    place = BatchPlace(SliceName("clicks", "main"), entry.epoch, entry.body.batch)
    file = entry.body.files[0]
    placed = place.place(file, entry.body.targets[file.target])
    assert f"    {placed.pending}\n    {placed.final}\n" in PAGE


def test_the_commands_of_the_format_page_work(tmp_path: Path):
    commands = PAGE.split("```sh\n")[1].split("```")[0].replace("python3", sys.executable)
    chain = (DIRECTORY / "archive.gz").read_bytes()
    (tmp_path / "_archive-0.gz").write_bytes(chain)
    entry = gzip.decompress(chain).splitlines(keepends=True)[42]
    (tmp_path / "00000000000000000042.json").write_bytes(entry)
    ran = subprocess.run(
        ["bash", "-e", "-c", commands], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    summed, found, *shown = ran.stdout.splitlines()
    assert summed.split() == [found, "-"] == [read_entry(entry).checksum, "-"]
    assert "\n".join(shown).count('"number": 42') == 2


def test_the_second_command_follows_a_shard(tmp_path: Path):
    command = PAGE.split("```sh\n")[2].split("```")[0].replace("python3", sys.executable)
    prepare = (DIRECTORY / "entry-prepare.json").read_bytes()
    (tmp_path / "00000000000000000002.json").write_bytes(prepare)
    ran = subprocess.run(
        ["bash", "-c", command], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert ran.stdout == "2 kafka clicks 1 0 100 106 5\n2 kafka clicks 1 1 0 0 0\n"


@pytest.mark.parametrize(
    ("data", "is_newer"),
    [
        (changed_entry(format_version=2), True),
        (changed_entry(kind="rename"), True),
        (changed_entry(more=1), True),
        (changed_entry(body={"reason": "idle", "x": 1}), True),
        (changed_entry(format_version=0), False),
        (changed_entry(id=...), False),
        (changed_entry(number="3"), False),
        (changed_entry(kind=None), False),
        (b"PAR1", False),
    ],
)
def test_an_entry_of_a_later_release_is_told_from_damage(data: bytes, is_newer: bool):
    with pytest.raises(EntryInvalid) as found:
        read_entry(data)
    assert isinstance(found.value, EntryNewer) is is_newer
