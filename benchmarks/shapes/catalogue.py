"""All shapes, by name: those of this file, the questions of db-benchmark, and the queries of TPC-H."""

from __future__ import annotations

from benchmarks.db_questions import QUESTIONS
from benchmarks.shapes.shape import Shape
from benchmarks.shapes.tables import constants_of
from benchmarks.shapes.tpch_sql import tpch_sql

_JOINED = "SELECT * FROM lineitem JOIN orders ON l_orderkey = o_orderkey"
_BY_DATE = "SELECT * FROM lineitem ORDER BY l_shipdate, l_orderkey, l_linenumber"
_TOTALS = "count(*) AS n, sum(amount) AS total"

_TABLES = (
    Shape(
        "filter_one",
        "small",
        "one row of all, by `id = 77`",
        "events",
        "SELECT * FROM events WHERE id = 77",
    ),
    Shape(
        "filter_group",
        "small",
        "a thousandth of the rows, grouped by country",
        "events",
        f"SELECT country, {_TOTALS} FROM events WHERE amount > 9990 GROUP BY country",
    ),
    Shape(
        "sort_limit",
        "small",
        "first ten rows of a sort",
        "events",
        "SELECT * FROM events ORDER BY amount, id LIMIT 10",
        ordered=True,
    ),
    Shape(
        "join_distinct",
        "small",
        "rows of few users, by a semi join with a `distinct`, counted by country",
        "events",
        'SELECT country, count(*) AS n FROM events WHERE "user" IN '
        '(SELECT DISTINCT "user" FROM events WHERE amount > 9990) GROUP BY country',
    ),
    Shape(
        "totals",
        "small",
        "count, sum, least and greatest of all rows",
        "events",
        "SELECT count(*) AS n, sum(amount) AS total, min(ts) AS first, max(name) AS last FROM events",
    ),
    Shape(
        "tiny_filter",
        "small",
        "10,000 rows: filter",
        "tiny",
        "SELECT * FROM events WHERE quantity = 50",
    ),
    Shape(
        "tiny_group",
        "small",
        "10,000 rows: group by country",
        "tiny",
        f"SELECT country, {_TOTALS} FROM events GROUP BY country",
    ),
    Shape(
        "tiny_join",
        "small",
        "10,000 rows: join with 200",
        "tiny",
        "SELECT events.*, label FROM events JOIN countries USING (country)",
    ),
    Shape(
        "tiny_sort",
        "small",
        "10,000 rows: sort",
        "tiny",
        "SELECT * FROM events ORDER BY amount, id",
        ordered=True,
    ),
    Shape(
        "sort_narrow",
        "shuffles",
        "sort of one column of integers",
        "events",
        "SELECT id FROM events ORDER BY id",
        ordered=True,
    ),
    Shape(
        "sort_strings",
        "shuffles",
        "sort by text",
        "events",
        "SELECT * FROM events ORDER BY name, id",
        ordered=True,
    ),
    Shape(
        "sort_zstd",
        "shuffles",
        "sort by text and number, zstd in and out",
        "events",
        "SELECT * FROM events ORDER BY country, amount, id",
        ordered=True,
        output="zstd",
    ),
    Shape(
        "random_order",
        "shuffles",
        "random order",
        "events",
        "SELECT * FROM events ORDER BY random()",
    ),
    Shape(
        "distinct_strings",
        "shuffles",
        "distinct texts",
        "events",
        "SELECT DISTINCT name FROM events",
    ),
    Shape(
        "group_median",
        "shuffles",
        "count, sum and median by user and country",
        "events",
        f'SELECT "user", country, {_TOTALS}, median(amount) AS middle FROM events GROUP BY "user", country',
    ),
    Shape(
        "group_distinct",
        "shuffles",
        "different texts by country",
        "events",
        "SELECT country, count(DISTINCT name) AS names FROM events GROUP BY country",
    ),
    Shape(
        "wide_sums",
        "wide",
        "2,000 rows of 3,000 columns: sums of all, by ten groups",
        "wide",
        "SELECT id % 10 AS k, CAST(sum(COLUMNS('c.*')) AS BIGINT) FROM wide GROUP BY k",
    ),
    Shape(
        "wide_sort",
        "wide",
        "2,000 rows of 3,000 columns: sort",
        "wide",
        "SELECT * FROM wide ORDER BY id",
        ordered=True,
    ),
    Shape(
        "wide_pick",
        "wide",
        "2,000 rows of 3,000 columns: sort of three columns",
        "wide",
        "SELECT c0007, id, c0042 FROM wide ORDER BY c0007, id",
        ordered=True,
    ),
    Shape(
        "hundred_sort",
        "wide",
        "110 columns: sort",
        "hundred",
        "SELECT * FROM hundred ORDER BY id",
        ordered=True,
    ),
    Shape(
        "texts_sort",
        "types",
        "texts of 1 to 4 kB: sort by a number",
        "texts",
        "SELECT * FROM texts ORDER BY id",
        ordered=True,
    ),
    Shape(
        "texts_filter",
        "types",
        "texts of 1 to 4 kB: those that contain a word",
        "texts",
        "SELECT * FROM texts WHERE text LIKE '%cafe%'",
    ),
    Shape(
        "join_views",
        "types",
        "lineitem with orders, all columns, text as `string_view`",
        "views",
        _JOINED,
    ),
    Shape(
        "join_strings",
        "types",
        "the same as plain strings",
        "strings",
        _JOINED,
    ),
    Shape(
        "sort_views",
        "types",
        "sort of lineitem, text as `string_view`",
        "views",
        _BY_DATE,
        ordered=True,
    ),
    Shape(
        "sort_plain",
        "types",
        "the same as plain strings",
        "strings",
        _BY_DATE,
        ordered=True,
    ),
    Shape(
        "dictionary_group",
        "types",
        "group by two dictionary columns",
        "dictionaries",
        "SELECT city, kind, count(*) AS n, sum(value)::BIGINT AS total FROM dictionaries GROUP BY city, kind",
    ),
    Shape(
        "dictionary_sort",
        "types",
        "sort by a dictionary column",
        "dictionaries",
        "SELECT * FROM dictionaries ORDER BY city, id",
        ordered=True,
    ),
    Shape(
        "nested_sort",
        "types",
        "sort of rows with lists and structs",
        "nested",
        "SELECT * FROM nested ORDER BY id",
        ordered=True,
    ),
    Shape(
        "nested_explode",
        "types",
        "a row for each value of lists, counted by value",
        "nested",
        "SELECT tag, count(*) AS n FROM (SELECT unnest(tags) AS tag FROM nested) "
        "WHERE tag IS NOT NULL GROUP BY tag",
    ),
    Shape(
        "csv_sort",
        "files",
        "CSV: sort, into CSV",
        "csv",
        "SELECT * FROM events ORDER BY amount, id",
        ordered=True,
        output="csv",
    ),
    Shape(
        "csv_group",
        "files",
        "CSV: group by country",
        "csv",
        f"SELECT country, {_TOTALS} FROM events GROUP BY country",
    ),
    Shape(
        "files_sort",
        "files",
        "10,000 files of 100 rows: sort",
        "files",
        "SELECT * FROM events ORDER BY amount, id",
        ordered=True,
    ),
    Shape(
        "files_group",
        "files",
        "10,000 files of 100 rows: group by country",
        "files",
        f"SELECT country, {_TOTALS} FROM events GROUP BY country",
    ),
)
#: The queries of TPC-H that do not order their answers: these have one row.
_ONE_ROW = ("tpch_q6", "tpch_q14", "tpch_q17", "tpch_q19")


def shapes(scale: float) -> dict[str, Shape]:
    """Returns the shapes by name; the queries of TPC-H have constants that go by the scale factor."""
    found = {one.name: one for one in _TABLES}
    for name, question in QUESTIONS.items():
        made = Shape(
            f"db_{name}",
            "db",
            f"{name.replace('_', ' ')}: {question.text}",
            "db_group" if name.startswith("group") else "db_join",
            question.query,
        )
        found[made.name] = made
    for name, query in tpch_sql(constants_of(scale)).items():
        text = name.removeprefix("tpch_").upper()
        found[name] = Shape(name, "tpch", text, "tpch", query, ordered=name not in _ONE_ROW)
    return found
