"""Online aggregation: a program watches the results of groups while they are computed.

Guarantee: the same seed, input and engine settings give the same partial results. The last one has the rows of
``to_arrow()`` (sums of floats up to rounding). A program that stops taking results ends the shuffle: only submitted
tasks, a round at most, still run.

Why only by the strategy ``streaming``: no other has states after a round. Why a round ahead: workers must not wait for
a program that looks at a result.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from exoshuffle.dataset.execute import Execution
from exoshuffle.dataset.jobs.bad_rows import write_bad_rows
from exoshuffle.dataset.jobs.following import in_advance
from exoshuffle.dataset.jobs.plain_errors import PlainErrors
from exoshuffle.dataset.jobs.shuffle import ShuffleJob
from exoshuffle.dataset.partial import Partial
from exoshuffle.dataset.tree.nodes import Node, ShuffleNode, ShuffleOptions
from exoshuffle.futures import Ref, current_engine, get
from exoshuffle.late_dataclasses import dataclass
from exoshuffle.operators.arrow_values import no_rows
from exoshuffle.operators.core.inputs import MapInput
from exoshuffle.operators.core.shuffle import rows_config
from exoshuffle.operators.core.sinks import BlocksSink
from exoshuffle.operators.core.tasks import TableTasks
from exoshuffle.operators.group_by.aggregate import GroupBy
from exoshuffle.operators.online.estimates import Sample
from exoshuffle.operators.online.online import Online, parse_online
from exoshuffle.operators.online.tasks import (
    OnlineTasks,
    shuffle_online,
    stored_table,
    summary_step,
)
from exoshuffle.strategies.streaming import Streaming
from exoshuffle.strategies.task_set import stage

if TYPE_CHECKING:
    import pyarrow as pa

#: The fewest splits of an input, unless they would be smaller than ``MIN_SPLIT_BYTES``: errors are computed from the
#: spread between splits. A task takes some milliseconds beside its rows; reading that many bytes takes about as long.
NUM_SPLITS = 32
MIN_SPLIT_BYTES = 100_000
#: Most rounds: each merges all groups once more.
NUM_ROUNDS = 16


@dataclass(frozen=True)
class _Split:
    """The input of one map.

    Attributes:
        source: Reads the item, with the summary of this split as the last step.
        item: The item to read.
        size: About how many rows it has, known before it is read.
    """

    source: MapInput
    item: object
    size: float


def partials(
    groups: Node, grouping: GroupBy, options: ShuffleOptions, seed: int
) -> Iterator[Partial]:
    """Yields the results of ``Aggregated.stream``, from the node of its groups.

    Raises:
        OptionsError: At once, as ``Aggregated.stream`` says.
    """
    online = parse_online(grouping)
    options = replace(options, strategy="simple")
    return _partials(ShuffleNode(groups.children, shuffle_online(online), options), online, seed)


def _partials(node: ShuffleNode, online: Online, seed: int) -> Iterator[Partial]:
    engine = current_engine()
    with PlainErrors():
        write_bad_rows(node, engine)
        job = Execution(engine).shuffle_job(node, "blocks")
        splits = _splits(job, online)
        random.Random(seed).shuffle(splits)
        # The first result should come early, but every CPU must have work.
        round_size = max(engine.num_cpus, -(-len(splits) // NUM_ROUNDS))
        sizes = tuple(split.size for split in splits)
        for num_seen, refs in in_advance(_rounds(job, online, splits, round_size), 1):
            yield Partial(Sample(sizes, num_seen).fraction, _table(refs, online), seed)


def _rounds(
    job: ShuffleJob, online: Online, splits: Sequence[_Split], round_size: int
) -> Iterator[tuple[int, list[Ref]]]:
    """Yields after each round the number of splits read and the results of all partitions; taking them starts work."""
    sizes = tuple(split.size for split in splits)
    tasks = OnlineTasks(online, sizes, _table_tasks(job, splits))
    run_estimate = stage(tasks, "estimate", memory=job.plan.reduce_memory_bytes)
    rounds = Streaming(round_size=round_size).rounds(
        tasks, [split.item for split in splits], job.plan
    )
    for folded in rounds:
        yield (
            folded.num_maps,
            [
                run_estimate.remote(partition, state, folded.num_maps)
                for partition, state in enumerate(folded.states)
            ],
        )


def _splits(job: ShuffleJob, online: Online) -> list[_Split]:
    """Returns the splits of the input, in order."""
    total = sum(max(work.total_bytes, work.read_bytes) for work in job.workloads)
    size = min(job.plan.split_bytes, max(MIN_SPLIT_BYTES, total // NUM_SPLITS))
    splits: list[_Split] = []
    for (source, side), work in zip(job.inputs, job.workloads, strict=True):
        items = source.cut(side, size, work)
        for item, num_rows in zip(items, source.num_rows(items, work), strict=True):
            step = summary_step(online, len(splits), num_rows)
            splits.append(_Split(source.map_input(replace(side, steps=(step,))), item, num_rows))
    return splits


def _table_tasks(job: ShuffleJob, splits: Sequence[_Split]) -> TableTasks:
    shuffle = job.shuffle
    rows = rows_config(shuffle.schema, shuffle.sides[0].order).build()
    return TableTasks(
        shuffle.name,
        tuple(split.source for split in splits),
        tuple(range(len(splits))),
        len(splits),
        shuffle.assign(rows, [], job.plan.num_partitions),
        shuffle.finish,
        BlocksSink(),
        job.executor,
    )


def _table(refs: Sequence[Ref], online: Online) -> pa.Table:
    import pyarrow as pa

    # Copies, because tables that lie in blocks would keep the blocks in memory as long as the program has the tables.
    tables = (stored_table(bytes(get(ref))) for ref in refs)
    return pa.concat_tables([no_rows(online.output_schema), *tables])
