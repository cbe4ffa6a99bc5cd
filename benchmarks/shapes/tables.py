"""The tables of a job, as its program gets them, and what the queries of TPC-H ask for at its scale."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

Frame = TypeVar("Frame")


@dataclass(frozen=True)
class Constants:
    """Constants of TPC-H's queries; the defaults are those of the specification at scale factor 1.

    Attributes:
        kind: Of ``q8``: how the type of parts begins.
        fraction: Of ``q11``: the share of a part in the value of all.
        container: Of ``q17``: how the container of parts begins.
        quantity: Of ``q18``: what orders have more of.
    """

    kind: str = "ECONOMY ANODIZED STEEL"
    fraction: float = 0.0001
    container: str = "MED BOX"
    quantity: int = 300


def constants_of(scale: float) -> Constants:
    """Returns the constants at a scale factor; below 1, those that leave some rows for the answers."""
    if scale < 1:
        return Constants("ECONOMY", 0.005, "MED", 250)
    return Constants(fraction=0.0001 / scale)


@dataclass(frozen=True)
class Tables(Generic[Frame]):
    """The tables of a job.

    Attributes:
        open: Opens a table by its name.
        constants: See ``Constants``.
    """

    open: Callable[[str], Frame]
    constants: Constants = Constants()

    def __call__(self, name: str) -> Frame:
        """Opens a table."""
        return self.open(name)
