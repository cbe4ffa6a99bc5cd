"""File formats as the native module knows them: its registry is the only list of them."""

from __future__ import annotations

from exoshuffle import _native

#: The formats by their names, in the order of messages.
FORMATS = {known.name: known for known in _native.formats()}
