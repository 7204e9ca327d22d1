"""Whatever is done to a valid file: it loads, or the problems are located. Never a traceback."""

import copy
import io

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ruamel.yaml import YAML
from tests.examples import examples
from tests.unit.jobs.texts import VALID, first_words

from ashore.errors import JobFileInvalid
from ashore.jobs.file import Job, parse_job

_YAML = YAML(typ="safe", pure=True)
DATA = _YAML.load(VALID)

_SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(max_size=8),
    st.sampled_from(
        [
            "10s",
            "2GB",
            "none",
            "earliest",
            "/a/",
            "/(/",
            "${X}",
            "${HOME}",
            "x.{topic}",
            "a.b",
            "1e9d",
        ]
    ),
    st.sampled_from([10**400, -1, 2**64, float("inf"), float("nan")]),
)
VALUES = st.recursive(
    _SCALARS,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=6,
)
KEYS = st.one_of(
    st.sampled_from(
        ["topic", "table", "hive", "after", "timestamp", "default", "kafka", "[key]", "<<"]
    ),
    st.text(max_size=6),
)


def places(data: object, path: tuple[str | int, ...] = ()) -> list[tuple[str | int, ...]]:
    found = [path] if path else []
    children = (
        data.items()
        if isinstance(data, dict)
        else enumerate(data)
        if isinstance(data, list)
        else ()
    )
    for key, value in children:
        found += places(value, (*path, key))
    return found


def mutate(data: st.DataObject, changes_max: int, values: object = VALUES) -> object:
    """Return a valid file with a few changes. `values`: a strategy for what is put elsewhere."""
    mutated = copy.deepcopy(DATA)
    for _ in range(data.draw(st.integers(1, changes_max))):
        *path, last = data.draw(st.sampled_from(places(mutated)))
        parent = mutated
        for key in path:
            parent = parent[key]
        match data.draw(st.sampled_from(["drop", "rename", "replace", "twice"])):
            case "drop":
                del parent[last]
            case "rename" if isinstance(parent, dict):
                parent[data.draw(KEYS)] = parent.pop(last)
            case "twice" if isinstance(parent, list):
                parent.append(copy.deepcopy(parent[last]))
            case _:
                # A copy: the next change may be within it, and the strategy hands it out again.
                parent[last] = copy.deepcopy(data.draw(values))
        if not places(mutated):
            break
    return mutated


def load_or_explain(text: str) -> Job | None:
    """Return the job; checks that what is told otherwise is located in the text."""
    try:
        return parse_job(text, path="f", check_schema=first_words, environment={"HOME": "/home7"})
    except JobFileInvalid as error:
        invalid = error
    assert "/home7" not in str(invalid)
    found = invalid.fields["problems"]
    assert isinstance(found, list)
    assert found
    lines = len(text.splitlines()) + 1
    for each in found:
        assert 1 <= each["line"] <= lines, (each, text)
        assert each["message"]
        assert len(str(each["message"])) < 400
    return None


def written(data: object) -> str:
    stream = io.StringIO()
    _YAML.dump(data, stream)
    return stream.getvalue()


def test_the_start_is_valid() -> None:
    assert load_or_explain(written(DATA)) is not None


@pytest.mark.slow
@settings(max_examples=examples(300), deadline=None)
@given(st.data())
def test_a_mutated_file_loads_or_is_explained(data: st.DataObject) -> None:
    load_or_explain(written(mutate(data, 3)))


@pytest.mark.slow
@settings(max_examples=examples(300), deadline=None)
@given(
    st.integers(0, len(VALID)),
    st.integers(0, 12),
    st.text(alphabet="{}[]:,-#&*!|>'\"%@`\\/ \n\t?<~$abc019.\x85\u2028\ufeff", max_size=6),
)
def test_a_damaged_text_loads_or_is_explained(at: int, cut: int, put: str) -> None:
    load_or_explain(VALID[:at] + put + VALID[at + cut :])


@settings(max_examples=examples(200), deadline=None)
@given(st.text(alphabet="ab{}[]:,-#&*!|>'\"%@\\ \n\t?<~%YAML1.2", max_size=40))
def test_any_text_is_explained(text: str) -> None:
    assert load_or_explain(text) is None
