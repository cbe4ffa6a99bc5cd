"""The nodes of the tree of a dataset's operations, and the inputs below; nothing runs or reads more than metadata."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from exoshuffle import _native
from exoshuffle.arguments import is_whole
from exoshuffle.dataset.inputs.block_input import BlockInput
from exoshuffle.dataset.inputs.left_out import LeftOut
from exoshuffle.dataset.inputs.ranges import RangeInput
from exoshuffle.dataset.inputs.reading import schema_of
from exoshuffle.errors import OptionsError, shown
from exoshuffle.late_dataclasses import dataclass
from exoshuffle.operators.core.keys import SortKey
from exoshuffle.operators.core.merge_join import MergeJoin
from exoshuffle.operators.core.order import ByKeys
from exoshuffle.operators.core.shuffle import Shuffle
from exoshuffle.operators.join.finish import join_of
from exoshuffle.operators.sort.shuffle import sort_shuffle
from exoshuffle.operators.steps.functions import MapBatches
from exoshuffle.operators.steps.needs import Needs
from exoshuffle.operators.steps.step import Step, steps_schema
from exoshuffle.plan.plan import check_num_partitions
from exoshuffle.strategies.library import AUTO, check_strategy, strategy_names
from exoshuffle.strategies.strategy import Strategy
from exoshuffle.units import counted

if TYPE_CHECKING:
    import pyarrow as pa

    from exoshuffle.operators.join.join import Join

#: Arrow counts rows with 64 bits.
MAX_ROWS = 2**63 - 1
#: In the place of a strategy: no shuffle at all.
WHOLE = "whole"


@dataclass(frozen=True)
class ShuffleOptions:
    """The options of a shuffle.

    Attributes:
        strategy: ``auto``, the name of a strategy, an instance, or ``whole`` for one task instead of a shuffle.
        num_partitions: Output partitions; default: as few as memory allows.
        target_bytes: Size of an output partition, instead of their number.

    Raises:
        OptionsError: A number of partitions or a strategy that cannot work.
    """

    strategy: str | Strategy = "auto"
    num_partitions: int | None = None
    target_bytes: int | None = None

    def __post_init__(self) -> None:
        check_strategy(self.strategy, [AUTO, WHOLE, *strategy_names()])
        if self.num_partitions is not None:
            check_num_partitions(self.num_partitions)
        if self.is_whole and (self.num_partitions, self.target_bytes) != (None, None):
            raise OptionsError(
                'strategy="whole" makes one partition; leave out num_partitions and the target size, or strategy'
            )

    @property
    def is_whole(self) -> bool:
        """Whether one task was asked for instead of a shuffle."""
        return self.strategy == WHOLE


@dataclass(frozen=True)
class Files:
    """Files that are read.

    Attributes:
        source: The files.
        left_out: Rows that are left out because they cannot be read; None if such a row is an error.
        num_pruned: Files that are left out because a filter lets no row of them through.
        kept: Open copies that are read in the place of some files; they live as long as this node; see ``spool``.
    """

    source: _native.Source
    left_out: LeftOut | None = None
    num_pruned: int = 0
    kept: tuple[object, ...] = ()

    @cached_property
    def schema(self) -> pa.Schema:
        """Schema of the rows."""
        return schema_of(self.source)

    @property
    def num_rows(self) -> int | None:
        """Number of rows, if it can be told without reading them."""
        return self.source.rows

    @property
    def children(self) -> tuple[Node, ...]:
        """The nodes whose rows this one takes."""
        return ()

    @property
    def label(self) -> str:
        """The operation, for people."""
        return counted(len(self.source.files), f"{self.source.format} file")


@dataclass(frozen=True)
class Given:
    """Rows that the program gave, instead of files.

    Attributes:
        rows: How they are read.
        schema: Schema of the rows.
        num_rows: Number of rows.
        num_bytes: Their size in the store; 0 where they are made as they are read.
        label: The function that took them, and what it took.
    """

    rows: BlockInput | RangeInput
    schema: pa.Schema
    num_rows: int
    num_bytes: int
    label: str

    @property
    def children(self) -> tuple[Node, ...]:
        """As in ``Files``."""
        return ()


class _Above:
    """The answers of a node that takes the rows of one other."""

    child: Node

    @property
    def children(self) -> tuple[Node, ...]:
        """As in ``Files``."""
        return (self.child,)


class _Stepping(_Above):
    """The answers of a node that applies a step to the rows of another."""

    step: Step

    @cached_property
    def schema(self) -> pa.Schema:
        """Schema of the rows."""
        return steps_schema((self.step,), self.child.schema)

    @property
    def num_rows(self) -> int | None:
        """As in ``Files``."""
        return None


@dataclass(frozen=True)
class MapNode(_Stepping):
    """Rows after a step that needs no shuffle."""

    child: Node
    step: Step

    @property
    def label(self) -> str:
        """As in ``Files``."""
        return type(self.step).__name__.lower()


@dataclass(frozen=True)
class ShuffleNode:
    """Rows after a shuffle of its children."""

    children: tuple[Node, ...]
    shuffle: Shuffle
    options: ShuffleOptions

    @property
    def join(self) -> Join | None:
        """The join, if the shuffle is one."""
        return join_of(self.shuffle)

    @property
    def schema(self) -> pa.Schema:
        """Schema of the rows."""
        return self.shuffle.schema

    @property
    def num_rows(self) -> int | None:
        """As in ``Files``."""
        return self.children[0].num_rows if self.shuffle.keeps_rows else None

    @property
    def label(self) -> str:
        """As in ``Files``."""
        keys = ", ".join(self.shuffle.sides[0].order.columns)
        return self.shuffle.name.removesuffix("_by") + (f" by {keys}" if keys else "")


@dataclass(frozen=True)
class UnionNode:
    """The rows of its children, one after the other."""

    children: tuple[Node, ...]

    @property
    def schema(self) -> pa.Schema:
        """Schema of the rows."""
        return self.children[0].schema

    @property
    def num_rows(self) -> int | None:
        """As in ``Files``."""
        rows = [child.num_rows for child in self.children]
        return None if None in rows else sum(row for row in rows if row is not None)

    @property
    def label(self) -> str:
        """As in ``Files``."""
        return "union"


@dataclass(frozen=True)
class LimitNode(_Above):
    """The first rows of its child."""

    child: Node
    count: int

    @property
    def schema(self) -> pa.Schema:
        """Schema of the rows."""
        return self.child.schema

    @property
    def num_rows(self) -> int | None:
        """As in ``Files``."""
        rows = self.child.num_rows
        return None if rows is None else min(rows, self.count)

    @property
    def label(self) -> str:
        """As in ``Files``."""
        return f"limit {self.count}"


@dataclass(frozen=True)
class StageNode(_Stepping):
    """The rows of its child after a user's function or class whose tasks have needs of their own: a stage.

    Attributes:
        child: The rows before it.
        step: The function or class, with its schema.
        needs: The resources that its tasks need.
    """

    child: Node
    step: MapBatches
    needs: Needs

    @property
    def label(self) -> str:
        """As in ``Files``."""
        return f"{self.step.name} on {self.needs}"


@dataclass(frozen=True)
class WindowNode(_Above):
    """The rows of its child, shuffled within windows, which are in random order.

    Attributes:
        child: Files, with steps.
        seed: Seed of the order.
        window: Number of rows, or a size as text.
    """

    child: Node
    seed: int
    window: int | str

    @property
    def schema(self) -> pa.Schema:
        """Schema of the rows."""
        return self.child.schema

    @property
    def num_rows(self) -> int | None:
        """As in ``Files``."""
        return self.child.num_rows

    @property
    def label(self) -> str:
        """As in ``Files``."""
        return f"random_shuffle within {self.window}"


@dataclass(frozen=True)
class MergeJoinNode:
    """The rows of two children, joined in the order of their keys.

    Attributes:
        children: The left side and the right side.
        join: How they are joined.
        options: How they are sorted.
    """

    children: tuple[Node, Node]
    join: MergeJoin
    options: ShuffleOptions

    def sorted_child(self, side: int) -> ShuffleNode:
        """Returns one of its children, sorted by its keys."""
        child = self.children[side]
        order = ByKeys(tuple(SortKey(key) for key in self.join.keys[side]))
        return ShuffleNode((child,), sort_shuffle(child.schema, order), self.options)

    @property
    def schema(self) -> pa.Schema:
        """Schema of the rows."""
        return self.join.output_schema

    @property
    def num_rows(self) -> int | None:
        """As in ``Files``."""
        return None

    @property
    def label(self) -> str:
        """As in ``Files``."""
        return f"{self.join.name} on {', '.join(self.join.keys[0])}"


Node = (
    Files
    | Given
    | MapNode
    | ShuffleNode
    | MergeJoinNode
    | UnionNode
    | LimitNode
    | StageNode
    | WindowNode
)


def sources(node: Node) -> list[_native.Source]:
    """Returns the sources of all files below a node."""
    if isinstance(node, Files):
        return [node.source]
    return [source for child in node.children for source in sources(child)]


def given(node: Node) -> list[Given]:
    """Returns the rows below a node that the program gave."""
    if isinstance(node, Given):
        return [node]
    return [found for child in node.children for found in given(child)]


def is_read(node: Node) -> bool:
    """Whether the rows come from files without any shuffle or limit."""
    if isinstance(node, MapNode | UnionNode):
        return all(map(is_read, node.children))
    return isinstance(node, Files)


def check_count(name: str, count: object) -> None:
    """Raises ``OptionsError`` unless an argument of this name is a number of rows."""
    if not is_whole(count) or count < 0:
        raise OptionsError(f"{name} is {shown(count)}; it must be a whole number from 0 on")
    if int(count) > MAX_ROWS:
        raise OptionsError(f"{name} is {count}; it must be at most 2**63 - 1, or left out")
