"""Which Java is taken, and what is said when there is none that serves."""

from pathlib import Path

import pytest

from ashore.errors import JavaMissing
from ashore.jobs import jars


@pytest.fixture(autouse=True)
def _fresh_search(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("JAVA_HOME", raising=False)
    jars.find_java.cache_clear()
    yield
    jars.find_java.cache_clear()


def make_java(home: Path, banner: str, exit_code: int = 0) -> Path:
    script = home / "bin" / "java"
    script.parent.mkdir(parents=True)
    script.write_text(f"#!/bin/sh\necho '{banner}' >&2\nexit {exit_code}\n")
    script.chmod(0o755)
    return script


@pytest.mark.parametrize("banner", ['openjdk version "17.0.15" 2025-04-15', 'java version "21"'])
def test_java_home_is_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, banner: str):
    script = make_java(tmp_path, banner)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    assert jars.find_java() == script


def test_java_of_path_is_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    script = make_java(tmp_path, 'openjdk version "17.0.1"')
    monkeypatch.setenv("PATH", str(script.parent))
    assert jars.find_java() == script


def test_an_old_java_is_refused_with_its_version(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    make_java(tmp_path, 'java version "1.8.0_292"')
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(JavaMissing, match="is Java 8, Ashore needs 17") as caught:
        jars.find_java()
    assert "openjdk-17-jre-headless" in caught.value.hint


def test_no_java_at_all_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(JavaMissing, match="no java on PATH") as caught:
        jars.find_java()
    assert "openjdk-17-jre-headless" in caught.value.hint


def test_a_wrong_java_home_is_not_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    good = make_java(tmp_path / "good", 'openjdk version "17.0.1"')
    monkeypatch.setenv("PATH", str(good.parent))
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "gone"))
    with pytest.raises(JavaMissing, match="gone/bin/java does not run"):
        jars.find_java()


def test_a_java_that_fails_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    make_java(tmp_path, 'openjdk version "17.0.1"', exit_code=1)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(JavaMissing, match="does not run"):
        jars.find_java()
