"""Queries of TPC-H in our operators, beside the SQL that DuckDB gets.

They are those of the specification with its validation parameters, but for three things: results that the
specification leaves in any order are sorted to the end, means are rounded, since sums of floats in another order
differ in their last digits, and thresholds fit a scale of a hundredth.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import exoshuffle as xs

Tables = Callable[[str], xs.Dataset]

PRICE = "l_extendedprice * (1 - l_discount)"
NAMES = ["region", "nation", "supplier", "customer", "part", "partsupp", "orders", "lineitem"]


def q1(table: Tables) -> xs.Dataset:
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
    rounded = {name: f"round({name}, 4)" for name in ("avg_qty", "avg_price", "avg_disc")}
    return groups.with_columns(**rounded).sort(["l_returnflag", "l_linestatus"])


def q3(table: Tables) -> xs.Dataset:
    customers = table("customer").filter("c_mktsegment = 'BUILDING'")
    orders = table("orders").filter("o_orderdate < date '1995-03-15'")
    orders = orders.join(customers, left_on="o_custkey", right_on="c_custkey", how="semi")
    rows = table("lineitem").filter("l_shipdate > date '1995-03-15'").with_columns(price=PRICE)
    rows = rows.join(orders, left_on="l_orderkey", right_on="o_orderkey")
    groups = rows.group_by("l_orderkey", "o_orderdate", "o_shippriority")
    best = groups.agg(revenue=("price", "sum"))
    order = best.sort(["revenue", "o_orderdate", "l_orderkey"], [True, False, False]).limit(10)
    return order.select("l_orderkey", "revenue", "o_orderdate", "o_shippriority")


def q4(table: Tables) -> xs.Dataset:
    orders = table("orders").filter(
        "o_orderdate >= date '1993-07-01' and o_orderdate < date '1993-10-01'"
    )
    late = table("lineitem").filter("l_commitdate < l_receiptdate")
    orders = orders.join(late, left_on="o_orderkey", right_on="l_orderkey", how="semi")
    return orders.group_by("o_orderpriority").agg(order_count="count").sort("o_orderpriority")


def q5(table: Tables) -> xs.Dataset:
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


def q6(table: Tables) -> xs.Dataset:
    rows = table("lineitem").filter(
        "l_shipdate >= date '1994-01-01' and l_shipdate < date '1995-01-01' "
        "and l_discount between 0.05 and 0.07 and l_quantity < 24"
    )
    return (
        rows.select(value="l_extendedprice * l_discount").group_by().agg(revenue=("value", "sum"))
    )


def q10(table: Tables) -> xs.Dataset:
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


def q12(table: Tables) -> xs.Dataset:
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


def q13(table: Tables) -> xs.Dataset:
    orders = table("orders").filter("o_comment not like '%special%requests%'")
    # The key of the right side is not kept by a join, and orders are counted by it.
    orders = orders.select("o_custkey", ordered="o_orderkey")
    rows = table("customer").join(orders, left_on="c_custkey", right_on="o_custkey", how="left")
    counts = rows.group_by("c_custkey").agg(c_count=("ordered", "count"))
    return counts.group_by("c_count").agg(custdist="count").sort(["custdist", "c_count"], True)


def q14(table: Tables) -> xs.Dataset:
    rows = table("lineitem").filter(
        "l_shipdate >= date '1995-09-01' and l_shipdate < date '1995-10-01'"
    )
    rows = rows.join(table("part"), left_on="l_partkey", right_on="p_partkey")
    rows = rows.select(price=PRICE, promo=f"case when p_type like 'PROMO%' then {PRICE} else 0 end")
    sums = rows.group_by().agg(promo=("promo", "sum"), price=("price", "sum"))
    return sums.select(promo_revenue="round(100.00 * promo / price, 6)")


def q16(table: Tables) -> xs.Dataset:
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


def q18(table: Tables) -> xs.Dataset:
    totals = table("lineitem").group_by("l_orderkey").agg(quantity=("l_quantity", "sum"))
    orders = table("orders").join(
        totals.filter("quantity > 250"), left_on="o_orderkey", right_on="l_orderkey"
    )
    rows = orders.join(table("customer"), left_on="o_custkey", right_on="c_custkey")
    order = rows.sort(["o_totalprice", "o_orderdate", "o_orderkey"], [True, False, False])
    return order.limit(100).select(
        "c_name", "o_custkey", "o_orderkey", "o_orderdate", "o_totalprice", "quantity"
    )


def q22(table: Tables) -> xs.Dataset:
    rows = table("customer").with_columns(code="substring(c_phone, 1, 2)")
    rows = rows.filter("code in ('13', '31', '23', '29', '30', '18', '17')")
    mean = (
        rows.filter("c_acctbal > 0.00").group_by().agg(total=("c_acctbal", "sum"), number="count")
    )
    rows = rows.join(mean, how="cross").filter("c_acctbal * number > total")
    rows = rows.join(table("orders"), left_on="c_custkey", right_on="o_custkey", how="anti")
    groups = rows.group_by("code").agg(numcust="count", totacctbal=("c_acctbal", "sum"))
    return groups.sort("code")


@dataclass(frozen=True)
class Query:
    """A query in both languages."""

    ours: Callable[[Tables], Any]
    sql: str


QUERIES = {
    "q1": Query(
        q1,
        f"""
        select l_returnflag, l_linestatus, sum(l_quantity), sum(l_extendedprice), sum({PRICE}),
            sum({PRICE} * (1 + l_tax)), round(avg(l_quantity), 4), round(avg(l_extendedprice), 4),
            round(avg(l_discount), 4), count(*)
        from lineitem where l_shipdate <= date '1998-09-02'
        group by l_returnflag, l_linestatus order by l_returnflag, l_linestatus
        """,  # noqa: S608  names of this file
    ),
    "q3": Query(
        q3,
        f"""
        select l_orderkey, sum({PRICE}) as revenue, o_orderdate, o_shippriority
        from customer, orders, lineitem
        where c_mktsegment = 'BUILDING' and c_custkey = o_custkey and l_orderkey = o_orderkey
            and o_orderdate < date '1995-03-15' and l_shipdate > date '1995-03-15'
        group by l_orderkey, o_orderdate, o_shippriority
        order by revenue desc, o_orderdate, l_orderkey limit 10
        """,  # noqa: S608  names of this file
    ),
    "q4": Query(
        q4,
        """
        select o_orderpriority, count(*) from orders
        where o_orderdate >= date '1993-07-01' and o_orderdate < date '1993-10-01' and exists (
            select * from lineitem where l_orderkey = o_orderkey and l_commitdate < l_receiptdate)
        group by o_orderpriority order by o_orderpriority
        """,
    ),
    "q5": Query(
        q5,
        f"""
        select n_name, sum({PRICE}) as revenue
        from customer, orders, lineitem, supplier, nation, region
        where c_custkey = o_custkey and l_orderkey = o_orderkey and l_suppkey = s_suppkey
            and c_nationkey = s_nationkey and s_nationkey = n_nationkey and n_regionkey = r_regionkey
            and r_name = 'ASIA' and o_orderdate >= date '1994-01-01' and o_orderdate < date '1995-01-01'
        group by n_name order by revenue desc
        """,  # noqa: S608  names of this file
    ),
    "q6": Query(
        q6,
        """
        select sum(l_extendedprice * l_discount) from lineitem
        where l_shipdate >= date '1994-01-01' and l_shipdate < date '1995-01-01'
            and l_discount between 0.05 and 0.07 and l_quantity < 24
        """,
    ),
    "q10": Query(
        q10,
        f"""
        select c_custkey, c_name, c_acctbal, c_phone, n_name, c_address, c_comment,
            sum({PRICE}) as revenue
        from customer, orders, lineitem, nation
        where c_custkey = o_custkey and l_orderkey = o_orderkey and l_returnflag = 'R'
            and o_orderdate >= date '1993-10-01' and o_orderdate < date '1994-01-01'
            and c_nationkey = n_nationkey
        group by all order by revenue desc, c_custkey limit 20
        """,  # noqa: S608  names of this file
    ),
    "q12": Query(
        q12,
        """
        select l_shipmode, count(*) filter (o_orderpriority in ('1-URGENT', '2-HIGH')),
            count(*) filter (o_orderpriority not in ('1-URGENT', '2-HIGH'))
        from orders, lineitem
        where o_orderkey = l_orderkey and l_shipmode in ('MAIL', 'SHIP')
            and l_commitdate < l_receiptdate and l_shipdate < l_commitdate
            and l_receiptdate >= date '1994-01-01' and l_receiptdate < date '1995-01-01'
        group by l_shipmode order by l_shipmode
        """,
    ),
    "q13": Query(
        q13,
        """
        select c_count, count(*) as custdist from (
            select c_custkey, count(o_orderkey) as c_count from customer left join orders
                on c_custkey = o_custkey and o_comment not like '%special%requests%'
            group by c_custkey)
        group by c_count order by custdist desc, c_count desc
        """,
    ),
    "q14": Query(
        q14,
        f"""
        select round(100.00 * sum(case when p_type like 'PROMO%' then {PRICE} else 0 end) / sum({PRICE}), 6)
        from lineitem, part where l_partkey = p_partkey
            and l_shipdate >= date '1995-09-01' and l_shipdate < date '1995-10-01'
        """,  # noqa: S608  names of this file
    ),
    "q16": Query(
        q16,
        """
        select p_brand, p_type, p_size, count(distinct ps_suppkey) as supplier_cnt
        from partsupp, part
        where p_partkey = ps_partkey and p_brand <> 'Brand#45' and p_type not like 'MEDIUM POLISHED%'
            and p_size in (49, 14, 23, 45, 19, 3, 36, 9) and ps_suppkey not in (
                select s_suppkey from supplier where s_comment like '%Customer%Complaints%')
        group by all order by supplier_cnt desc, p_brand, p_type, p_size
        """,
    ),
    "q18": Query(
        q18,
        """
        select c_name, c_custkey, o_orderkey, o_orderdate, o_totalprice, sum(l_quantity)
        from customer, orders, lineitem
        where o_orderkey in (
                select l_orderkey from lineitem group by l_orderkey having sum(l_quantity) > 250)
            and c_custkey = o_custkey and o_orderkey = l_orderkey
        group by all order by o_totalprice desc, o_orderdate, o_orderkey limit 100
        """,
    ),
    "q22": Query(
        q22,
        """
        with called as (select *, substring(c_phone, 1, 2) as code from customer
            where code in ('13', '31', '23', '29', '30', '18', '17')),
        mean as (select sum(c_acctbal) as total, count(*) as number from called where c_acctbal > 0.00)
        select code, count(*), sum(c_acctbal) from called, mean
        where c_acctbal * number > total
            and not exists (select * from orders where o_custkey = c_custkey)
        group by code order by code
        """,
    ),
}
