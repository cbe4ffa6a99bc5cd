"""Checks the number of rows of a result against that of its input, where an operation keeps rows."""

from __future__ import annotations

from exoshuffle.dataset.tree.nodes import Node
from exoshuffle.errors import ShuffleCheckError


def check_rows(node: Node, num_rows: int) -> None:
    """Checks that a tree made as many rows as it should, where that number is known beforehand.

    Each partition has been checked when it was made (``operators.core.checks``). This check finds a partition that is
    missing as a whole, or that is there twice.

    Raises:
        ShuffleCheckError: The numbers differ.
    """
    if node.num_rows is not None and num_rows != node.num_rows:
        raise ShuffleCheckError(
            f"{node.num_rows} rows were read, and {num_rows} came out; the result is wrong, so run it again, and "
            "report this if it comes back"
        )
