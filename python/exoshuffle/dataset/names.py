"""The names of the package that belong to datasets, with all the modules behind them."""

from exoshuffle.dataset import read
from exoshuffle.dataset.concatenated import concat, merge
from exoshuffle.dataset.dataset import Aggregated, Dataset
from exoshuffle.dataset.generated import from_generator
from exoshuffle.dataset.given import (
    from_arrow,
    from_dict,
    from_items,
    from_pandas,
    from_polars,
    from_pydict,
    range,  # noqa: A004  called as xs.range
)
from exoshuffle.dataset.images import read_images
from exoshuffle.dataset.partial import Partial
from exoshuffle.dataset.read import *  # noqa: F403  its ``__all__`` is the list of readers
from exoshuffle.operators.sql.choices import (
    coalesce,
    corr,
    cov,
    len,  # noqa: A004  called as xs.len
    when,
)
from exoshuffle.operators.sql.expressions import Expr, col, lit, sql
from exoshuffle.operators.sql.rankings import (
    cume_dist,
    dense_rank,
    ntile,
    percent_rank,
    rank,
    row_number,
)

__all__ = [
    "Aggregated",
    "Dataset",
    "Expr",
    "Partial",
    "coalesce",
    "col",
    "concat",
    "corr",
    "cov",
    "cume_dist",
    "dense_rank",
    "from_arrow",
    "from_dict",
    "from_generator",
    "from_items",
    "from_pandas",
    "from_polars",
    "from_pydict",
    "len",
    "lit",
    "merge",
    "ntile",
    "percent_rank",
    "range",
    "rank",
    "read_images",
    "row_number",
    "sql",
    "when",
]
__all__ += read.__all__
