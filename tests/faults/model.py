"""The model that the fuzz test compares with: the values that a random program over references has to read."""

from __future__ import annotations

import functools
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import exoshuffle as xs
from exoshuffle.futures import SliceRef
from exoshuffle.testing.meeting import PATIENCE_SECONDS
from tests.faults import programs


@dataclass(frozen=True)
class Leaf:
    """A payload, or a number (``size`` 0)."""

    seed: int
    size: int = 0

    @functools.cached_property
    def digest(self) -> int:
        if self.size == 0:
            return zlib.crc32(self.seed.to_bytes(8, "little"))
        return zlib.crc32(programs.payload(self.seed, self.size))


@dataclass(frozen=True)
class Group:
    """A list of values (the slices of an object), or of references."""

    parts: tuple[Spec, ...]
    are_references: bool = False

    @functools.cached_property
    def digest(self) -> int:
        return zlib.crc32(digest_of(self.parts).to_bytes(8, "little"))


Spec = Leaf | Group


def digest_of(specs: Sequence[Spec]) -> int:
    """Returns the number that ``programs.digest`` returns for values of these specs."""
    total = 0
    for spec in specs:
        total = _crc_of(spec, total)
    return total


def _crc_of(spec: Spec, start: int) -> int:
    if isinstance(spec, Group):
        return zlib.crc32(digest_of(spec.parts).to_bytes(8, "little"), start)
    if spec.size == 0:
        return zlib.crc32(spec.seed.to_bytes(8, "little"), start)
    return zlib.crc32(programs.payload(spec.seed, spec.size), start)


@dataclass(eq=False)
class Risk:
    """Something that may make values fail: a cancelled task, the death of an actor."""

    error: type[BaseException]
    happened: bool = False


@dataclass(eq=False)
class Entry:
    """A reference and its expected value, unless one of its risks has happened.

    Attributes:
        ref: The reference.
        spec: The value that it must have.
        risks: Its own risks and those of everything it was made of.
        cancelled: The risk among them that happens when it is cancelled.
    """

    ref: xs.Ref | SliceRef
    spec: Spec
    risks: frozenset[Risk] = frozenset()
    cancelled: Risk | None = None

    def check(self) -> bool:
        """Reads it, and all that it refers to; returns whether it is still there.

        Raises:
            AssertionError: It reads as something else.
            BaseException: It fails, and none of its risks explains how.
        """
        try:
            _compare(self.spec, xs.get(self.ref, timeout=PATIENCE_SECONDS))
        except Exception as error:
            if not any(risk.happened and _is_due_to(error, risk.error) for risk in self.risks):
                raise
            return False
        return True


def _compare(spec: Spec, value: Any) -> None:
    if isinstance(spec, Group):
        assert len(value) == len(spec.parts)
        for part, found in zip(spec.parts, value, strict=True):
            if spec.are_references:
                assert isinstance(found, xs.Ref | SliceRef)
                _compare(part, xs.get(found, timeout=PATIENCE_SECONDS))
            else:
                _compare(part, found)
    else:
        assert programs.digest(value) == digest_of([spec])


def _is_due_to(error: BaseException | None, kind: type[BaseException]) -> bool:
    while error is not None:
        if isinstance(error, kind):
            return True
        error = error.__cause__
    return False
