"""Columns whose values are masked as soon as they are decoded.

What it is: `MaskingDecoder`, a decoder whose rows have masks instead of values.
What it promises: no row of the decoder has a value of such a column, so that no table, no
expression and no query sees it, and no reason quotes one. Equal values have equal masks, null stays
null. A digest is no encryption: what can be guessed can be found by trying.
"""

import hashlib
from collections.abc import Callable
from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc

from ashore.tables.masks import LAST4, NULL, SHA256, Mask, split_path
from ashore.topics.decode.decode import BadRows, Decoded, Decoder, Values
from ashore.topics.decode.reasons import code_of

SHOWN_CHARACTERS = 4


class MaskingDecoder:
    """Decodes by another decoder, and masks columns of its rows.

    Requires: `check_mask` takes the mask of its schema.
    """

    def __init__(self, decoder: Decoder, mask: Mask) -> None:
        self._decoder = decoder
        self._mask = mask

    @property
    def schema(self) -> pa.Schema:
        """The schema of every table that `decode` returns."""
        return self._decoder.schema

    def decode(self, values: Values) -> Decoded:
        """Return the rows, masked, and the bad rows of a batch."""
        decoded = self._decoder.decode(values)
        table = decoded.table
        for path, form in self._mask:
            table = _mask_column(table, path, form)
        return replace(decoded, table=table, bad=_without_details(decoded.bad))


def _without_details(bad: BadRows) -> BadRows:
    """Return bad rows with the codes of their reasons alone: details quote values."""
    return BadRows(bad.indices, pa.array(map(code_of, bad.reasons.to_pylist()), pa.string()))


def _mask_column(table: pa.Table, path: str, form: str) -> pa.Table:
    name, below = split_path(path, table.schema.names)
    place = table.schema.get_field_index(name)
    chunks = [_mask_array(chunk, below, form) for chunk in table.column(place).chunks]
    field = table.schema.field(place)
    return table.set_column(place, field, pa.chunked_array(chunks, field.type))


def _mask_array(values: pa.Array, path: str, form: str) -> pa.Array:
    if not path:
        return _FORMS[form](values)
    kind = values.type
    names = [field.name for field in kind]
    name, below = split_path(path, names)
    children = [
        _mask_array(values.field(at), below, form) if each == name else values.field(at)
        for at, each in enumerate(names)
    ]
    return pa.StructArray.from_arrays(children, fields=list(kind), mask=values.is_null())


def _digest(values: pa.StringArray) -> pa.StringArray:
    found = values.dictionary_encode()
    digests = [hashlib.sha256(each.as_py().encode()).hexdigest() for each in found.dictionary]
    return pa.array(digests, values.type).take(found.indices)


def _show_last(values: pa.StringArray) -> pa.StringArray:
    """Return values with a star for each character but the last; short ones are stars alone."""
    lengths = pc.utf8_length(values)
    is_short = pc.less_equal(lengths, SHOWN_CHARACTERS)
    hidden = pc.if_else(is_short, lengths, pc.subtract(lengths, SHOWN_CHARACTERS))
    stars = pc.binary_repeat(pa.scalar("*", values.type), hidden)
    last = pc.utf8_slice_codeunits(values, start=-SHOWN_CHARACTERS)
    return pc.binary_join_element_wise(
        stars, pc.if_else(is_short, pa.scalar("", values.type), last), pa.scalar("", values.type)
    )


def _hide(values: pa.Array) -> pa.Array:
    return pa.nulls(len(values), values.type)


_FORMS: dict[str, Callable[[pa.Array], pa.Array]] = {
    SHA256: _digest,
    LAST4: _show_last,
    NULL: _hide,
}
