"""The state of training, in a few bytes that are equal on every rank, and the check that a state fits a loader.

Guarantee: a state says nothing of ranks, batch sizes, memory or engines, so a loader with others goes on at the same
row. A state of other rows, or of another order of them, is refused, and the refusal names the difference.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from exoshuffle.arguments import is_whole
from exoshuffle.errors import OptionsError, shown
from exoshuffle.late_dataclasses import dataclass

#: Changes with every change of what a seed means.
VERSION = 1


@dataclass(frozen=True)
class Cursor:
    """The next row: those before it have been handed over.

    Attributes:
        epoch: Number of the epoch, from 0.
        row: Number of the row in the order of the epoch.
    """

    epoch: int = 0
    row: int = 0


@dataclass(frozen=True)
class Identity:
    """The facts that decide which rows come, and in which order.

    Attributes:
        shuffle: The order: True, False, or the size of a window.
        files: Number of files.
        rows: Number of their rows; None where they do not tell.
        fingerprint: See ``file_rows.fingerprint``.
    """

    shuffle: bool | str
    files: int
    rows: int | None
    fingerprint: str

    def state(self, seed: int, cursor: Cursor) -> dict[str, Any]:
        """Returns the state, of values that JSON has: less than 200 bytes of it."""
        if cursor.row == self.rows:
            cursor = Cursor(cursor.epoch + 1)
        return {
            "version": VERSION,
            "seed": seed,
            "epoch": cursor.epoch,
            "row": cursor.row,
            "shuffle": self.shuffle,
            "files": self.files,
            "rows": self.rows,
            "data": self.fingerprint,
        }

    def loaded(self, state: object, seed: int | None) -> tuple[int, Cursor]:
        """Returns the seed and the cursor of a state; ``seed`` is that of the loader, if it was given one.

        Raises:
            OptionsError: It is no state, or one of another version, seed, order or of other rows.
        """
        if not isinstance(state, Mapping):
            raise OptionsError(f"state is {shown(state)}; give what state_dict() returned")
        _refuse_other(
            "version", state.get("version"), VERSION, "go on with the release that saved it"
        )
        for name in ("seed", "epoch", "row"):
            value = state.get(name)
            if not is_whole(value) or value < 0:
                raise OptionsError(
                    f"state has {name} {shown(value)}; give what state_dict() returned, unchanged"
                )
        if seed is not None:
            _refuse_other(
                "seed", state["seed"], seed, "make the loader with that seed, or without one"
            )
        _refuse_other("shuffle", state.get("shuffle"), self.shuffle, "make the loader with that")
        same = "give the dataset of the same files, or the mixture with the same weights and stop"
        _refuse_other("files", state.get("files"), self.files, same)
        _refuse_other("rows", state.get("rows"), self.rows, same)
        if state.get("data") != self.fingerprint:
            raise OptionsError(
                "state is of other rows: the numbers of files and rows agree; names or sizes of files, filters, or "
                "weights do not. Give the dataset or the mixture that saved it"
            )
        if self.rows is not None and state["row"] > self.rows:
            raise OptionsError(
                f"state has row {state['row']} of {self.rows}; give what state_dict() returned, unchanged"
            )
        return int(state["seed"]), Cursor(int(state["epoch"]), int(state["row"]))


def _refuse_other(name: str, found: object, own: object, remedy: str) -> None:
    if type(found) is not type(own) or found != own:
        raise OptionsError(
            f"state has {name} {shown(found)}, and this loader has {shown(own)}; {remedy}"
        )
