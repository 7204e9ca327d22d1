from dataclasses import dataclass
from enum import StrEnum

import pytest

from ashore.base import codec
from ashore.base.codec import Malformed
from ashore.errors import InvariantBroken, check


class Colour(StrEnum):
    RED = "red"


@codec.positional
@dataclass(frozen=True, slots=True)
class Point:
    x: int
    y: int

    def __post_init__(self) -> None:
        check(self.x <= self.y, "x is above y")


@codec.inlined
@dataclass(frozen=True, slots=True)
class Span:
    start: int
    end: int

    def __post_init__(self) -> None:
        check(self.start <= self.end, "start is above end")


@dataclass(frozen=True, slots=True)
class Move:
    name: str
    span: Span
    count: int


MOVE, MOVE_FORM = Move("m", Span(1, 2), 3), {"name": "m", "start": 1, "end": 2, "count": 3}


@dataclass(frozen=True, slots=True)
class Thing:
    name: str
    colour: Colour
    is_big: bool
    size: int | None
    points: tuple[Point, ...]
    pairs: tuple[tuple[str, int | None], ...]
    shade: Colour | str


THING = Thing("é", Colour.RED, True, None, (Point(1, 2),), (("a", 1), ("b", None)), Colour.RED)
FORM = {
    "name": "é",
    "colour": "red",
    "is_big": True,
    "size": None,
    "points": [[1, 2]],
    "pairs": [["a", 1], ["b", None]],
    "shade": "red",
}


def test_the_form():
    assert codec.encode(THING) == FORM
    assert codec.decode(Thing, FORM) == THING
    assert type(codec.decode(Thing, FORM).colour) is Colour


def test_an_inlined_class_has_no_object_of_its_own():
    assert list(codec.encode(MOVE)) == list(MOVE_FORM)  # in its place
    assert codec.encode(MOVE) == MOVE_FORM
    assert codec.decode(Move, MOVE_FORM) == MOVE


@pytest.mark.parametrize(
    ("form", "place"),
    [
        ({**MOVE_FORM, "end": "2"}, "end"),
        ({**MOVE_FORM, "end": 0}, "the document"),
        ({**MOVE_FORM, "span": {"start": 1, "end": 2}}, "the document"),
        ({"name": "m", "span": {"start": 1, "end": 2}, "count": 3}, "the document"),
        ({"name": "m", "start": 1, "count": 3}, "the document"),
    ],
)
def test_what_an_inlined_class_is_not_is_named(form, place: str):
    with pytest.raises(Malformed) as caught:
        codec.decode(Move, form)
    assert str(caught.value).startswith(f"{place}: ")


def test_an_array_has_no_keys_to_inline():
    @codec.positional
    @dataclass(frozen=True, slots=True)
    class Row:
        span: Span

    with pytest.raises(InvariantBroken, match="is an array"):
        codec.decode(Row, [1, 2])


def test_an_open_enumeration_keeps_what_it_does_not_know():
    assert type(codec.decode(Thing, FORM).shade) is Colour
    read = codec.decode(Thing, {**FORM, "shade": "teal"})
    assert (type(read.shade), read.shade) == (str, "teal")
    assert codec.encode(read) == {**FORM, "shade": "teal"}


@pytest.mark.parametrize(
    ("change", "place"),
    [
        ({"name": 1}, "name"),
        ({"name": None}, "name"),
        ({"colour": "blue"}, "colour"),
        ({"colour": ["red"]}, "colour"),
        ({"colour": None}, "colour"),
        ({"shade": 1}, "shade"),
        ({"shade": None}, "shade"),
        ({"is_big": 1}, "is_big"),
        ({"is_big": None}, "is_big"),
        ({"size": True}, "size"),
        ({"size": 1.0}, "size"),
        ({"size": "1"}, "size"),
        ({"size": float("nan")}, "size"),
        ({"points": None}, "points"),
        ({"points": {"0": [1, 2]}}, "points"),
        ({"points": "12"}, "points"),
        ({"points": [[1, 2], [1]]}, "points[1]"),
        ({"points": [[1, 2, 3]]}, "points[0]"),
        ({"points": [{"x": 1, "y": 2}]}, "points[0]"),
        ({"points": [[1, "2"]]}, "points[0]"),
        ({"points": [[2, 1]]}, "points[0]"),
        ({"pairs": [["a"]]}, "pairs[0]"),
        ({"pairs": [[None, 1]]}, "pairs[0]"),
        ({"more": 1}, "the document"),
    ],
)
def test_every_departure_from_the_form_is_named(change: dict[str, object], place: str):
    with pytest.raises(Malformed) as caught:
        codec.decode(Thing, {**FORM, **change})
    assert str(caught.value).startswith(f"{place}: ")


@pytest.mark.parametrize("key", FORM)
def test_a_missing_key_is_named(key: str):
    with pytest.raises(Malformed, match=f"unknown or missing keys: {key}"):
        codec.decode(Thing, {name: FORM[name] for name in FORM if name != key}, "body")


@pytest.mark.parametrize("value", [None, [], "x", 1, [["name"]]])
def test_what_is_no_object_is_malformed(value: codec.Json):
    with pytest.raises(Malformed):
        codec.decode(Thing, value)


def test_a_place_inside_is_counted_from_the_name_that_is_given():
    with pytest.raises(Malformed, match=r"^body.points\[0\]: x is above y$"):
        codec.decode(Thing, {**FORM, "points": [[2, 1]]}, "body")


def test_a_huge_or_deep_value_is_named_shortly():
    deep: codec.Json = []
    for _ in range(5000):
        deep = [deep]
    for value in ("x" * 10_000, deep, list(range(10_000))):
        with pytest.raises(Malformed) as caught:
            codec.decode(Thing, {**FORM, "size": value})
        assert len(str(caught.value)) < 300


@pytest.mark.parametrize("value", [1.5, b"x", [1], {"a": 1}, object()])
def test_what_has_no_form_is_a_bug(value: object):
    with pytest.raises(InvariantBroken):
        codec.encode(value)


@dataclass(frozen=True, slots=True)
class Grown:
    name: str
    extra: tuple[int, ...] = codec.added(())


def test_a_key_that_was_added_later_is_left_out_while_it_says_nothing():
    assert codec.encode(Grown("a")) == {"name": "a"}
    assert codec.decode(Grown, {"name": "a"}) == Grown("a")
    full = {"name": "a", "extra": [1]}
    assert codec.encode(Grown("a", (1,))) == full
    assert codec.decode(Grown, full) == Grown("a", (1,))
    with pytest.raises(Malformed, match="extra: a default"):
        codec.decode(Grown, {"name": "a", "extra": []})
    with pytest.raises(Malformed, match="missing keys: name"):
        codec.decode(Grown, {"extra": [1]})
