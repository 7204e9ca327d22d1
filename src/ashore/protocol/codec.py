"""Frozen dataclasses to JSON values and back, by their types alone.

What it promises: `decode(type, encode(value)) == value`; decoding is strict and total: a missing
or unknown key, a wrong type or a broken invariant raises Malformed with the place, never another
error. Of `SomeEnum | str` a string that is no member is kept: a later release may know it. Classes
marked `positional` become arrays, the others objects, in which those marked `inlined` have no
object of their own; a key `added` later is left out while it says nothing, and a field that has
another name than its `Key` keeps it, so that older bytes stay as they were.
What it must not know: which records there are.
"""

import functools
import reprlib
import types
import typing
from collections.abc import Callable, Iterator
from dataclasses import Field, dataclass, field, fields, is_dataclass
from enum import StrEnum

from ashore.errors import InvariantBroken, check, fail

if typing.TYPE_CHECKING:
    from _typeshed import DataclassInstance

Json = None | bool | int | float | str | list["Json"] | dict[str, "Json"]
Reader = Callable[[Json, str], object]
T = typing.TypeVar("T")


class Malformed(ValueError):
    """A JSON value is not what its type wants.

    Arguments:
        place: path to the value: `body.files[3].rows`.
        reason: what is wrong with it.

    """

    def __init__(self, place: str, reason: str) -> None:
        super().__init__(f"{place.lstrip('.') or 'the document'}: {reason}")
        self.place = place
        self.reason = reason


class UnknownKeys(Malformed):
    """An object has all keys that its type wants, and others: of a later release, perhaps."""


def positional(cls: type[T]) -> type[T]:
    """Mark a dataclass that a log holds by thousands: it is written as an array of its fields."""
    _POSITIONAL.add(cls)
    return cls


_POSITIONAL: set[type] = set()


def inlined(cls: type[T]) -> type[T]:
    """Mark a dataclass whose fields are keys of the object that holds it, in its place."""
    _INLINED.add(cls)
    return cls


_INLINED: set[type] = set()


_ADDED = "added"


def added(default: T) -> T:
    """Make a field of an object that earlier bytes do not have: then, it has its default."""
    made: T = field(default=default, metadata={_ADDED: True})
    return made


@dataclass(frozen=True, slots=True)
class Key:
    """In `Annotated`, how a field is spelled in an object, where that is not its name."""

    text: str


def encode(value: object) -> Json:
    """Return the JSON value of dataclasses, tuples, strings, integers, booleans and None."""
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, tuple):
        return [encode(item) for item in value]
    if is_dataclass(value) and not isinstance(value, type):
        if type(value) in _POSITIONAL:
            return [encode(getattr(value, field.name)) for field in fields(value)]
        return {**encode_object(value)}
    return fail(f"{type(value).__name__} has no JSON form")


def encode_object(value: "DataclassInstance") -> dict[str, Json]:
    """Return the fields of a dataclass as a JSON object, in their order."""
    document: dict[str, Json] = {}
    for each, key in _spell(type(value)):
        found = getattr(value, each.name)
        if type(found) in _INLINED:
            document |= encode_object(found)
        elif not _is_left_out(each, found):
            document[key] = encode(found)
    return document


@functools.cache
def _spell(wanted: type) -> "tuple[tuple[Field[object], str], ...]":
    """Return the fields of a dataclass, each with its key."""
    hints = typing.get_type_hints(wanted, include_extras=True)
    spelled = {
        name: extra.text
        for name, hint in hints.items()
        for extra in getattr(hint, "__metadata__", ())
        if isinstance(extra, Key)
    }
    return tuple((each, spelled.get(each.name, each.name)) for each in fields(wanted))


def _is_left_out(of: "Field[object]", value: object) -> bool:
    return _ADDED in of.metadata and value == of.default


def decode(wanted: type[T], value: Json, place: str = "") -> T:
    """Return the `wanted` dataclass that `value` holds. Raises Malformed."""
    return typing.cast("T", _reader(typing.cast("typing.Hashable", wanted))(value, place))


@functools.cache
def _reader(wanted: typing.Hashable) -> Reader:
    origin, arguments = typing.get_origin(wanted), typing.get_args(wanted)
    if origin in (types.UnionType, typing.Union):
        is_optional = type(None) in arguments
        return _optional_reader(arguments) if is_optional else _open_enum_reader(arguments)
    if origin is tuple:
        return _tuple_reader(arguments)
    check(isinstance(wanted, type), f"{wanted} has no JSON form")
    return _class_reader(typing.cast("type", wanted))


def _class_reader(wanted: type) -> Reader:
    if is_dataclass(wanted):
        return _dataclass_reader(wanted)
    read = _read_enum if issubclass(wanted, StrEnum) else _read_scalar
    return functools.partial(read, wanted)


def _read_scalar(wanted: type, value: Json, place: str) -> object:
    if type(value) is not wanted:
        raise Malformed(place, f"{_shorten(value)} is not {wanted.__name__}")
    return value


def _read_enum(wanted: type[StrEnum], value: Json, place: str) -> object:
    if not isinstance(value, str) or value not in [each.value for each in wanted]:
        raise Malformed(place, f"{_shorten(value)} is none of {', '.join(wanted)}")
    return wanted(value)


def _open_enum_reader(arguments: tuple[object, ...]) -> Reader:
    """Read `SomeEnum | str`: strings that the enumeration does not have stay as they are."""
    (known,) = (argument for argument in arguments if argument is not str)
    members = {str(each): each for each in typing.cast("type[StrEnum]", known)}

    def read_known(value: Json, place: str) -> object:
        text = typing.cast("str", _read_scalar(str, value, place))
        return members.get(text, text)

    return read_known


def _optional_reader(arguments: tuple[object, ...]) -> Reader:
    (inner,) = (argument for argument in arguments if argument is not type(None))
    read = _reader(inner)

    def read_optional(value: Json, place: str) -> object:
        return None if value is None else read(value, place)

    return read_optional


def _tuple_reader(arguments: tuple[object, ...]) -> Reader:
    if len(arguments) == 2 and arguments[1] is Ellipsis:
        read = _reader(arguments[0])

        def read_many(value: Json, place: str) -> object:
            items = _list(value, place)
            return tuple([read(item, f"{place}[{index}]") for index, item in enumerate(items)])

        return read_many
    readers = [_reader(argument) for argument in arguments]

    def read_fixed(value: Json, place: str) -> object:
        items = _list(value, place)
        if len(items) != len(readers):
            raise Malformed(place, f"{len(items)} values instead of {len(readers)}")
        return tuple([read(item, place) for read, item in zip(readers, items, strict=True)])

    return read_fixed


def _dataclass_reader(wanted: type) -> Reader:
    keys = find_keys(wanted)
    readers = {name: _reader(hint) for name, (_, hint) in keys.items()}
    in_order = list(readers.values())
    defaults = {name: each.default for name, (each, _) in keys.items() if _ADDED in each.metadata}
    nest = None if len(keys) == len(fields(wanted)) else _nest(wanted)

    def build(arguments: list[object], place: str) -> object:
        try:
            return nest(iter(arguments)) if nest else wanted(*arguments)
        except InvariantBroken as error:
            raise Malformed(place, error.message) from None

    def read_array(value: Json, place: str) -> object:
        items = _list(value, place)
        if len(items) != len(in_order):
            raise Malformed(place, f"{len(items)} values instead of {len(in_order)}")
        pairs = zip(in_order, items, strict=True)
        return build([read(item, place) for read, item in pairs], place)

    def read_object(value: Json, place: str) -> object:
        if not isinstance(value, dict):
            raise Malformed(place, f"{_shorten(value)} is not an object")
        left_out = defaults.keys() - value.keys()
        if value.keys() != readers.keys() - left_out:
            odd = sorted(value.keys() ^ (readers.keys() - left_out))
            has_all = (readers.keys() - left_out) <= value.keys()
            kind = UnknownKeys if has_all else Malformed
            raise kind(place, f"unknown or missing keys: {', '.join(odd)}")
        read = {name: readers[name](value[name], f"{place}.{name}") for name in value}
        for name in defaults.keys() - left_out:
            if read[name] == defaults[name]:
                raise Malformed(f"{place}.{name}", "a default is not written")
        return build([read[name] if name in read else defaults[name] for name in readers], place)

    return read_array if wanted in _POSITIONAL else read_object


def find_keys(wanted: type) -> "dict[str, tuple[Field[object], typing.Hashable]]":
    """Return the keys of an object in their order, each with its field and the type of that."""
    hints = typing.get_type_hints(wanted)
    keys: dict[str, tuple[Field[object], typing.Hashable]] = {}
    for each, key in _spell(wanted):
        hint = hints[each.name]
        if hint in _INLINED:
            check(wanted not in _POSITIONAL, f"{wanted.__name__} is an array, and has no keys")
            keys |= find_keys(hint)
        else:
            keys[key] = (each, hint)
    return keys


def _nest(wanted: type) -> Callable[[Iterator[object]], object]:
    """Return what makes a `wanted` of the values of all its keys, in their order."""
    hints = typing.get_type_hints(wanted)
    hinted = [hints[each.name] for each in fields(wanted)]
    makers = [_nest(hint) if hint in _INLINED else next for hint in hinted]
    return lambda values: wanted(*[make(values) for make in makers])


def _list(value: Json, place: str) -> list[Json]:
    if not isinstance(value, list):
        raise Malformed(place, f"{_shorten(value)} is not an array")
    return value


def _shorten(value: Json) -> str:
    return reprlib.repr(value)  # `repr` may exceed the recursion limit
