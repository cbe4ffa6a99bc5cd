"""Whether users' functions return their batches as they got them: the rows of such a task lie in the store already.

Guarantee: only what is the very table that a function was given counts as unchanged. Tables cannot be written to.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa


class Unchanged:
    """The batches that the functions of a task were given, and those that they have returned so far."""

    def __init__(self) -> None:
        self._given_rows = self._same_rows = 0

    def give(self, given: pa.Table) -> None:
        """Notes a batch that a function is about to get; if it fails, the batch counts as changed."""
        self._given_rows += given.num_rows

    def take(self, given: pa.Table, made: object) -> None:
        """Notes what the function has made of the batch."""
        is_same = made is given
        if is_same:
            self._same_rows += given.num_rows

    @property
    def is_so(self) -> bool:
        """Whether all batches came back as they were."""
        return self._same_rows == self._given_rows
