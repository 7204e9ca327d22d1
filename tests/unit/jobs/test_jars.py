"""The lock list and the cache of jars. A warm cache needs neither Java nor network."""

import hashlib
import os
import re
from pathlib import Path

import pytest

from ashore.errors import JarMismatch, JavaMissing, ServiceError
from ashore.jobs.jars import (
    Jar,
    by_release,
    cache_directory,
    ensure_jars,
    find_java,
    jar_paths,
    load_lock,
    parse_jar,
)

CONTENT = b"jar of jam"
JAR = parse_jar("org.example:jam_2.13:1.0", hashlib.sha256(CONTENT).hexdigest())


@pytest.fixture(autouse=True)
def _no_java(monkeypatch: pytest.MonkeyPatch):
    """Any fetch fails at once, so that a test that fetches is seen."""
    monkeypatch.setenv("JAVA_HOME", "nowhere")
    find_java.cache_clear()
    yield
    find_java.cache_clear()


@pytest.fixture
def cached(tmp_path: Path) -> Path:
    """A cache with the jar in it, not yet checked."""
    path = tmp_path / JAR.path
    path.parent.mkdir()
    path.write_bytes(CONTENT)
    return tmp_path


def ensure(cache: Path, jar: Jar = JAR) -> list[Path]:
    return ensure_jars([jar], cache, lambda _: None)


def test_the_lock_list_has_all_sets_and_whole_checksums():
    lock = load_lock()
    names = {"delta", "hdfs", "iceberg-rest", "kafka", "s3", "spark-kafka", "spark-s3"}
    assert set(lock) == names
    for jars in lock.values():
        assert len({jar.path for jar in jars}) == len(jars)
        assert all(re.fullmatch("[0-9a-f]{64}", jar.sha256) for jar in jars)
    coordinates = {jar.coordinate for jars in lock.values() for jar in jars}
    assert "org.apache.kafka:kafka_2.13:4.1.0" in coordinates
    assert "org.apache.spark:spark-sql-kafka-0-10_2.13:4.2.0" in coordinates


def test_a_release_has_more_than_one_jar():
    jars = [parse_jar(f"org.example:jam:1.0{each}", "") for each in ("", ":tests")]
    assert [jar.path for jar in jars] == [
        "org.example/jam-1.0.jar",
        "org.example/jam-1.0-tests.jar",
    ]
    assert [jar.coordinate for jar in jars] == ["org.example:jam:1.0", "org.example:jam:1.0:tests"]
    assert by_release([JAR, *jars]) == [[JAR], jars]


def test_an_unknown_set_names_the_known_ones():
    with pytest.raises(ServiceError, match="unknown jar set 'flink'") as caught:
        jar_paths("flink")
    assert "kafka, s3, spark-kafka, spark-s3" in caught.value.hint


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({"ASHORE_CACHE": "/c"}, "/c/jars"),
        ({"XDG_CACHE_HOME": "/x"}, "/x/ashore/jars"),
        ({"HOME": "/h"}, "/h/.cache/ashore/jars"),
    ],
)
def test_where_the_cache_is(
    monkeypatch: pytest.MonkeyPatch, environment: dict[str, str], expected: str
):
    for name in ("ASHORE_CACHE", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert cache_directory() == Path(expected)


def test_a_right_jar_is_returned_without_java(cached: Path):
    assert ensure(cached) == [cached / "org.example/jam_2.13-1.0.jar"]


def test_a_checked_jar_is_not_read_again(cached: Path):
    path = ensure(cached)[0]
    before = path.stat().st_mtime_ns
    path.write_bytes(CONTENT[::-1])
    os.utime(path, ns=(before, before))
    assert ensure(cached) == [path], "same size, same time: taken for the same"


def test_a_touched_jar_is_checked_again_and_found_right(cached: Path):
    path = ensure(cached)[0]
    os.utime(path, ns=(1, 1))
    assert ensure(cached) == [path]


@pytest.mark.parametrize("content", [b"", CONTENT[:-1], CONTENT[::-1], CONTENT + b"!"])
def test_a_jar_with_other_bytes_is_named_with_both_checksums(cached: Path, content: bytes):
    path = ensure(cached)[0]
    path.write_bytes(content)
    os.utime(path, ns=(1, 1))
    with pytest.raises(JarMismatch) as caught:
        ensure(cached)
    found = hashlib.sha256(content).hexdigest()
    for part in (str(path), JAR.coordinate, JAR.sha256, found):
        assert part in caught.value.message
    assert f"remove {path}" in caught.value.hint


def test_a_jar_that_was_wrong_is_never_noted_as_right(cached: Path):
    (cached / JAR.path).write_bytes(b"other")
    for _ in range(2):
        with pytest.raises(JarMismatch):
            ensure(cached)


def test_another_checksum_in_the_list_is_noticed(cached: Path):
    ensure(cached)
    with pytest.raises(JarMismatch):
        ensure(cached, parse_jar(JAR.coordinate, "0" * 64))


@pytest.mark.parametrize("note", ["", "{", "[]", '{"a": 1}', '{"a": [1]}'])
def test_a_damaged_note_means_checking_again(cached: Path, note: str):
    path = ensure(cached)[0]
    (cached / "checked.json").write_text(note)
    assert ensure(cached) == [path]


def test_a_missing_jar_is_fetched_which_needs_java(tmp_path: Path):
    with pytest.raises(JavaMissing):
        ensure(tmp_path)
    assert not list(tmp_path.glob(".fetch-*"))
