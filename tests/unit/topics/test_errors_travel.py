"""An executor's error reaches the driver as what it is."""

import pickle

import pytest

from ashore.errors import AshoreError


def tree(cls=AshoreError):
    return [cls, *(below for sub in cls.__subclasses__() for below in tree(sub))]


@pytest.mark.parametrize("cls", tree(), ids=lambda cls: cls.__name__)
def test_every_error_survives_pickling_with_all_it_knows(cls):
    error = cls("it broke", hint="mend it", path="a/b", offset=7, names=("x", "y"))
    back = pickle.loads(pickle.dumps(error))
    assert type(back) is cls
    assert str(back) == "it broke"
    assert back.to_dict() == error.to_dict()
    assert (back.message, back.hint) == ("it broke", "mend it")
    assert back.fields == {"path": "a/b", "offset": 7, "names": ("x", "y")}
