"""A decoder that ends its process at some records, in every Python that a test starts from here."""

from pathlib import Path

import pytest

FATAL = b'{"id":1,"x":"die"}'
_MODULE = """
import os, signal
import pyarrow.compute as pc
from ashore.topics.decode.json import JsonDecoder
from ashore.topics.decode.json import NativeJsonDecoder
def make_dying(decoder):
    decode = decoder.decode
    def dying(self, values):
        if pc.any(pc.match_substring(values, "die")).as_py():
            os.kill(os.getpid(), signal.SIGSEGV)
        return decode(self, values)
    decoder.decode = dying
make_dying(JsonDecoder)
make_dying(NativeJsonDecoder)
"""


def install_dying_decoder(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have Pythons that are started from now on end with SIGSEGV when they decode FATAL."""
    (directory / "sitecustomize.py").write_text(_MODULE)
    monkeypatch.setenv("PYTHONPATH", str(directory))
