import gzip
import hashlib
import json
from pathlib import Path

import pytest
from bench.log_start import make_prepare
from tests.strategies import Chain
from tools.golden import DIRECTORY, build_golden

from ashore.errors import InvariantBroken
from ashore.protocol.entries import (
    KINDS,
    EntryInvalid,
    Prepare,
    open_bytes,
    read_entry,
    seal_bytes,
)
from ashore.protocol.names import ARCHIVE_ENTRIES
from ashore.protocol.snapshot import read_snapshot

GOLDEN = build_golden()


@pytest.mark.parametrize("name", GOLDEN)
def test_the_bytes_are_the_golden_ones(name: str):
    golden = (DIRECTORY / name).read_bytes()
    if name.endswith(".gz"):  # libraries compress differently: what is packed must be the same
        assert gzip.decompress(golden) == gzip.decompress(GOLDEN[name])
    else:
        assert golden == GOLDEN[name]


def test_there_is_a_golden_file_of_every_kind_and_no_other():
    kinds = {f"entry-{kind}.json" for kind in KINDS}
    expected = kinds | {"snapshot.json", "archive.gz", "log.jsonl"}
    assert {path.name for path in DIRECTORY.iterdir()} == expected == set(GOLDEN)


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


def resealed(**changes: object) -> bytes:
    document = json.loads((DIRECTORY / "entry-commit.json").read_bytes())
    del document["checksum"]
    for name, value in changes.items():
        if value is ...:
            del document[name]
        else:
            document[name] = value
    return seal_bytes(document)


def raw(text: str) -> bytes:
    """Seal what `seal_bytes` would not write."""
    head = text.encode()[:-1]
    return head + b',"checksum":"' + hashlib.sha256(head).hexdigest().encode() + b'"}\n'


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "the file is empty"),
        (b"\n", "do not end in a checksum"),
        (b"PAR1", "do not end in a checksum"),
        (b'{"format_version":1}\n', "do not end in a checksum"),
        (b"\x00" * 4096, "do not end in a checksum"),
        (resealed(kind="rename"), "kind 'rename' is not known to this release"),
        (resealed(kind=None), "kind None is not known"),
        (resealed(kind=["commit"]), r"kind \['commit'\] is not known"),
        (resealed(kind=...), "kind None is not known"),
        (resealed(format_version=2), "format version 2 is not known to this release"),
        (resealed(format_version=...), "format version None is not known"),
        (resealed(format_version=True), "format version True is not known"),
        (resealed(format_version=1.0), "format version 1.0 is not known"),
        (resealed(number="3"), "^number: '3' is not int"),
        (resealed(epoch=1.0), "^epoch: 1.0 is not int"),
        (resealed(more=1), "unknown or missing keys: more"),
        (resealed(id=...), "unknown or missing keys: id"),
        (resealed(body=...), "^body: None is not an object"),
        (resealed(body={"reason": "idle", "x": 1}), "^body: unknown or missing keys: x"),
        (resealed(closing={"entry": 2}), "^closing: unknown or missing keys"),
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
        open_bytes(data)


def test_an_entry_is_no_snapshot_and_a_snapshot_no_entry():
    with pytest.raises(EntryInvalid):
        read_snapshot((DIRECTORY / "entry-commit.json").read_bytes())
    with pytest.raises(EntryInvalid):
        read_entry((DIRECTORY / "snapshot.json").read_bytes())


def test_a_document_is_sealed_once():
    with pytest.raises(InvariantBroken):
        seal_bytes({"checksum": ""})


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


def test_the_format_page_shows_the_golden_files():
    page = (Path(__file__).parents[3] / "docs/formats/landing-log.md").read_text()
    for kind in KINDS:
        assert (DIRECTORY / f"entry-{kind}.json").read_text().rstrip() in page, kind
    assert (DIRECTORY / "snapshot.json").read_text().rstrip() in page
