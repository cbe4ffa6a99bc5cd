"""TPC-H's 22 queries as a user of Exoshuffle would put them; ``tpch_sql.py`` has them as SQL.

There are no subqueries: ``exists`` and ``in`` are semi joins, ``not in`` and ``not exists`` anti joins. A total that
every row is compared with is a cross join, and a value per group a join with its group-by.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias

from benchmarks.shapes.tables import Tables
from benchmarks.shapes.tpch_sql import PRICE

if TYPE_CHECKING:
    import exoshuffle as xs

Rows: TypeAlias = "xs.Dataset"


def q1(table: Tables[Rows]) -> Rows:
    """See ``tpch_sql``, which has all of these."""
    rows = table("lineitem").filter("l_shipdate <= date '1998-09-02'")
    rows = rows.with_columns(price=PRICE, charge=f"{PRICE} * (1 + l_tax)")
    groups = rows.group_by("l_returnflag", "l_linestatus").agg(
        sum_qty=("l_quantity", "sum"),
        sum_base_price=("l_extendedprice", "sum"),
        sum_disc_price=("price", "sum"),
        sum_charge=("charge", "sum"),
        avg_qty=("l_quantity", "mean"),
        avg_price=("l_extendedprice", "mean"),
        avg_disc=("l_discount", "mean"),
        count_order="count",
    )
    return groups.sort(["l_returnflag", "l_linestatus"])


def q2(table: Tables[Rows]) -> Rows:
    """See ``q1``."""
    europe = table("region").filter("r_name = 'EUROPE'")
    nations = table("nation").join(
        europe, left_on="n_regionkey", right_on="r_regionkey", how="semi"
    )
    suppliers = table("supplier").join(nations, left_on="s_nationkey", right_on="n_nationkey")
    parts = table("part").filter("p_size = 15 and p_type like '%BRASS'")
    offers = parts.join(table("partsupp"), left_on="p_partkey", right_on="ps_partkey")
    offers = offers.join(suppliers, left_on="ps_suppkey", right_on="s_suppkey")
    cheapest = offers.group_by("p_partkey").agg(ps_supplycost=("ps_supplycost", "min"))
    rows = offers.join(cheapest, on=["p_partkey", "ps_supplycost"])
    order = rows.sort(["s_acctbal", "n_name", "s_name", "p_partkey"], [True, False, False, False])
    names = ["s_acctbal", "s_name", "n_name", "p_partkey", "p_mfgr", "s_address", "s_phone"]
    return order.limit(100).select(*names, "s_comment")


def q3(table: Tables[Rows]) -> Rows:
    """See ``q1``."""
    customers = table("customer").filter("c_mktsegment = 'BUILDING'")
    orders = table("orders").filter("o_orderdate < date '1995-03-15'")
    orders = orders.join(customers, left_on="o_custkey", right_on="c_custkey", how="semi")
    rows = table("lineitem").filter("l_shipdate > date '1995-03-15'").with_columns(price=PRICE)
    rows = rows.join(orders, left_on="l_orderkey", right_on="o_orderkey")
    groups = rows.group_by("l_orderkey", "o_orderdate", "o_shippriority")
    best = groups.agg(revenue=("price", "sum"))
    order = best.sort(["revenue", "o_orderdate", "l_orderkey"], [True, False, False]).limit(10)
    return order.select("l_orderkey", "revenue", "o_orderdate", "o_shippriority")


def q4(table: Tables[Rows]) -> Rows:
    """See ``q1``."""
    orders = table("orders").filter(
        "o_orderdate >= date '1993-07-01' and o_orderdate < date '1993-10-01'"
    )
    late = table("lineitem").filter("l_commitdate < l_receiptdate")
    orders = orders.join(late, left_on="o_orderkey", right_on="l_orderkey", how="semi")
    return orders.group_by("o_orderpriority").agg(order_count="count").sort("o_orderpriority")


def q5(table: Tables[Rows]) -> Rows:
    """See ``q1``."""
    asia = table("region").filter("r_name = 'ASIA'")
    nations = table("nation").join(asia, left_on="n_regionkey", right_on="r_regionkey", how="semi")
    suppliers = table("supplier").join(nations, left_on="s_nationkey", right_on="n_nationkey")
    orders = table("orders").filter(
        "o_orderdate >= date '1994-01-01' and o_orderdate < date '1995-01-01'"
    )
    orders = orders.join(table("customer"), left_on="o_custkey", right_on="c_custkey")
    rows = table("lineitem").join(orders, left_on="l_orderkey", right_on="o_orderkey")
    rows = rows.join(
        suppliers, left_on=["l_suppkey", "c_nationkey"], right_on=["s_suppkey", "s_nationkey"]
    )
    groups = rows.with_columns(price=PRICE).group_by("n_name").agg(revenue=("price", "sum"))
    return groups.sort("revenue", descending=True)


def q6(table: Tables[Rows]) -> Rows:
    """See ``q1``."""
    rows = table("lineitem").filter(
        "l_shipdate >= date '1994-01-01' and l_shipdate < date '1995-01-01' "
        "and l_discount between 0.05 and 0.07 and l_quantity < 24"
    )
    return (
        rows.select(value="l_extendedprice * l_discount").group_by().agg(revenue=("value", "sum"))
    )


def q7(table: Tables[Rows]) -> Rows:
    """See ``q1``."""
    nations = table("nation").filter("n_name in ('FRANCE', 'GERMANY')")
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
    orders = table("orders").join(customers, left_on="o_custkey", right_on="c_custkey")
    rows = table("lineitem").filter("l_shipdate between date '1995-01-01' and date '1996-12-31'")
    rows = rows.join(suppliers, left_on="l_suppkey", right_on="s_suppkey")
    rows = rows.join(orders, left_on="l_orderkey", right_on="o_orderkey")
    rows = rows.filter("supp_nation <> cust_nation")
    rows = rows.with_columns(l_year="extract(year from l_shipdate)", volume=PRICE)
    keys = ["supp_nation", "cust_nation", "l_year"]
    return rows.group_by(keys).agg(revenue=("volume", "sum")).sort(keys)


def q8(table: Tables[Rows]) -> Rows:
    """See ``q1``."""
    america = table("region").filter("r_name = 'AMERICA'")
    nations = table("nation").join(
        america, left_on="n_regionkey", right_on="r_regionkey", how="semi"
    )
    customers = table("customer").join(
        nations, left_on="c_nationkey", right_on="n_nationkey", how="semi"
    )
    orders = table("orders").filter("o_orderdate between date '1995-01-01' and date '1996-12-31'")
    orders = orders.join(customers, left_on="o_custkey", right_on="c_custkey", how="semi")
    suppliers = table("supplier").join(
        table("nation"), left_on="s_nationkey", right_on="n_nationkey"
    )
    parts = table("part").filter(f"p_type like '{table.constants.kind}%'")
    rows = table("lineitem").join(parts, left_on="l_partkey", right_on="p_partkey", how="semi")
    rows = rows.join(orders, left_on="l_orderkey", right_on="o_orderkey")
    rows = rows.join(suppliers, left_on="l_suppkey", right_on="s_suppkey")
    rows = rows.select(
        o_year="extract(year from o_orderdate)",
        volume=PRICE,
        brazil=f"case when n_name = 'BRAZIL' then {PRICE} else 0 end",
    )
    sums = rows.group_by("o_year").agg(brazil=("brazil", "sum"), volume=("volume", "sum"))
    return sums.select("o_year", mkt_share="brazil / volume").sort("o_year")


def q9(table: Tables[Rows]) -> Rows:
    """See ``q1``."""
    parts = table("part").filter("p_name like '%green%'")
    rows = table("lineitem").join(parts, left_on="l_partkey", right_on="p_partkey", how="semi")
    rows = rows.join(
        table("partsupp"),
        left_on=["l_partkey", "l_suppkey"],
        right_on=["ps_partkey", "ps_suppkey"],
    )
    suppliers = table("supplier").join(
        table("nation"), left_on="s_nationkey", right_on="n_nationkey"
    )
    rows = rows.join(suppliers, left_on="l_suppkey", right_on="s_suppkey")
    rows = rows.join(table("orders"), left_on="l_orderkey", right_on="o_orderkey")
    rows = rows.select(
        nation="n_name",
        o_year="extract(year from o_orderdate)",
        amount=f"{PRICE} - ps_supplycost * l_quantity",
    )
    profits = rows.group_by("nation", "o_year").agg(sum_profit=("amount", "sum"))
    return profits.sort(["nation", "o_year"], descending=[False, True])


def q10(table: Tables[Rows]) -> Rows:
    """See ``q1``."""
    orders = table("orders").filter(
        "o_orderdate >= date '1993-10-01' and o_orderdate < date '1994-01-01'"
    )
    rows = table("lineitem").filter("l_returnflag = 'R'").with_columns(price=PRICE)
    rows = rows.join(orders, left_on="l_orderkey", right_on="o_orderkey")
    rows = rows.join(table("customer"), left_on="o_custkey", right_on="c_custkey")
    rows = rows.join(table("nation"), left_on="c_nationkey", right_on="n_nationkey")
    keys = ["o_custkey", "c_name", "c_acctbal", "c_phone", "n_name", "c_address", "c_comment"]
    groups = rows.group_by(*keys).agg(revenue=("price", "sum"))
    return groups.sort(["revenue", "o_custkey"], [True, False]).limit(20)


def q11(table: Tables[Rows]) -> Rows:
    """See ``q1``."""
    germany = table("nation").filter("n_name = 'GERMANY'")
    suppliers = table("supplier").join(
        germany, left_on="s_nationkey", right_on="n_nationkey", how="semi"
    )
    rows = table("partsupp").join(suppliers, left_on="ps_suppkey", right_on="s_suppkey", how="semi")
    rows = rows.select("ps_partkey", value="ps_supplycost * ps_availqty")
    total = rows.group_by().agg(total=("value", "sum"))
    parts = rows.group_by("ps_partkey").agg(value=("value", "sum")).join(total, how="cross")
    parts = parts.filter(f"value > total * {table.constants.fraction:.12f}").drop("total")
    return parts.sort(["value", "ps_partkey"], descending=[True, False])


def q12(table: Tables[Rows]) -> Rows:
    """See ``q1``."""
    rows = table("lineitem").filter(
        "l_shipmode in ('MAIL', 'SHIP') and l_commitdate < l_receiptdate and l_shipdate < l_commitdate "
        "and l_receiptdate >= date '1994-01-01' and l_receiptdate < date '1995-01-01'"
    )
    rows = table("orders").join(rows, left_on="o_orderkey", right_on="l_orderkey")
    rows = rows.with_columns(
        high="(o_orderpriority in ('1-URGENT', '2-HIGH'))::int",
        low="(o_orderpriority not in ('1-URGENT', '2-HIGH'))::int",
    )
    groups = rows.group_by("l_shipmode")
    return groups.agg(high_count=("high", "sum"), low_count=("low", "sum")).sort("l_shipmode")


def q13(table: Tables[Rows]) -> Rows:
    """See ``q1``."""
    orders = table("orders").filter("o_comment not like '%special%requests%'")
    rows = table("customer").join(orders, left_on="c_custkey", right_on="o_custkey", how="left")
    counts = rows.group_by("c_custkey").agg(c_count=("o_orderkey", "count"))
    return counts.group_by("c_count").agg(custdist="count").sort(["custdist", "c_count"], True)


def q14(table: Tables[Rows]) -> Rows:
    """See ``q1``."""
    rows = table("lineitem").filter(
        "l_shipdate >= date '1995-09-01' and l_shipdate < date '1995-10-01'"
    )
    rows = rows.join(table("part"), left_on="l_partkey", right_on="p_partkey")
    rows = rows.select(price=PRICE, promo=f"case when p_type like 'PROMO%' then {PRICE} else 0 end")
    sums = rows.group_by().agg(promo=("promo", "sum"), price=("price", "sum"))
    return sums.select(promo_revenue="100.00 * promo / price")


def q15(table: Tables[Rows]) -> Rows:
    """See ``q1``."""
    rows = table("lineitem").filter(
        "l_shipdate >= date '1996-01-01' and l_shipdate < date '1996-04-01'"
    )
    groups = rows.with_columns(price=PRICE).group_by("l_suppkey")
    revenue = groups.agg(total_revenue=("price", "sum"))
    best = revenue.group_by().agg(total_revenue=("total_revenue", "max"))
    rows = table("supplier").join(
        revenue.join(best, on="total_revenue"), left_on="s_suppkey", right_on="l_suppkey"
    )
    names = ["s_suppkey", "s_name", "s_address", "s_phone", "total_revenue"]
    return rows.sort("s_suppkey").select(*names)


def q16(table: Tables[Rows]) -> Rows:
    """See ``q1``."""
    complaints = table("supplier").filter("s_comment like '%Customer%Complaints%'")
    supplies = table("partsupp").join(
        complaints, left_on="ps_suppkey", right_on="s_suppkey", how="anti"
    )
    parts = table("part").filter(
        "p_brand <> 'Brand#45' and p_type not like 'MEDIUM POLISHED%' "
        "and p_size in (49, 14, 23, 45, 19, 3, 36, 9)"
    )
    rows = supplies.join(parts, left_on="ps_partkey", right_on="p_partkey")
    groups = rows.group_by("p_brand", "p_type", "p_size")
    counts = groups.agg(supplier_cnt=("ps_suppkey", "count_distinct"))
    keys = ["supplier_cnt", "p_brand", "p_type", "p_size"]
    return counts.sort(keys, [True, False, False, False])


def q17(table: Tables[Rows]) -> Rows:
    """See ``q1``."""
    parts = table("part").filter(
        f"p_brand = 'Brand#23' and p_container like '{table.constants.container}%'"
    )
    rows = table("lineitem").join(parts, left_on="l_partkey", right_on="p_partkey", how="semi")
    means = rows.group_by("l_partkey").agg(mean=("l_quantity", "mean"))
    rows = rows.join(means, on="l_partkey").filter("l_quantity < 0.2 * mean")
    return rows.group_by().agg(total=("l_extendedprice", "sum")).select(avg_yearly="total / 7.0")


def q18(table: Tables[Rows]) -> Rows:
    """See ``q1``."""
    totals = table("lineitem").group_by("l_orderkey").agg(quantity=("l_quantity", "sum"))
    orders = table("orders").join(
        totals.filter(f"quantity > {table.constants.quantity}"),
        left_on="o_orderkey",
        right_on="l_orderkey",
    )
    rows = orders.join(table("customer"), left_on="o_custkey", right_on="c_custkey")
    order = rows.sort(["o_totalprice", "o_orderdate", "o_orderkey"], [True, False, False])
    return order.limit(100).select(
        "c_name", "o_custkey", "o_orderkey", "o_orderdate", "o_totalprice", "quantity"
    )


def q19(table: Tables[Rows]) -> Rows:
    """See ``q1``."""
    rows = table("lineitem").filter(
        "l_shipmode in ('AIR', 'AIR REG') and l_shipinstruct = 'DELIVER IN PERSON'"
    )
    rows = rows.join(table("part"), left_on="l_partkey", right_on="p_partkey")
    rows = rows.filter(
        """
        (p_brand = 'Brand#12' and p_container in ('SM CASE', 'SM BOX', 'SM PACK', 'SM PKG')
            and l_quantity between 1 and 11 and p_size between 1 and 5)
        or (p_brand = 'Brand#23' and p_container in ('MED BAG', 'MED BOX', 'MED PKG', 'MED PACK')
            and l_quantity between 10 and 20 and p_size between 1 and 10)
        or (p_brand = 'Brand#34' and p_container in ('LG CASE', 'LG BOX', 'LG PACK', 'LG PKG')
            and l_quantity between 20 and 30 and p_size between 1 and 15)
        """
    )
    return rows.select(price=PRICE).group_by().agg(revenue=("price", "sum"))


def q20(table: Tables[Rows]) -> Rows:
    """See ``q1``."""
    shipped = table("lineitem").filter(
        "l_shipdate >= date '1994-01-01' and l_shipdate < date '1995-01-01'"
    )
    shipped = shipped.group_by("l_partkey", "l_suppkey").agg(quantity=("l_quantity", "sum"))
    forest = table("part").filter("p_name like 'forest%'")
    rows = table("partsupp").join(forest, left_on="ps_partkey", right_on="p_partkey", how="semi")
    rows = rows.join(
        shipped, left_on=["ps_partkey", "ps_suppkey"], right_on=["l_partkey", "l_suppkey"]
    )
    rows = rows.filter("ps_availqty > 0.5 * quantity")
    canada = table("nation").filter("n_name = 'CANADA'")
    suppliers = table("supplier").join(
        canada, left_on="s_nationkey", right_on="n_nationkey", how="semi"
    )
    suppliers = suppliers.join(rows, left_on="s_suppkey", right_on="ps_suppkey", how="semi")
    return suppliers.select("s_name", "s_address").sort("s_name")


def q21(table: Tables[Rows]) -> Rows:
    """See ``q1``."""
    lines = table("lineitem")
    late = lines.filter("l_receiptdate > l_commitdate")
    shared = lines.group_by("l_orderkey").agg(suppliers=("l_suppkey", "count_distinct"))
    blamed = late.group_by("l_orderkey").agg(suppliers=("l_suppkey", "count_distinct"))
    orders = table("orders").filter("o_orderstatus = 'F'")
    rows = late.join(orders, left_on="l_orderkey", right_on="o_orderkey", how="semi")
    rows = rows.join(shared.filter("suppliers > 1"), on="l_orderkey", how="semi")
    rows = rows.join(blamed.filter("suppliers = 1"), on="l_orderkey", how="semi")
    arabia = table("nation").filter("n_name = 'SAUDI ARABIA'")
    suppliers = table("supplier").join(
        arabia, left_on="s_nationkey", right_on="n_nationkey", how="semi"
    )
    rows = rows.join(suppliers, left_on="l_suppkey", right_on="s_suppkey")
    waits = rows.group_by("s_name").agg(numwait="count")
    return waits.top_k(100, ["numwait", "s_name"], descending=[True, False])


def q22(table: Tables[Rows]) -> Rows:
    """See ``q1``."""
    rows = table("customer").with_columns(code="substring(c_phone, 1, 2)")
    rows = rows.filter("code in ('13', '31', '23', '29', '30', '18', '17')")
    mean = (
        rows.filter("c_acctbal > 0.00").group_by().agg(total=("c_acctbal", "sum"), number="count")
    )
    rows = rows.join(mean, how="cross").filter("c_acctbal * number > total")
    rows = rows.join(table("orders"), left_on="c_custkey", right_on="o_custkey", how="anti")
    groups = rows.group_by("code").agg(numcust="count", totacctbal=("c_acctbal", "sum"))
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
