"""The questions of db-benchmark, ten of grouping and five of joining, and the parts of answers that must agree.

A question is written down as the query that DuckDB gets; the other engines' programs are ``peers/db_*.py``. Two things
differ from the original in form. ``group_q8`` keeps the two values of a group in a list instead of a row each. Joins
name the columns of the right side ``id4_small`` instead of ``small_id4``.
"""

from __future__ import annotations

from dataclasses import dataclass

#: Sums in another order differ in their last digits, by less than 1e-11. They are compared as multiples of about a
#: hundredth. The factor has many digits, so that no sum of decimals is halfway between two.
SCALE = 97.318309886184


@dataclass(frozen=True)
class Question:
    """One question.

    Attributes:
        text: As the original puts it.
        query: In SQL, over the tables of ``db_data``.
        exact: Columns of the answer that must be the same to the bit, as SQL.
        rounded: Numbers in the answer that may differ in their last digits, as SQL, in the size of hundreds.
    """

    text: str
    query: str
    exact: tuple[str, ...]
    rounded: tuple[str, ...] = ()

    @property
    def summary(self) -> str:
        """Returns SQL for the numbers that must agree: the number of rows, and the sum of a hash over them."""
        values = [*self.exact, *(f"round({SCALE} * {name})::BIGINT" for name in self.rounded)]
        return f"count(*) AS rows, sum(hash({', '.join(values)})) AS sum_of_hashes"


_KEYS = "id1, id2, id3, id4, id5, id6"
_X = (*(f"x.{name}" for name in _KEYS.split(", ")), "x.v1")
_MEDIUM = ("id1", "id4", "id5")
#: The square of a correlation is not finite where all values of a group are equal.
_R2 = "1e5 * if(isfinite(r2), r2, -1)"


def _joined(text: str, how: str, table: str, key: str, kept: tuple[str, ...]) -> Question:
    """Makes a question that joins ``x`` and a table; ``kept`` are that table's columns whose names ``x`` has, too."""
    renamed = tuple(f"{table}.{name} AS {name}_{table}" for name in kept)
    columns = ", ".join([*_X, *renamed, "v2"])
    answers = (*(name.removeprefix("x.") for name in _X), *(f"{name}_{table}" for name in kept))
    query = f"SELECT {columns} FROM x {how} {table} ON x.{key} = {table}.{key}"
    return Question(text, query, (*answers, "v2"))


QUESTIONS = {
    "group_q1": Question(
        "sum v1 by id1",
        "SELECT id1, sum(v1)::BIGINT AS v1 FROM x GROUP BY id1",
        ("id1", "v1::BIGINT"),
    ),
    "group_q2": Question(
        "sum v1 by id1:id2",
        "SELECT id1, id2, sum(v1)::BIGINT AS v1 FROM x GROUP BY id1, id2",
        ("id1", "id2", "v1::BIGINT"),
    ),
    "group_q3": Question(
        "sum v1 mean v3 by id3",
        "SELECT id3, sum(v1)::BIGINT AS v1, avg(v3) AS v3 FROM x GROUP BY id3",
        ("id3", "v1::BIGINT"),
        ("100 * v3",),
    ),
    "group_q4": Question(
        "mean v1:v3 by id4",
        "SELECT id4, avg(v1) AS v1, avg(v2) AS v2, avg(v3) AS v3 FROM x GROUP BY id4",
        ("id4",),
        ("100 * v1", "100 * v2", "100 * v3"),
    ),
    "group_q5": Question(
        "sum v1:v3 by id6",
        "SELECT id6, sum(v1)::BIGINT AS v1, sum(v2)::BIGINT AS v2, sum(v3) AS v3 FROM x GROUP BY id6",
        ("id6", "v1::BIGINT", "v2::BIGINT"),
        ("v3",),
    ),
    "group_q6": Question(
        "median v3 sd v3 by id4 id5",
        "SELECT id4, id5, median(v3) AS median_v3, stddev(v3) AS sd_v3 FROM x GROUP BY id4, id5",
        ("id4", "id5"),
        ("100 * median_v3", "100 * sd_v3"),
    ),
    "group_q7": Question(
        "max v1 - min v2 by id3",
        "SELECT id3, max(v1) - min(v2) AS range_v1_v2 FROM x GROUP BY id3",
        ("id3", "range_v1_v2::BIGINT"),
    ),
    "group_q8": Question(
        "largest two v3 by id6",
        "SELECT id6, max(v3, 2) AS largest2_v3 FROM x GROUP BY id6",
        ("id6", "list_reverse_sort(largest2_v3)"),
    ),
    "group_q9": Question(
        "regression v1 v2 by id2 id4",
        "SELECT id2, id4, pow(corr(v1, v2), 2) AS r2 FROM x GROUP BY id2, id4",
        ("id2", "id4"),
        (_R2,),
    ),
    "group_q10": Question(
        "sum v3 count by id1:id6",
        f"SELECT {_KEYS}, sum(v3) AS v3, count(*) AS count FROM x GROUP BY {_KEYS}",
        (*_KEYS.split(", "), "count::BIGINT"),
        ("v3",),
    ),
    "join_q1": _joined("small inner on int", "JOIN", "small", "id1", ("id4",)),
    "join_q2": _joined("medium inner on int", "JOIN", "medium", "id2", _MEDIUM),
    "join_q3": _joined("medium outer on int", "LEFT JOIN", "medium", "id2", _MEDIUM),
    "join_q4": _joined("medium inner on factor", "JOIN", "medium", "id5", ("id1", "id2", "id4")),
    "join_q5": _joined(
        "big inner on int", "JOIN", "big", "id3", ("id1", "id2", "id4", "id5", "id6")
    ),
}
