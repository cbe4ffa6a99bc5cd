"""The step behind files that have columns which cannot be read as they are: it refuses their rows.

Guarantee: a value that would be wrong comes to nobody. Files are opened all the same, and their other columns are read.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from exoshuffle.errors import SchemaError
from exoshuffle.late_dataclasses import dataclass
from exoshuffle.operators.steps.step import Step

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True)
class Refused(Step):
    """Lets rows through that lack some columns, and refuses others.

    Attributes:
        reasons: Names of these columns, and what to say of each.
    """

    reasons: tuple[tuple[str, str], ...]

    @property
    def keeps_each(self) -> bool:
        """See ``Step``."""
        return True

    def output_schema(self, schema: pa.Schema) -> pa.Schema:
        """See ``Step``."""
        return schema

    def required(self, needed: frozenset[str], schema: pa.Schema) -> frozenset[str]:
        """See ``Step``. Where no column is needed, the first one may be read, so another is needed then."""
        refused = {name for name, _ in self.reasons}
        others = [name for name in schema.names if name not in refused]
        return needed or frozenset(others[:1])

    def names_before(self, names: Mapping[str, str]) -> dict[str, str]:
        """See ``Step``."""
        return dict(names)

    def apply(self, batches: pa.RecordBatchReader) -> pa.RecordBatchReader:
        """See ``Step``.

        Raises:
            SchemaError: The rows have one of the columns.
        """
        for name, reason in self.reasons:
            if name in batches.schema.names:
                raise SchemaError(reason)
        return batches

    @property
    def keeps_all(self) -> bool:
        """See ``Step``."""
        return True
