"""TPC-H's 22 queries in Polars' lazy expressions; ``tpch_sql.py`` has them as SQL.

Decimals are read as floats, as in Polars' own benchmark: its products of decimals keep two digits behind the point.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import date
from typing import TYPE_CHECKING, TypeAlias

from benchmarks.shapes.tables import Tables

if TYPE_CHECKING:
    import polars as pl

Rows: TypeAlias = "pl.LazyFrame"


def _price() -> pl.Expr:
    import polars as pl

    return pl.col("l_extendedprice") * (1 - pl.col("l_discount"))


def q1(table: Tables[Rows]) -> Rows:
    """See ``tpch_sql``, which has all of these."""
    import polars as pl

    col = pl.col
    rows = table("lineitem").filter(col("l_shipdate") <= date(1998, 9, 2))
    groups = rows.group_by("l_returnflag", "l_linestatus").agg(
        sum_qty=col("l_quantity").sum(),
        sum_base_price=col("l_extendedprice").sum(),
        sum_disc_price=_price().sum(),
        sum_charge=(_price() * (1 + col("l_tax"))).sum(),
        avg_qty=col("l_quantity").mean(),
        avg_price=col("l_extendedprice").mean(),
        avg_disc=col("l_discount").mean(),
        count_order=pl.len(),
    )
    return groups.sort("l_returnflag", "l_linestatus")


def q2(table: Tables[Rows]) -> Rows:
    """See ``q1``."""
    import polars as pl

    col = pl.col
    nations = table("nation").join(
        table("region").filter(col("r_name") == "EUROPE"),
        left_on="n_regionkey",
        right_on="r_regionkey",
    )
    suppliers = table("supplier").join(nations, left_on="s_nationkey", right_on="n_nationkey")
    parts = table("part").filter((col("p_size") == 15) & col("p_type").str.ends_with("BRASS"))
    offers = parts.join(table("partsupp"), left_on="p_partkey", right_on="ps_partkey")
    offers = offers.join(suppliers, left_on="ps_suppkey", right_on="s_suppkey")
    cheapest = offers.group_by("p_partkey").agg(col("ps_supplycost").min())
    rows = offers.join(cheapest, on=["p_partkey", "ps_supplycost"])
    names = ["s_acctbal", "s_name", "n_name", "p_partkey", "p_mfgr", "s_address", "s_phone"]
    order = ["s_acctbal", "n_name", "s_name", "p_partkey"]
    descending = [True, False, False, False]
    return rows.sort(order, descending=descending).head(100).select(*names, "s_comment")


def q3(table: Tables[Rows]) -> Rows:
    """See ``q1``."""
    import polars as pl

    col = pl.col
    customers = table("customer").filter(col("c_mktsegment") == "BUILDING")
    orders = table("orders").filter(col("o_orderdate") < date(1995, 3, 15))
    rows = table("lineitem").filter(col("l_shipdate") > date(1995, 3, 15))
    orders = customers.join(orders, left_on="c_custkey", right_on="o_custkey")
    rows = orders.join(rows, left_on="o_orderkey", right_on="l_orderkey")
    groups = rows.group_by("o_orderkey", "o_orderdate", "o_shippriority")
    best = groups.agg(revenue=_price().sum())
    best = best.sort("revenue", "o_orderdate", "o_orderkey", descending=[True, False, False])
    return best.head(10).select("o_orderkey", "revenue", "o_orderdate", "o_shippriority")


def q4(table: Tables[Rows]) -> Rows:
    """See ``q1``."""
    import polars as pl

    col = pl.col
    when = col("o_orderdate").is_between(date(1993, 7, 1), date(1993, 10, 1), closed="left")
    late = table("lineitem").filter(col("l_commitdate") < col("l_receiptdate"))
    orders = table("orders").filter(when)
    orders = orders.join(late, left_on="o_orderkey", right_on="l_orderkey", how="semi")
    return orders.group_by("o_orderpriority").agg(n=pl.len()).sort("o_orderpriority")


def q5(table: Tables[Rows]) -> Rows:
    """See ``q1``."""
    import polars as pl

    col = pl.col
    asia = table("region").filter(col("r_name") == "ASIA")
    when = col("o_orderdate").is_between(date(1994, 1, 1), date(1995, 1, 1), closed="left")
    nations = asia.join(table("nation"), left_on="r_regionkey", right_on="n_regionkey")
    rows = nations.join(table("customer"), left_on="n_nationkey", right_on="c_nationkey")
    rows = rows.join(table("orders").filter(when), left_on="c_custkey", right_on="o_custkey")
    rows = rows.join(table("lineitem"), left_on="o_orderkey", right_on="l_orderkey")
    rows = rows.join(
        table("supplier"),
        left_on=["l_suppkey", "n_nationkey"],
        right_on=["s_suppkey", "s_nationkey"],
    )
    groups = rows.group_by("n_name").agg(revenue=_price().sum())
    return groups.sort("revenue", descending=True)


def q6(table: Tables[Rows]) -> Rows:
    """See ``q1``."""
    import polars as pl

    col = pl.col
    when = col("l_shipdate").is_between(date(1994, 1, 1), date(1995, 1, 1), closed="left")
    # The discounts are whole hundredths, so that bounds between two of them leave nothing to rounding.
    discount = col("l_discount").is_between(0.0499, 0.0701)
    rows = table("lineitem").filter(when & discount & (col("l_quantity") < 24))
    return rows.select(revenue=(col("l_extendedprice") * col("l_discount")).sum())


def q7(table: Tables[Rows]) -> Rows:
    """See ``q1``."""
    import polars as pl

    col = pl.col
    nations = table("nation").filter(col("n_name").is_in(["FRANCE", "GERMANY"]))
    suppliers = table("supplier").join(
        nations.select("n_nationkey", supp_nation="n_name"),
        left_on="s_nationkey",
        right_on="n_nationkey",
    )
    customers = table("customer").join(
        nations.select("n_nationkey", cust_nation="n_name"),
        left_on="c_nationkey",
        right_on="n_nationkey",
    )
    orders = customers.join(table("orders"), left_on="c_custkey", right_on="o_custkey")
    when = col("l_shipdate").is_between(date(1995, 1, 1), date(1996, 12, 31))
    rows = table("lineitem").filter(when)
    rows = rows.join(suppliers, left_on="l_suppkey", right_on="s_suppkey")
    rows = rows.join(orders, left_on="l_orderkey", right_on="o_orderkey")
    rows = rows.filter(col("supp_nation") != col("cust_nation"))
    keys = ["supp_nation", "cust_nation", "l_year"]
    rows = rows.with_columns(l_year=col("l_shipdate").dt.year())
    return rows.group_by(keys).agg(revenue=_price().sum()).sort(keys)


def q8(table: Tables[Rows]) -> Rows:
    """See ``q1``."""
    import polars as pl

    col = pl.col
    america = table("region").filter(col("r_name") == "AMERICA")
    nations = table("nation").join(america, left_on="n_regionkey", right_on="r_regionkey")
    customers = table("customer").join(
        nations, left_on="c_nationkey", right_on="n_nationkey", how="semi"
    )
    when = col("o_orderdate").is_between(date(1995, 1, 1), date(1996, 12, 31))
    orders = table("orders").filter(when)
    orders = orders.join(customers, left_on="o_custkey", right_on="c_custkey", how="semi")
    parts = table("part").filter(col("p_type").str.starts_with(table.constants.kind))
    rows = table("lineitem").join(parts, left_on="l_partkey", right_on="p_partkey", how="semi")
    rows = rows.join(orders, left_on="l_orderkey", right_on="o_orderkey")
    rows = rows.join(table("supplier"), left_on="l_suppkey", right_on="s_suppkey")
    rows = rows.join(table("nation"), left_on="s_nationkey", right_on="n_nationkey")
    rows = rows.select("n_name", o_year=col("o_orderdate").dt.year(), volume=_price())
    brazil = col("volume").filter(col("n_name") == "BRAZIL").sum()
    return rows.group_by("o_year").agg(mkt_share=brazil / col("volume").sum()).sort("o_year")


def q9(table: Tables[Rows]) -> Rows:
    """See ``q1``."""
    import polars as pl

    col = pl.col
    parts = table("part").filter(col("p_name").str.contains("green", literal=True))
    rows = table("lineitem").join(parts, left_on="l_partkey", right_on="p_partkey", how="semi")
    rows = rows.join(
        table("partsupp"),
        left_on=["l_partkey", "l_suppkey"],
        right_on=["ps_partkey", "ps_suppkey"],
    )
    rows = rows.join(table("supplier"), left_on="l_suppkey", right_on="s_suppkey")
    rows = rows.join(table("nation"), left_on="s_nationkey", right_on="n_nationkey")
    rows = rows.join(table("orders"), left_on="l_orderkey", right_on="o_orderkey")
    rows = rows.select(
        nation="n_name",
        o_year=col("o_orderdate").dt.year(),
        amount=_price() - col("ps_supplycost") * col("l_quantity"),
    )
    profits = rows.group_by("nation", "o_year").agg(sum_profit=col("amount").sum())
    return profits.sort("nation", "o_year", descending=[False, True])


def q10(table: Tables[Rows]) -> Rows:
    """See ``q1``."""
    import polars as pl

    col = pl.col
    when = col("o_orderdate").is_between(date(1993, 10, 1), date(1994, 1, 1), closed="left")
    rows = table("lineitem").filter(col("l_returnflag") == "R")
    rows = rows.join(table("orders").filter(when), left_on="l_orderkey", right_on="o_orderkey")
    rows = rows.join(table("customer"), left_on="o_custkey", right_on="c_custkey")
    rows = rows.join(table("nation"), left_on="c_nationkey", right_on="n_nationkey")
    keys = ["o_custkey", "c_name", "c_acctbal", "c_phone", "n_name", "c_address", "c_comment"]
    groups = rows.group_by(keys).agg(revenue=_price().sum())
    return groups.sort("revenue", "o_custkey", descending=[True, False]).head(20)


def q11(table: Tables[Rows]) -> Rows:
    """See ``q1``."""
    import polars as pl

    col = pl.col
    germany = table("nation").filter(col("n_name") == "GERMANY")
    suppliers = table("supplier").join(germany, left_on="s_nationkey", right_on="n_nationkey")
    rows = table("partsupp").join(suppliers, left_on="ps_suppkey", right_on="s_suppkey")
    rows = rows.select("ps_partkey", value=col("ps_supplycost") * col("ps_availqty"))
    total = rows.select(total=col("value").sum() * table.constants.fraction)
    parts = rows.group_by("ps_partkey").agg(col("value").sum()).join(total, how="cross")
    parts = parts.filter(col("value") > col("total")).drop("total")
    return parts.sort("value", "ps_partkey", descending=[True, False])


def q12(table: Tables[Rows]) -> Rows:
    """See ``q1``."""
    import polars as pl

    col = pl.col
    rows = table("lineitem").filter(
        col("l_shipmode").is_in(["MAIL", "SHIP"]),
        col("l_commitdate") < col("l_receiptdate"),
        col("l_shipdate") < col("l_commitdate"),
        col("l_receiptdate").is_between(date(1994, 1, 1), date(1995, 1, 1), closed="left"),
    )
    rows = table("orders").join(rows, left_on="o_orderkey", right_on="l_orderkey")
    high = col("o_orderpriority").is_in(["1-URGENT", "2-HIGH"])
    groups = rows.group_by("l_shipmode").agg(high_count=high.sum(), low_count=(~high).sum())
    return groups.sort("l_shipmode")


def q13(table: Tables[Rows]) -> Rows:
    """See ``q1``."""
    import polars as pl

    col = pl.col
    orders = table("orders").filter(~col("o_comment").str.contains("special.*requests"))
    rows = table("customer").join(orders, left_on="c_custkey", right_on="o_custkey", how="left")
    counts = rows.group_by("c_custkey").agg(c_count=col("o_orderkey").count())
    groups = counts.group_by("c_count").agg(custdist=pl.len())
    return groups.sort("custdist", "c_count", descending=True)


def q14(table: Tables[Rows]) -> Rows:
    """See ``q1``."""
    import polars as pl

    col = pl.col
    when = col("l_shipdate").is_between(date(1995, 9, 1), date(1995, 10, 1), closed="left")
    rows = table("lineitem").filter(when)
    rows = rows.join(table("part"), left_on="l_partkey", right_on="p_partkey")
    promo = _price().filter(col("p_type").str.starts_with("PROMO")).sum()
    return rows.select(promo_revenue=100.0 * promo / _price().sum())


def q15(table: Tables[Rows]) -> Rows:
    """See ``q1``."""
    import polars as pl

    col = pl.col
    when = col("l_shipdate").is_between(date(1996, 1, 1), date(1996, 4, 1), closed="left")
    revenue = table("lineitem").filter(when).group_by("l_suppkey")
    best = revenue.agg(total_revenue=_price().sum())
    best = best.filter(col("total_revenue") == col("total_revenue").max())
    rows = table("supplier").join(best, left_on="s_suppkey", right_on="l_suppkey")
    names = ["s_suppkey", "s_name", "s_address", "s_phone", "total_revenue"]
    return rows.select(names).sort("s_suppkey")


def q16(table: Tables[Rows]) -> Rows:
    """See ``q1``."""
    import polars as pl

    col = pl.col
    complaints = table("supplier").filter(col("s_comment").str.contains("Customer.*Complaints"))
    supplies = table("partsupp").join(
        complaints, left_on="ps_suppkey", right_on="s_suppkey", how="anti"
    )
    parts = table("part").filter(
        col("p_brand") != "Brand#45",
        ~col("p_type").str.starts_with("MEDIUM POLISHED"),
        col("p_size").is_in([49, 14, 23, 45, 19, 3, 36, 9]),
    )
    rows = parts.join(supplies, left_on="p_partkey", right_on="ps_partkey")
    groups = rows.group_by("p_brand", "p_type", "p_size")
    counts = groups.agg(supplier_cnt=col("ps_suppkey").n_unique())
    keys = ["supplier_cnt", "p_brand", "p_type", "p_size"]
    return counts.sort(keys, descending=[True, False, False, False])


def q17(table: Tables[Rows]) -> Rows:
    """See ``q1``."""
    import polars as pl

    col = pl.col
    brand = col("p_brand") == "Brand#23"
    parts = table("part").filter(
        brand, col("p_container").str.starts_with(table.constants.container)
    )
    rows = table("lineitem").join(parts, left_on="l_partkey", right_on="p_partkey", how="semi")
    means = rows.group_by("l_partkey").agg(mean=0.2 * col("l_quantity").mean())
    rows = rows.join(means, on="l_partkey").filter(col("l_quantity") < col("mean"))
    return rows.select(avg_yearly=col("l_extendedprice").sum() / 7.0)


def q18(table: Tables[Rows]) -> Rows:
    """See ``q1``."""
    import polars as pl

    col = pl.col
    totals = table("lineitem").group_by("l_orderkey").agg(quantity=col("l_quantity").sum())
    totals = totals.filter(col("quantity") > table.constants.quantity)
    orders = table("orders").join(totals, left_on="o_orderkey", right_on="l_orderkey")
    rows = orders.join(table("customer"), left_on="o_custkey", right_on="c_custkey")
    order = ["o_totalprice", "o_orderdate", "o_orderkey"]
    rows = rows.sort(order, descending=[True, False, False]).head(100)
    return rows.select(
        "c_name", "o_custkey", "o_orderkey", "o_orderdate", "o_totalprice", "quantity"
    )


def q19(table: Tables[Rows]) -> Rows:
    """See ``q1``."""
    import polars as pl

    col = pl.col
    rows = table("lineitem").filter(
        col("l_shipmode").is_in(["AIR", "AIR REG"]),
        col("l_shipinstruct") == "DELIVER IN PERSON",
    )
    rows = rows.join(table("part"), left_on="l_partkey", right_on="p_partkey")

    def chosen(brand: str, size: str, kinds: list[str], quantity: int, largest: int) -> pl.Expr:
        containers = [f"{size} {kind}" for kind in kinds]
        return (
            (col("p_brand") == brand)
            & col("p_container").is_in(containers)
            & col("l_quantity").is_between(quantity, quantity + 10)
            & col("p_size").is_between(1, largest)
        )

    any_of = (
        chosen("Brand#12", "SM", ["CASE", "BOX", "PACK", "PKG"], 1, 5)
        | chosen("Brand#23", "MED", ["BAG", "BOX", "PKG", "PACK"], 10, 10)
        | chosen("Brand#34", "LG", ["CASE", "BOX", "PACK", "PKG"], 20, 15)
    )
    return rows.filter(any_of).select(revenue=_price().sum())


def q20(table: Tables[Rows]) -> Rows:
    """See ``q1``."""
    import polars as pl

    col = pl.col
    when = col("l_shipdate").is_between(date(1994, 1, 1), date(1995, 1, 1), closed="left")
    shipped = table("lineitem").filter(when).group_by("l_partkey", "l_suppkey")
    half = shipped.agg(quantity=0.5 * col("l_quantity").sum())
    forest = table("part").filter(col("p_name").str.starts_with("forest"))
    rows = table("partsupp").join(forest, left_on="ps_partkey", right_on="p_partkey", how="semi")
    rows = rows.join(
        half, left_on=["ps_partkey", "ps_suppkey"], right_on=["l_partkey", "l_suppkey"]
    )
    rows = rows.filter(col("ps_availqty") > col("quantity"))
    canada = table("nation").filter(col("n_name") == "CANADA")
    suppliers = table("supplier").join(canada, left_on="s_nationkey", right_on="n_nationkey")
    suppliers = suppliers.join(rows, left_on="s_suppkey", right_on="ps_suppkey", how="semi")
    return suppliers.select("s_name", "s_address").sort("s_name")


def q21(table: Tables[Rows]) -> Rows:
    """See ``q1``."""
    import polars as pl

    col = pl.col
    lines = table("lineitem")
    late = lines.filter(col("l_receiptdate") > col("l_commitdate"))
    number = col("l_suppkey").n_unique().alias("number")
    shared = lines.group_by("l_orderkey").agg(number).filter(col("number") > 1)
    blamed = late.group_by("l_orderkey").agg(number).filter(col("number") == 1)
    orders = table("orders").filter(col("o_orderstatus") == "F")
    arabia = table("nation").filter(col("n_name") == "SAUDI ARABIA")
    suppliers = table("supplier").join(arabia, left_on="s_nationkey", right_on="n_nationkey")
    rows = late.join(suppliers, left_on="l_suppkey", right_on="s_suppkey")
    rows = rows.join(orders, left_on="l_orderkey", right_on="o_orderkey", how="semi")
    rows = rows.join(shared, on="l_orderkey", how="semi")
    rows = rows.join(blamed, on="l_orderkey", how="semi")
    waits = rows.group_by("s_name").agg(numwait=pl.len())
    return waits.sort("numwait", "s_name", descending=[True, False]).head(100)


def q22(table: Tables[Rows]) -> Rows:
    """See ``q1``."""
    import polars as pl

    col = pl.col
    codes = ["13", "31", "23", "29", "30", "18", "17"]
    rows = table("customer").with_columns(code=col("c_phone").str.slice(0, 2))
    rows = rows.filter(col("code").is_in(codes))
    mean = rows.filter(col("c_acctbal") > 0).select(mean=col("c_acctbal").mean())
    rows = rows.join(mean, how="cross").filter(col("c_acctbal") > col("mean"))
    rows = rows.join(table("orders"), left_on="c_custkey", right_on="o_custkey", how="anti")
    groups = rows.group_by("code").agg(numcust=pl.len(), totacctbal=col("c_acctbal").sum())
    return groups.sort("code")


ANSWERS: dict[str, Callable[[Tables[Rows]], Rows]] = {
    f"tpch_{made.__name__}": made
    for made in (
        q1,
        q2,
        q3,
        q4,
        q5,
        q6,
        q7,
        q8,
        q9,
        q10,
        q11,
        q12,
        q13,
        q14,
        q15,
        q16,
        q17,
        q18,
        q19,
        q20,
        q21,
        q22,
    )
}
