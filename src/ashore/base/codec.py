"""Frozen dataclasses to JSON values and back, by their types alone.

What it promises: `decode(type, encode(value)) == value`; decoding is strict and total: a missing
or unknown key, a wrong type or a broken invariant raises Malformed with the place, never another
error. Of `SomeEnum | str` a string that is no member is kept: a later release may know it. Classes
marked `positional` become arrays, the others objects, in which those marked `inlined` have no
object of their own; a key `added` later is left out while it has its default, so that older bytes
stay as they were.
"""

import functools
import reprlib
import types
import typing
from collections.abc import Callable, Iterator
from collections.abc import Set as AbstractSet
from dataclasses import Field, field, fields, is_dataclass
from enum import StrEnum

from ashore.errors import InvariantBroken, check, fail

if typing.TYPE_CHECKING:
    from _typeshed import DataclassInstance

Json = None | bool | int | float | str | list["Json"] | dict[str, "Json"]
Reader = Callable[[Json], object]  # raises Malformed with the place below the value
T = typing.TypeVar("T")


class Malformed(ValueError):
    """A JSON value does not match its type.

    Arguments:
        place: path to the value: `body.files[3].rows`.
        reason: what is wrong with it.

    """

    def __init__(self, place: str, reason: str) -> None:
        super().__init__(f"{place.lstrip('.') or 'the document'}: {reason}")
        self.place = place
        self.reason = reason

    def within(self, place: str) -> "Malformed":
        """Return the same of the value that has this one at `place`.

        Places are put together on the way out, as most documents are well formed.
        """
        return type(self)(f"{place}{self.place}", self.reason)


class UnknownKeys(Malformed):
    """An object has all keys of its type, and others: of a later release, perhaps."""


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
    for each in fields(value):
        found = getattr(value, each.name)
        if type(found) in _INLINED:
            document |= encode_object(found)
        elif not _is_left_out(each, found):
            document[each.name] = encode(found)
    return document


def _is_left_out(of: "Field[object]", value: object) -> bool:
    return _ADDED in of.metadata and value == of.default


def decode(target: type[T], value: Json, place: str = "") -> T:
    """Return the `target` dataclass that `value` holds. Raises Malformed."""
    try:
        return typing.cast("T", _reader(typing.cast("typing.Hashable", target))(value))
    except Malformed as error:
        raise error.within(place) from None


@functools.cache
def _reader(target: typing.Hashable) -> Reader:
    origin, arguments = typing.get_origin(target), typing.get_args(target)
    if origin in (types.UnionType, typing.Union):
        is_optional = type(None) in arguments
        return _optional_reader(arguments) if is_optional else _open_enum_reader(arguments)
    if origin is tuple:
        return _tuple_reader(arguments)
    check(isinstance(target, type), f"{target} has no JSON form")
    return _class_reader(typing.cast("type", target))


def _class_reader(target: type) -> Reader:
    if is_dataclass(target):
        return _array_reader(target) if target in _POSITIONAL else _object_reader(target)
    return _enum_reader(target) if issubclass(target, StrEnum) else _scalar_reader(target)


def _scalar_reader(target: type) -> Reader:
    def read_scalar(value: Json) -> object:
        if type(value) is not target:
            raise Malformed("", f"{_shorten(value)} is not {target.__name__}")
        return value

    return read_scalar


def _enum_reader(target: type[StrEnum]) -> Reader:
    members = {each.value: each for each in target}

    def read_member(value: Json) -> object:
        if not isinstance(value, str) or value not in members:
            raise Malformed("", f"{_shorten(value)} is none of {', '.join(target)}")
        return members[value]

    return read_member


def _open_enum_reader(arguments: tuple[object, ...]) -> Reader:
    """Read `SomeEnum | str`: strings that the enumeration does not have stay as they are."""
    (known,) = (argument for argument in arguments if argument is not str)
    members = {str(each): each for each in typing.cast("type[StrEnum]", known)}
    read_text = _scalar_reader(str)

    def read_known(value: Json) -> object:
        text = typing.cast("str", read_text(value))
        return members.get(text, text)

    return read_known


def _optional_reader(arguments: tuple[object, ...]) -> Reader:
    (inner,) = (argument for argument in arguments if argument is not type(None))
    read = _reader(inner)

    def read_optional(value: Json) -> object:
        return None if value is None else read(value)

    return read_optional


def _tuple_reader(arguments: tuple[object, ...]) -> Reader:
    if len(arguments) == 2 and arguments[1] is Ellipsis:
        read = _reader(arguments[0])

        def read_many(value: Json) -> object:
            items, found = _list(value), list[object]()
            try:
                for item in items:
                    found.append(read(item))
            except Malformed as error:
                raise error.within(f"[{len(found)}]") from None
            return tuple(found)

        return read_many
    readers = [_reader(argument) for argument in arguments]

    def read_fixed(value: Json) -> object:
        return tuple(_read_each(readers, value))

    return read_fixed


def _read_each(readers: list[Reader], value: Json) -> list[object]:
    items = _list(value)
    if len(items) != len(readers):
        raise Malformed("", f"{len(items)} values instead of {len(readers)}")
    return [read(item) for read, item in zip(readers, items, strict=True)]


def _array_reader(target: type) -> Reader:
    readers = [_reader(hint) for _, hint in find_keys(target).values()]
    build = _builder(target)

    def read_array(value: Json) -> object:
        return build(_read_each(readers, value))

    return read_array


def _object_reader(target: type) -> Reader:
    keys = find_keys(target)
    readers = {name: _reader(hint) for name, (_, hint) in keys.items()}
    defaults = {name: each.default for name, (each, _) in keys.items() if _ADDED in each.metadata}
    later = [(list(keys).index(name), name, default) for name, default in defaults.items()]
    build = _builder(target)

    def read_object(value: Json) -> object:
        if not isinstance(value, dict):
            raise Malformed("", f"{_shorten(value)} is not an object")
        if value.keys() != readers.keys():
            _check_keys(value, readers.keys(), defaults.keys())
        arguments: list[object] = []
        name = ""
        try:
            for name, read in readers.items():
                arguments.append(read(value[name]) if name in value else defaults[name])
        except Malformed as error:
            raise error.within(f".{name}") from None
        for index, name, default in later:
            if name in value and arguments[index] == default:
                raise Malformed(f".{name}", "a default is not written")
        return build(arguments)

    return read_object


def _check_keys(value: dict[str, Json], known: AbstractSet[str], later: AbstractSet[str]) -> None:
    """Raise Malformed, or UnknownKeys, unless an object has all keys but some that came later."""
    keys = known - (later - value.keys())
    if value.keys() != keys:
        odd = ", ".join(sorted(value.keys() ^ keys))
        kind = UnknownKeys if keys <= value.keys() else Malformed
        raise kind("", f"unknown or missing keys: {odd}")


def _builder(target: type) -> Callable[[list[object]], object]:
    nest = None if len(find_keys(target)) == len(fields(target)) else _nest(target)

    def build(arguments: list[object]) -> object:
        try:
            return nest(iter(arguments)) if nest else target(*arguments)
        except InvariantBroken as error:
            raise Malformed("", error.message) from None

    return build


def find_keys(target: type) -> "dict[str, tuple[Field[object], typing.Hashable]]":
    """Return the keys of an object in their order, each with its field and the type of that."""
    hints = typing.get_type_hints(target)
    keys: dict[str, tuple[Field[object], typing.Hashable]] = {}
    for each in fields(target):
        hint = hints[each.name]
        if hint in _INLINED:
            check(target not in _POSITIONAL, f"{target.__name__} is an array, and has no keys")
            keys |= find_keys(hint)
        else:
            keys[each.name] = (each, hint)
    return keys


def _nest(target: type) -> Callable[[Iterator[object]], object]:
    """Return what makes a `target` of the values of all its keys, in their order."""
    hints = typing.get_type_hints(target)
    hinted = [hints[each.name] for each in fields(target)]
    makers = [_nest(hint) if hint in _INLINED else next for hint in hinted]
    return lambda values: target(*[make(values) for make in makers])


def _list(value: Json) -> list[Json]:
    if not isinstance(value, list):
        raise Malformed("", f"{_shorten(value)} is not an array")
    return value


def _shorten(value: Json) -> str:
    return reprlib.repr(value)  # `repr` may exceed the recursion limit
