"""``Joining``: joins a dataset with another one, by equal keys or by near ones."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from exoshuffle.dataset.applying import Dataset
from exoshuffle.dataset.arguments_elsewhere import refuse_arguments
from exoshuffle.dataset.narrow import check_datasets
from exoshuffle.dataset.ordering import Ordering
from exoshuffle.dataset.tree.nodes import MergeJoinNode, ShuffleOptions
from exoshuffle.errors import OptionsError
from exoshuffle.operators.core.keys import names_of, once
from exoshuffle.strategies.strategy import Strategy

if TYPE_CHECKING:
    from exoshuffle.operators.asof.asof import Tolerance


class Joining(Ordering[Dataset]):
    """Joins of a dataset with another one."""

    def join(  # noqa: PLR0913  the arguments that users of pandas and Polars know
        self,
        other: Dataset,
        on: str | Sequence[str] | None = None,
        how: str = "inner",
        *,
        left_on: str | Sequence[str] | None = None,
        right_on: str | Sequence[str] | None = None,
        suffix: str = "_right",
        strategy: str | Strategy = "auto",
        num_partitions: int | None = None,
        **others: object,
    ) -> Dataset:
        """Joins with another dataset where keys are equal; null equals nothing, as in SQL.

        ``join_where`` joins by other conditions.

        Args:
            other: The right side.
            on: Key columns that both sides have; a repeated column changes nothing.
            how: ``inner``, ``left``, ``right``, ``full``, ``semi``, ``anti`` or ``cross``.
            left_on: Key columns of this side, where names differ.
            right_on: As many key columns of the other side; a repeated pair changes nothing.
            suffix: Added to columns of the right side whose names the left side has too.
            strategy: As in ``sort``.
            num_partitions: As in ``sort``.
            **others: As in ``sort``.

        Raises:
            OptionsError: Arguments that contradict each other; later, ``strategy`` or ``num_partitions`` for a cross
                join of two large sides.
            SchemaError: A column is unknown, or types of keys cannot be compared.

        Rows of a partition come in the order of the left side, and for each in that of the right side.

        Cost: as ``sort``, of both sides. It is less where a side is small: up to 16 MB, and a sixteenth of the memory
        that the limit leaves for data. If neither ``strategy`` nor ``num_partitions`` is given, every task that reads
        the other side gets the small one, and nothing is shuffled. The small side may be the right one of ``inner``,
        ``left``, ``semi`` and ``anti`` joins, and the left one of ``inner`` and ``right`` joins. A cross join takes
        either side as the small one; given one of the two arguments, it deals out the other side first. Where both
        sides are larger, a cross join puts both into the store. It makes a partition of the result for each two pieces
        of them.
        """
        from exoshuffle.operators.join.conditions import refuse_condition
        from exoshuffle.operators.join.join import JoinOptions, parse_join
        from exoshuffle.operators.join.shuffle import join_shuffle

        refuse_arguments("join", others)
        refuse_condition(on)
        check_datasets("join", [other])
        joined = parse_join(
            self.schema,
            other.schema,
            JoinOptions(
                on=None if on is None else names_of(on, "on"),
                left_on=None if left_on is None else names_of(left_on, "left_on"),
                right_on=None if right_on is None else names_of(right_on, "right_on"),
                how=how,
                suffix=suffix,
            ),
        )
        options = ShuffleOptions(strategy, num_partitions)
        return self._shuffled(join_shuffle(joined), options, (other.node,))

    def join_asof(  # noqa: PLR0913  the arguments that users of pandas and Polars know
        self,
        other: Dataset,
        on: str | None = None,
        *,
        left_on: str | None = None,
        right_on: str | None = None,
        by: str | Sequence[str] | None = None,
        direction: str = "backward",
        tolerance: Tolerance | None = None,
        suffix: str = "_right",
        strategy: str | Strategy = "auto",
    ) -> Dataset:
        """Joins each row with the nearest row of another dataset: quotes with trades, readings with settings.

        Every row of this side comes once, in the order of ``by`` and then ``on``, with nulls where nothing matches.

        Args:
            other: The right side.
            on: The column of both sides that has to be near, as a time or a number; once in the result.
            left_on: The column of this side, where names differ; the result then has both.
            right_on: The column of the other side.
            by: Column or columns of both sides that have to be equal; null equals nothing.
            direction: ``"backward"``, the last row of the other side that is not greater, or ``"forward"``, the first
                that is not smaller. ``"nearest"`` takes the nearer of these, and the later one if both are as near. The
                last of the rows with equal keys counts, with ``"forward"`` the first.
            tolerance: Rows further apart do not match: a number, or for times a ``timedelta`` or text such as
                ``"1h30m"``.
            suffix: Added to columns of the right side whose names the left side has too.
            strategy: Strategy of the sorts, as in ``sort``.

        Raises:
            OptionsError: Arguments that contradict each other, or a tolerance that does not fit the type of ``on``.
            SchemaError: A column is unknown, or types of keys cannot be compared.

        Cost: sorts both sides, except a side that is in the order of ``by`` and ``on`` already; then reads each
        once more, in pieces. A side that exceeds memory is spilled as in ``sort``, and once more as sorted pieces.
        """
        from exoshuffle.operators.asof.asof import DIRECTIONS, AsofOptions, parse_asof

        check_datasets("join_asof", [other])
        if strategy in DIRECTIONS:
            raise OptionsError(
                f"strategy says how rows are shuffled; write direction={strategy!r} for which row is near"
            )
        options = AsofOptions(
            on=on,
            left_on=left_on,
            right_on=right_on,
            by=() if by is None else once(names_of(by, "by")),
            direction=direction,
            tolerance=tolerance,
            suffix=suffix,
        )
        joined = parse_asof(self.schema, other.schema, options)
        node = MergeJoinNode((self.node, other.node), joined, ShuffleOptions(strategy))
        return self._made(node)
