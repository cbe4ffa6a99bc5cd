"""The shuffle of online aggregation: maps make states of splits, folds merge them, and estimates make results.

Guarantee: a state says how many maps it has the output of, so a round that is lost or comes twice is found. Otherwise
slices are checked as everywhere.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence
from typing import TYPE_CHECKING

from exoshuffle.errors import ShuffleCheckError
from exoshuffle.futures import Value
from exoshuffle.futures.engine import BlockBuffer
from exoshuffle.late_dataclasses import dataclass
from exoshuffle.operators.core.at_once import AtOnce
from exoshuffle.operators.core.checks import opened, placed
from exoshuffle.operators.core.shuffle import Shuffle, Side
from exoshuffle.operators.core.sinks import block_of
from exoshuffle.operators.core.streams import as_reader, as_rows, own_errors
from exoshuffle.operators.core.tasks import TableTasks
from exoshuffle.operators.gather.shuffle import gathered, meeting
from exoshuffle.operators.online.estimates import Sample
from exoshuffle.operators.online.online import Online

if TYPE_CHECKING:
    import pyarrow as pa
    from typing_extensions import Buffer

    from exoshuffle.futures.options import Executor

#: The key in a state's schema for the number of maps whose output it has.
_NUM_MAPS = b"num_maps"


def shuffle_online(online: Online) -> Shuffle:
    """Returns the shuffle whose maps make states of splits; ``OnlineTasks`` does the rest with a partition."""
    keys, schema = online.grouping.keys, online.state_schema
    finish = gathered(schema, keys)
    side = Side(schema, finish.config.order, (summary_step(online, 0, 1.0),))
    made = meeting("group_by", keys, side, finish, schema)
    return dataclasses.replace(made, is_one_group=not keys, reduce_row_bytes=0)


def summary_step(online: Online, split: int, size: float) -> AtOnce:
    """Returns the step that makes the state of a split of this number and size."""
    summary = functools.partial(online.summary, split=split, size=size)
    return AtOnce(summary, online.state_schema, online.grouping.columns)


@dataclass(frozen=True)
class OnlineTasks:
    """``StreamingTaskSet`` of online aggregation; states are blocks, which hold Arrow streams.

    Attributes:
        online: The aggregation.
        sizes: The sizes of the splits, as in ``Sample``; one for each map.
        tables: Runs the maps, and gathers slices.
    """

    online: Online
    sizes: Sequence[float]
    tables: TableTasks

    @property
    def executor(self) -> Executor:
        """See ``StreamingTaskSet``."""
        return self.tables.executor

    def functions_bytes(self, name: str) -> int:
        """Returns the memory declared by the users' functions in the tasks of this name: only maps have any."""
        return self.tables.functions_bytes(name) if name == "map" else 0

    def map(self, index: int, item: Value) -> BlockBuffer:
        """Makes the state of a split and scatters its groups."""
        return self.tables.map(index, item)

    def fold(self, partition: int, state: Buffer | None, slices: list[Buffer]) -> BlockBuffer:
        """Returns the state of a partition after one more round.

        Raises:
            ShuffleCheckError: The slices are not those of the maps that follow the ones in the state.
        """
        states = [] if state is None else [stored_table(state)]
        before = sum(map(_num_maps, states))
        with (
            placed(self._place(partition)),
            opened(slices, partition, before, None) as sections,
        ):
            states.insert(0, as_reader(self.tables.finish(sections)).read_all())
        num_maps = {_NUM_MAPS: str(before + len(sections))}
        return _stored(self.online.merged(states).replace_schema_metadata(num_maps))

    def estimate(self, partition: int, state: Buffer, num_seen: int) -> object:
        """Returns the result of a partition after so many maps.

        Raises:
            ShuffleCheckError: The state has the output of fewer maps, or of more.
        """
        table = stored_table(state)
        with placed(self._place(partition)):
            if _num_maps(table) != num_seen:
                raise ShuffleCheckError(
                    f"got the output of {_num_maps(table)} maps, not {num_seen}"
                )
        sample = Sample(self.sizes, num_seen)
        return _stored(self.online.result(table, sample))

    def _place(self, partition: int) -> str:
        return f"the fold of partition {partition} of {self.tables.name}"


def _stored(table: pa.Table) -> BlockBuffer:
    with own_errors():
        return block_of(as_rows(table.to_reader()))


def _num_maps(state: pa.Table) -> int:
    """Returns the number of maps whose output a state has."""
    return int(state.schema.metadata[_NUM_MAPS])


def stored_table(block: Buffer) -> pa.Table:
    """Returns the table in a block; its columns lie in the block itself."""
    import pyarrow as pa

    with pa.ipc.open_stream(pa.py_buffer(block)) as reader:
        return reader.read_all()
