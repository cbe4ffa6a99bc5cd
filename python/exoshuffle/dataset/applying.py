"""``Applying``: a dataset behind steps, among them the functions and classes of users that get its rows."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar, cast

from exoshuffle.arguments import check_function, is_whole
from exoshuffle.dataset.arguments_elsewhere import ARGUMENTS, refuse_arguments
from exoshuffle.dataset.jobs.learning import few_of, learnt, learnt_from, totals
from exoshuffle.dataset.looking import Looking
from exoshuffle.dataset.taken import Taken
from exoshuffle.dataset.tree.first_rows import first_rows
from exoshuffle.dataset.tree.nodes import MapNode, Node, StageNode, UnionNode
from exoshuffle.dataset.tree.pruning import pruned
from exoshuffle.errors import OptionsError, SkippedWarning, shown
from exoshuffle.futures import current_engine
from exoshuffle.futures.callables import check_not_async, is_generator
from exoshuffle.operators.batch_formats import check_batch_format, with_format
from exoshuffle.operators.steps.classes import Arguments, UserClass
from exoshuffle.operators.steps.functions import MapBatches
from exoshuffle.operators.steps.needs import Needs, needs_of
from exoshuffle.operators.steps.rows import LEARNT_ROWS, FlatMap, each_once
from exoshuffle.operators.steps.skipping import OnError, check_on_error
from exoshuffle.operators.steps.step import Step
from exoshuffle.units import option_bytes

if TYPE_CHECKING:
    import pyarrow as pa

#: The result of operations. The class of that name inherits from ``Narrow``, so its file imports this one.
Dataset = TypeVar("Dataset", bound=Looking)
#: Steps that follow each other: each takes rows from the one before. Python's stack had room for 300, but not for 400.
MAX_STEPS = 256


class Applying(Looking, Generic[Dataset]):
    """Steps on the rows of a dataset, and users' functions of rows and batches."""

    def map_batches(  # noqa: PLR0913  the arguments that Ray Data has for it
        self,
        function: Callable[[Any], object] | type,
        *,
        schema: pa.Schema | None = None,
        memory: int | str = 0,
        batch_size: int | None = None,
        batch_format: str = "pyarrow",
        fn_args: Sequence[object] = (),
        fn_kwargs: Mapping[str, object] | None = None,
        fn_constructor_args: Sequence[object] = (),
        fn_constructor_kwargs: Mapping[str, object] | None = None,
        num_cpus: float | None = None,
        num_gpus: float = 0,
        resources: Mapping[str, float] | None = None,
        concurrency: int | tuple[int, int] | None = None,
        ordered: bool = True,
        on_error: str = "raise",
        **others: object,
    ) -> Dataset:
        """Hands batches of rows to a function of yours, which runs in worker processes, or to objects of a class.

        A class, and a function that needs something else than one CPU, is a *stage* of its own. Its tasks run beside
        those of other stages, part by part, as many as resources and memory allow. ``explain()`` tells the stages, and
        docs/how-the-scheduler-decides.md how they are scheduled.

        Args:
            function: From a ``pyarrow.Table`` to a table, a record batch or a dictionary of columns. It must give the
                same result for the same rows, since a task may run again. Lists in a dictionary get the types of the
                schema; values that these cannot hold exactly are refused (numbers go to the nearest float). Objects of
                a class are made in worker processes, and each is called with many batches: ``__call__(self, batch)``.
            schema: Schema of its results. Default: that of its result for no rows. If it fails without any, it gets the
                first rows, where these can be read without a shuffle. It is called for that in a worker process, and
                an object of a class is made for it.
            memory: Most memory that it takes beside a batch and its result, in bytes or as text (``"300MB"``). So much
                is set apart for each of its tasks, and as many run at once as have room. If it takes more, with the
                processes that it starts, the rest of the memory limit has to give it. Ray schedules tasks by this
                number; only Ray's own watch over the memory of a node ends a task that takes more.
            batch_size: Rows of each batch, but the last one of a task. Default: as they come.
            batch_format: The form of batches, in which the function may return its result, too. It is ``"pandas"`` or
                ``"polars"`` for frames, ``"numpy"`` for a dictionary of arrays, ``"torch"`` or ``"jax"`` for one of
                tensors. Tensors of one shape are one array with an axis more, also in what comes back. Each but tensors
                costs a copy, and loading the library up to 90 MB (PyTorch and JAX several times that) in each worker
                process. Declare these by ``memory`` if the memory limit is below 1 GB.
            fn_args: Further arguments of each call, behind the batch.
            fn_kwargs: Named ones.
            fn_constructor_args: Arguments of the constructor of a class.
            fn_constructor_kwargs: Named ones.
            num_cpus: CPUs of a task. Default: 1, or 0 if it needs GPUs.
            num_gpus: Declared GPUs of a task, or of an object for as long as it lives; the engine counts them.
            resources: Further declared resources by name, likewise.
            concurrency: How many tasks run at once, or how many objects live; for these also the least and the most,
                ``(0, 4)``. Default: as many tasks as there is room for, and at most one object.
            ordered: Whether rows keep their order. False hands parts on as they are done, if this is the last stage.
            on_error: ``"skip"`` leaves out batches for which the function fails, or returns what fits no schema. Such
                rows are counted and named in the result of ``write_*``, and a warning tells of them. A lack of
                the machine, such as one of memory, still raises. A function that may skip is a stage.
            **others: None; arguments of Ray Data are refused with what to write instead.

        Raises:
            OptionsError: An argument is no function, no schema, or no size; a class has no ``__call__``; or more is
                asked for than the engine has.
            SchemaError: While running: it returned another schema.
            FunctionMemoryError: While running: it took more memory than that, and the limit had no more.
            NondeterminismError: While running: it made fewer rows when it was called again.
        """
        refuse_arguments("map_batches", others)
        declared = option_bytes("memory", memory, 0)
        if batch_size is not None and (not is_whole(batch_size) or batch_size < 1):
            raise OptionsError(
                f"batch_size is {shown(batch_size)}; it must be a whole number from 1 on"
            )
        needs = needs_of(num_cpus, num_gpus, resources, concurrency, ordered=ordered)
        further = _arguments("fn", fn_args, fn_kwargs)
        made_with = _arguments("fn_constructor", fn_constructor_args, fn_constructor_kwargs)
        called = _called(function, batch_format, further, made_with)
        step = MapBatches(
            called,
            schema,
            memory_bytes=declared,
            batch_size=batch_size,
            on_error=check_on_error(on_error),
        )
        return self._with_function(step, needs)

    def map(
        self,
        function: Callable[[dict[str, Any]], Mapping[str, object]],
        *,
        schema: pa.Schema | None = None,
        **options: Any,
    ) -> Dataset:
        """Hands rows one by one to a function of yours, as dictionaries, and takes one for each; see ``flat_map``."""
        check_function("function", function)
        check_not_async("map", function)
        if is_generator(function):
            raise OptionsError(
                "map got a generator, which makes several rows of one; write flat_map"
            )
        each = function if isinstance(function, type) else each_once(function)
        return self._rows_mapped("map", each, schema, options)

    def flat_map(
        self,
        function: Callable[[dict[str, Any]], Iterable[Mapping[str, object]]],
        *,
        schema: pa.Schema | None = None,
        **options: Any,
    ) -> Dataset:
        """Hands rows one by one to a function of yours, as dictionaries, which returns rows or yields them.

        Args:
            function: From a dictionary to a list of dictionaries, or a generator of them. It must give the same rows
                for the same row.
            schema: Schema of its rows. Default: that of what it makes of the first 16 rows, where these can be read
                without a shuffle. Behind one, it is that of the rows before. Columns that were there keep their types
                if these hold the values.
            **options: ``memory``, ``num_cpus``, ``num_gpus``, ``resources``, ``concurrency``, ``ordered``, ``fn_args``,
                ``fn_kwargs`` and ``on_error``, as in ``map_batches``. A row is skipped alone; rows that a
                generator had made of it stay.

        Raises:
            OptionsError: An argument is no function, or an option cannot work.
            SchemaError: While running: it made rows of another schema.

        Cost: Python objects for all values, so ``map_batches`` is faster by far where its work is small. Of the rows
        that are made of one row, some megabytes are held at a time.
        """
        return self._rows_mapped("flat_map", function, schema, options)

    def _rows_mapped(
        self,
        call: str,
        function: Callable[..., Any],
        schema: pa.Schema | None,
        options: Mapping[str, Any],
    ) -> Dataset:
        given = options_of_rows(call, options)
        if isinstance(function, type):
            raise OptionsError(
                f"{call} got the class {function.__qualname__}; give a function, or give the class to map_batches, "
                "whose objects get batches"
            )
        step = FlatMap(
            given.further.bound(function),
            schema,
            memory_bytes=given.memory_bytes,
            on_error=given.on_error,
            call=call,
        )
        needs = given.needs
        if schema is None:
            needs.check(totals(current_engine()))
            step = self._learnt_from_rows(step, needs)
        return self._with_function(step, needs)

    def _learnt_from_rows(self, step: FlatMap, needs: Needs) -> FlatMap:
        """Returns the step with the schema of what it makes of the first rows, if they are cheap to get."""
        rows = self._first_rows()
        return replace(step, schema=self.schema) if rows is None else learnt_from(step, rows, needs)

    def _first_rows(self, steps: tuple[Step, ...] = ()) -> pa.Table | None:
        """Returns a few of the first rows behind steps, if they are cheap to get."""
        node = first_rows(self._stepped(*steps).node, LEARNT_ROWS)
        if node is None:
            return None
        with warnings.catch_warnings():
            # Rows that are skipped here are told of when the dataset runs.
            warnings.simplefilter("ignore", SkippedWarning)
            return few_of(Taken(node).iter_batches(), self._stepped(*steps).schema)

    def _with_function(self, step: MapBatches, needs: Needs) -> Dataset:
        """Returns the rows after a function: a stage, if its tasks need something else than a CPU, or may skip rows."""
        if not step.is_class and needs == Needs() and step.on_error == "raise":
            return self._stepped(learnt(step, self.schema, needs, self._first_rows))
        step.check()
        needs.check(totals(current_engine()))
        return self._made(
            StageNode(self.node, learnt(step, self.schema, needs, self._first_rows), needs)
        )

    # --- internals ---------------------------------------------------------------------------------------------

    def _stepped(self, *steps: Step) -> Dataset:
        return self._stepped_on(self.node, *steps)

    def _stepped_on(self, node: Node, *steps: Step) -> Dataset:
        """Returns the dataset of a tree behind steps."""
        if _num_steps(node) + len(steps) > MAX_STEPS:
            raise OptionsError(
                f"more than {MAX_STEPS} steps in a row; give several expressions to one with_columns() or select(), or "
                "write the rows and go on with these"
            )
        for step in steps:
            node = pruned(_fitting(node, step))
        return self._made(node)

    def _made(self, node: Node) -> Dataset:
        """Returns the dataset of a tree."""
        raise NotImplementedError


class RowOptions(NamedTuple):
    """The options of a function of rows: see ``map_batches``."""

    further: Arguments
    memory_bytes: int
    needs: Needs
    on_error: OnError


#: The amounts among the options of a function of rows, and their values by default.
_AMOUNTS = {"num_cpus": None, "num_gpus": 0, "resources": None, "concurrency": None}
#: Names of the options of a function of rows.
ROW_OPTIONS = ("memory", *_AMOUNTS, "ordered", "on_error", "fn_args", "fn_kwargs")


def options_of_rows(call: str, options: Mapping[str, Any]) -> RowOptions:
    """Returns the options that a user gave to this method; raises ``OptionsError`` for others."""
    for name in options:
        if name not in ROW_OPTIONS:
            known = f"it has {', '.join(ROW_OPTIONS)}"
            remedy = ARGUMENTS.get(call, {}).get(name, known)
            raise OptionsError(f"{call} has no argument {name!r}; {remedy}")
    amounts = {name: options.get(name, value) for name, value in _AMOUNTS.items()}
    return RowOptions(
        _arguments("fn", options.get("fn_args", ()), options.get("fn_kwargs")),
        option_bytes("memory", options.get("memory", 0), 0),
        needs_of(*amounts.values(), ordered=options.get("ordered", True)),
        check_on_error(options.get("on_error", "raise")),
    )


def _arguments(name: str, args: object, kwargs: object) -> Arguments:
    """Returns the arguments that a user gave as ``name_args`` and ``name_kwargs``."""
    if not isinstance(args, list | tuple):
        raise OptionsError(f"{name}_args is {shown(args)}; give a tuple of arguments")
    if not isinstance(kwargs, Mapping | None):
        raise OptionsError(f"{name}_kwargs is {shown(kwargs)}; give a dictionary of arguments")
    return Arguments(tuple(args), dict(kwargs or {}))


def _called(
    function: object,
    batch_format: str,
    further: Arguments,
    made_with: Arguments,
) -> Callable[[Any], object]:
    """Returns the function of batches that a user gave, or the class that stands for one."""
    if isinstance(function, type):
        check_batch_format(batch_format)
        return UserClass(function, made_with, further, batch_format)
    if made_with:
        raise OptionsError(
            f"map_batches got {shown(function)} with arguments of a constructor; give a class, or "
            "functools.partial(function, ...)"
        )
    return with_format(further.bound(cast("Callable[[Any], object]", function)), batch_format)


def _fitting(node: Node, step: Step) -> MapNode:
    """Returns the rows after a step; raises for one that does not fit them."""
    stepped = MapNode(node, step)
    _ = stepped.schema
    return stepped


def _num_steps(node: Node) -> int:
    """Returns the number of steps that a task does one after the other."""
    if isinstance(node, MapNode):
        return 1 + _num_steps(node.child)
    return max(map(_num_steps, node.children), default=0) if isinstance(node, UnionNode) else 0
