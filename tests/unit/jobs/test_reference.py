"""The reference is of the models, whole and the same each time."""

import re
from collections.abc import Iterator

import pytest

from ashore.jobs.file import Job, render_reference
from ashore.jobs.file.reference import type_text
from ashore.jobs.file.section import Section, fields_of, section_of
from ashore.jobs.file.unsupported import UNSUPPORTED
from ashore.jobs.file.values import duration_text, size_text
from ashore.jobs.kafka_options import OWNED_OPTIONS


def sections(section: type[Section]) -> Iterator[type[Section]]:
    yield section
    for _, field in fields_of(section):
        inner = section_of(field)
        if inner:
            yield from sections(inner)


def test_every_key_has_a_type_and_a_meaning() -> None:
    page = render_reference()
    for section in sections(Job):
        for key, field in fields_of(section):
            assert field.description, key
            assert type_text(field), key
            kind = re.escape(type_text(field).removesuffix(" or null"))
            meaning = re.escape(" ".join(field.description.split()))
            assert re.search(rf"^- `{key}` \({kind}(; .+)?\): {meaning}$", page, re.MULTILINE), key


def test_defaults_are_written_as_users_write_them() -> None:
    page = render_reference()
    for row in (
        "- `interval` (duration; default `10s`): ",
        "- `max_bytes` (size; default `2GB`): ",
        "- `max_records` (number; default `5000000`): ",
        "- `partition_by` (list of `date`, `hour`, `minute`, columns and transforms; default ",
        "- `catalog` (`none` or a mapping; default `none`): ",
        "- `table` (database.table; required): ",
        "- `provenance` (true, false or `headers`; default `true`): ",
        "- `land` (true or false; default `true`): ",
        "- `late` (mapping): ",
    ):
        assert row in page


def test_what_is_refused_is_listed() -> None:
    page = render_reference()
    lines = [line for line in page.splitlines() if line.startswith("- `")]
    for name, reason in OWNED_OPTIONS.items():
        assert any(f"`{name}`" in line and line.endswith(f": {reason}.") for line in lines), name
    assert all(each.what in page for each in UNSUPPORTED)


def test_it_is_the_same_each_time() -> None:
    assert render_reference() == render_reference()
    assert "0x" not in render_reference()


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (0, "0ms"),
        (1, "1ms"),
        (1_500, "1500ms"),
        (90_000, "90s"),
        (7_200_000, "2h"),
        (86_400_000, "1d"),
    ],
)
def test_durations_are_written_exactly(number: int, text: str) -> None:
    assert duration_text(number) == text


@pytest.mark.parametrize(
    ("number", "text"), [(0, "0B"), (1 << 30, "1GiB"), (256_000_000, "256MB"), (1_001, "1001B")]
)
def test_sizes_are_written_exactly(number: int, text: str) -> None:
    assert size_text(number) == text
