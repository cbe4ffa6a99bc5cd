"""Decides how spilled bytes are compressed: by name, or by the kind of disk that they go to."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, get_args

from exoshuffle.errors import OptionsError, shown
from exoshuffle.observe.disks import disk_kind

#: The values of the option that ``init`` takes.
SpillCompression = Literal["auto", "none", "lz4", "zstd"]


def codec_of(asked: SpillCompression, directories: Sequence[str]) -> str | None:
    """Returns the codec of spilled bytes; None if they stay as they are.

    LZ4 packs about 0.5 GB a second on one CPU. An SSD writes 1 GB a second, and a volume of a cloud 125 MB.

    Args:
        asked: ``"auto"``, ``"none"``, or the codec.
        directories: The spill directories.

    Raises:
        OptionsError: No such choice.
    """
    if asked not in get_args(SpillCompression):
        choices = ", ".join(map(repr, get_args(SpillCompression)))
        raise OptionsError(f"spill_compression is {shown(asked)}; give one of {choices}")
    if asked != "auto":
        return None if asked == "none" else asked
    return None if disk_kind(directories) == "ssd" else "lz4"
