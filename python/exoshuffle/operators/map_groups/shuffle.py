"""The shuffle that hands groups to a function."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from exoshuffle.errors import OptionsError, shown
from exoshuffle.futures.callables import check_plain
from exoshuffle.operators.core.order import check_group_keys
from exoshuffle.operators.core.shuffle import Shuffle, Side
from exoshuffle.operators.gather.finish import Alone
from exoshuffle.operators.gather.shuffle import gathered, meeting
from exoshuffle.operators.map_groups.step import MapGroups
from exoshuffle.operators.sql.groups import check_keys
from exoshuffle.operators.sql.lengths import may_be_long
from exoshuffle.operators.steps.functions import ONE_TABLE, MapBatches

if TYPE_CHECKING:
    import pyarrow as pa

#: Copies of a large row of the result in a worker: pages of an encoder, as they are and compressed. A group of one row
#: of 100 MB, written to Parquet, took 436 MB of the worker, and 260 were set apart. Numbers make no long row. Lengths
#: of groups, one of 100 MB, were refused within 720 MB; the program takes 439 now.
RESULT_COPIES = 2


def map_groups_shuffle(
    schema: pa.Schema,
    keys: Sequence[str],
    call: MapBatches,
    learnt: Callable[[MapBatches, pa.Schema], MapBatches],
) -> Shuffle:
    """Returns a shuffle that hands each group of equal keys to a user's function.

    Args:
        schema: The schema of the rows.
        keys: The columns that are equal within a group.
        call: How to call the function.
        learnt: Finds the schema of the function's results, if it is not known.

    Raises:
        OptionsError: A key twice, or no function.
        SchemaError: A key is unknown, or cannot be one.
    """
    if not callable(call.function):
        raise OptionsError(f"map_groups needs a function, and got {shown(call.function)}")
    check_plain("map_groups", call.function, ONE_TABLE)
    check_keys(schema, keys)
    check_group_keys(schema, keys)
    step = MapGroups(tuple(keys), learnt(call, schema))
    # A group alone is handed over as it came; a function that declares nothing may copy it once.
    declared = call.declared_bytes
    result = step.output_schema(schema)
    copies = RESULT_COPIES if any(map(may_be_long, result.types)) else 0
    alone = Alone(0 if declared else 100, 0, declared, copies)
    finish = dataclasses.replace(gathered(schema, keys, step), alone=alone)
    side = Side(schema, finish.config.order)
    shuffle = meeting("map_groups", keys, side, finish, result)
    return dataclasses.replace(shuffle, executor="process", meets_by=())
