"""Moves Arrow batches into native code and out of it, and keeps the original errors of their makers."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from typing import TYPE_CHECKING

from exoshuffle import _native
from exoshuffle.errors import InputError

if TYPE_CHECKING:
    import pyarrow as pa


def as_reader(rows: _native.Rows) -> pa.RecordBatchReader:
    """Returns the batches of ``_native.Rows``.

    An Arrow stream carries only the text of an error; this raises the error itself.
    """
    import pyarrow as pa

    batches = pa.RecordBatchReader.from_stream(rows)

    def checked() -> Iterator[pa.RecordBatch]:
        try:
            yield from batches
        except pa.ArrowException as error:
            _raise_kept()  # the rows themselves were made in Python, such as by a user's function
            rows.raise_failure()
            raise InputError(str(error).removeprefix("External error: ")) from error

    return pa.RecordBatchReader.from_batches(batches.schema, checked())


def as_rows(batches: pa.RecordBatchReader) -> _native.Rows:
    """Returns batches as ``_native.Rows``, to be consumed within ``own_errors``."""
    import pyarrow as pa

    kept = pa.RecordBatchReader.from_batches(batches.schema, _keeping_errors(batches))
    return _native.Rows.from_batches(kept)


#: The error that ended the batches that this thread consumes.
_ended = threading.local()


def _raise_kept() -> None:
    """Raises the error that has ended batches of this thread, if one has."""
    kept = getattr(_ended, "error", None)
    if kept is not None:
        raise kept


def _keeping_errors(batches: pa.RecordBatchReader) -> Iterator[pa.RecordBatch]:
    try:
        yield from batches
    except GeneratorExit:  # the consumer failed, and says why
        raise
    except BaseException as error:  # a function may leave by sys.exit
        _ended.error = error
        raise


@contextlib.contextmanager
def own_errors() -> Iterator[None]:
    """Wraps native code that consumes batches made in Python, so that their errors come through as they were.

    An Arrow stream carries only the text of an error.
    """
    _ended.error = None
    try:
        yield
    except Exception:
        kept, _ended.error = _ended.error, None
        if kept is None:
            raise
        context = kept.__context__
        try:
            raise kept
        finally:
            # Keeps the context that the function itself gave, rather than that a stream ended.
            kept.__context__ = context
