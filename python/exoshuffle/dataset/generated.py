"""``from_generator``: a dataset of what a generator function of users yields, or an iterator of theirs."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from exoshuffle.dataset.arguments_elsewhere import refuse_arguments
from exoshuffle.dataset.dataset import Dataset
from exoshuffle.dataset.given import kept
from exoshuffle.dataset.given import range as one_row_each
from exoshuffle.dataset.inputs.tables import names_of
from exoshuffle.dataset.jobs.learning import learnt_from
from exoshuffle.dataset.tree.nodes import MapNode
from exoshuffle.errors import OptionsError, shown
from exoshuffle.operators.steps.generated import Generate
from exoshuffle.operators.steps.items import first_items, schema_of_items, tables_of_items
from exoshuffle.operators.steps.needs import Needs
from exoshuffle.units import option_bytes

if TYPE_CHECKING:
    import pyarrow as pa

_CALL = "from_generator"


def from_generator(
    generator: Callable[..., Iterable[Any]] | Iterable[Any],
    *,
    schema: pa.Schema | None = None,
    gen_kwargs: Mapping[str, object] | None = None,
    memory: int | str = 0,
    **others: object,
) -> Dataset:
    """Makes a dataset of what a generator yields: rows as dictionaries, Arrow batches, or values of a column ``item``.

    A function is called in a worker process, anew each time that rows are asked for, and its rows are not kept. It may
    go on without end where ``limit``, or a program that stops iterating, ends it. An iterator can be read only once,
    so it is read at once, and its rows are kept in the store, as those of ``from_arrow``.

    >>> xs.from_generator(frames, gen_kwargs={"path": "clip.mp4"}).limit(1000).write_parquet("out/")

    Args:
        generator: A generator function, or any function that returns an iterable; it must yield the same rows whenever
            it is called. Or an iterable.
        schema: Names and types of the columns. Default: those of the first items, 16 at most; it is called once for
            these.
        gen_kwargs: Arguments of the function.
        memory: Most memory that the function takes beside what it yields, as in ``map_batches``.
        **others: None; arguments of Hugging Face's are refused with what to write instead.

    Returns:
        A dataset; a key that a row lacks is null there.

    Raises:
        OptionsError: Neither a function nor an iterable, or an argument that cannot work.
        SchemaError: Nothing was yielded, and there is no schema; or, later too, rows that do not fit it.

    Cost: one task calls the function, so it is as fast as one process; what comes behind it runs beside it.
    """
    refuse_arguments(_CALL, others)
    if schema is not None:
        names_of(schema)
    if not isinstance(gen_kwargs, Mapping | None):
        raise OptionsError(f"gen_kwargs is {shown(gen_kwargs)}; give a dictionary of arguments")
    declared = option_bytes("memory", memory, 0)
    if isinstance(generator, Iterable) and not isinstance(generator, str | bytes | Mapping | type):
        if gen_kwargs:
            raise OptionsError(
                "from_generator got an iterator with gen_kwargs; give the function that makes it, uncalled"
            )
        return _kept_items(generator, schema)
    if not callable(generator):
        raise OptionsError(
            f"from_generator takes a generator function or an iterable of rows, and got {shown(generator)}"
        )
    function = functools.partial(generator, **gen_kwargs) if gen_kwargs else generator
    step = Generate(_named(function, generator), schema, memory_bytes=declared)
    one = one_row_each(1)
    made = learnt_from(step, one.head(1), Needs()) if schema is None else step
    return Dataset(MapNode(one.node, made.resolved(one.schema)))


def _named(function: Callable[..., Any], named: object) -> Callable[..., Any]:
    """Returns the function under the name of another one, for messages."""
    if function is not named:
        functools.update_wrapper(function, named)  # type: ignore[arg-type]  # it is callable
    return function


def _kept_items(items: Iterable[object], schema: pa.Schema | None) -> Dataset:
    """Puts what an iterable yields into the store."""
    import pyarrow as pa

    iterator = iter(items)
    if schema is None:
        first = first_items(iterator)
        schema = schema_of_items(_CALL, first)
        iterator = itertools.chain(first, iterator)
    tables = tables_of_items(_CALL, iterator, schema)
    batches = (batch for table in tables for batch in table.to_batches())
    return kept(_CALL, pa.RecordBatchReader.from_batches(schema, batches))
