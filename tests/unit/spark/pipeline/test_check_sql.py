"""Checks of SQL queries and column names in a pipeline file, without Spark."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from kohort.spark.pipeline.check_sql import Columns, SqlProblem, check_expression, check_sql, columns_of_query
from kohort.spark.pipeline.parse import load_pipeline, parse_pipeline
from kohort.spark.pipeline.sections import PipelineError

CLICK_COLUMNS = ("id", "user", "country", "amount", "at", "tags", "place", "m", "_source")
TABLES: dict[str, Columns] = {"input": CLICK_COLUMNS, "orders": CLICK_COLUMNS, "rates": ("country", "rate")}
TAKEN = [
    "select * from input",
    "select o.*, o.amount * r.rate as euros from orders o left join rates r using (country)",
    "select o.*, r.rate from orders o left join rates r on o.country = r.country",
    "select *, transform(tags, t -> upper(t)) as up from input",
    "select *, filter(tags, (t, i) -> length(t) > i) f, aggregate(tags, 0, (acc, v) -> acc + v, acc -> "
    "acc*2) a from input",
    "select place.x, o.place.city, o.place.x + 1 as z from input o",
    "select id, explode(tags) as tag from input",
    "select id, t.tag from input lateral view explode(tags) t as tag",
    "select id, k, v from input lateral view explode(m) as k, v",
    "select id, pos, c from input lateral view outer posexplode(tags) p as pos, c",
    "select amount+1 as b, b*2 as c from input",
    "with a as (select id, amount*2 as d from input) select a.d, id from a where d > 3",
    "select x.total from (select sum(amount) as total from input) x",
    "select * from (select country, count(*) as n from input group by country having n > 1) where n > 3",
    "select country, sum(amount) over (partition by country order by at rows between 1 preceding and "
    "current row) s from input",
    "select *, row_number() over w as rn from input window w as (partition by user order by at)",
    "select date_trunc('hour', at), extract(day from at), timestampdiff(MINUTE, at, current_timestamp), "
    "date_add(at, 3) from input",
    "select at + interval 1 hour as later, at - interval '1' day from input",
    "select cast(amount as decimal(10,2)), amount::string, try_cast(user as int) from input",
    "select struct(id, user as u) as s, named_struct('a', id) from input",
    "select s.u from (select struct(id, user as u) as s from input)",
    "select * except (amount) from input",
    "select case when amount > 0 then 'a' else null end as k from input where user rlike '^a' and country in ('A','B')",
    "select id from input where exists (select 1 from rates where rates.country = input.country)",
    "select id from input o where amount > (select max(rate) from rates r where r.country = o.country)",
    "select `user`, `country` from `input`",
    "select *, _source.partition, _source.offset, _source.redelivered as again from input",
    "select id, m['a'], tags[0], place['x'] from input",
    "select country, collect_list(struct(at, amount)) as l from input group by all",
    "select id from input union all select amount from orders",
    "select country, count(*) filter (where amount > 0) as n from input group by cube(country)",
    "select country, grouping(country) g from input group by grouping sets ((country), ())",
    "select /*+ BROADCAST(r) */ o.id from orders o join rates r on o.country <=> r.country",
    "select o.id from orders o left semi join rates r on o.country = r.country",
    "select o.id from orders o left anti join rates r on o.country = r.country",
    "select o.id, r.rate from orders o, rates r where o.country = r.country",
    "select id from input order by at desc nulls last limit 10",
    "select id, stack(2, 'a', amount, 'b', id) as (k, v) from input",
    "select inline(array(struct(1 as q))) from input",
    "select * from values (1, 'a') as t(a, b)",
    "select * from range(10)",
    "select id, json_tuple(user, 'a', 'b') as (a, b) from input",
    "select from_json(user, 'a int, b struct<c: string>').b.c as z from input",
    "select get_json_object(user, '$.a') from input",
    "select user:a.b::int from input",
    "select percentile_approx(amount, 0.5) within group (order by amount) from input",
    "select mode() within group (order by amount) m2 from input",
    "select substring(user from 1 for 2), position('a' in user), trim(both 'x' from user), overlay(user "
    "placing 'x' from 2) from input",
    "select date'2026-01-01' d, timestamp'2026-01-01 00:00:00' ts, x'1F' b, 1L l, 1.0BD bd, 1e3 from input",
    "select if(amount > 0, 1, 0), nvl(user, ''), coalesce(user, country), iff from (select *, 1 as iff from input)",
    "select * from input pivot (sum(amount) for country in ('FR', 'US'))",
    "from input select id",
    "select id from input tablesample (10 percent)",
    "select transform(id) using 'cat' as (a) from input",
    "from input |> where amount > 0 |> select id",
    "select distinct on_time from (select true as on_time from input)",
    "select id from input where user like any ('a%', 'b%')",
    "select try_divide(amount, 0), try_to_timestamp(user), window(at, '1 hour').start from input",
    "select w.start from (select window(at, '1 hour') as w from input)",
    "select id div 2, id % 2, id & 1, ~id, !true from input",
    "select at at time zone 'UTC' from input",
    "select map_filter(m, (k, v) -> v > 1), zip_with(tags, tags, (a, b) -> concat(a, b)), exists(tags, t "
    "-> t is null), forall(tags, t -> t = 'a') from input",
    "select array(1,2)[0], map('a', 1), sequence(1, 3), element_at(tags, -1) from input",
    "select i.id as id, rates.rate from input i cross join rates",
    "select o.id, l.t from orders o, lateral (select explode(o.tags) as t) l",
    "select id from input natural join rates",
    "select id, user u, country as c from input",
    "select count(distinct user, country), approx_count_distinct(user) from input",
    "select max_by(user, amount), first(user, true), any_value(user) ignore nulls from input",
    "select dayofweek(at), year(at), current_date(), current_timestamp(), now() from input",
    "select named_struct('a', 1).a from input",
    "select * from input where amount between 1 and 2 and not user is distinct from 'x'",
    "select sum(amount) total from input group by 1",
    "select id -- a comment\n from input /* more */",
    'select id from input where country = "FR"',
    "select session_window(at, '5 minutes').start as s, count(*) as n from input group by "
    "session_window(at, '5 minutes')",
    "select hash(*), xxhash64(id, user) from input",
    "select count_if(amount > 1) from input",
    "select INPUT.ID from INPUT",
    "select input.place.x from input",
    "select *, lag(amount, 1) over (partition by user order by at) as prev from input qualify prev > 1",
    "select a.id from input a join input b on a.id = b.id",
    "select id from identifier('input')",
    "select cast(null as void) from input",
    "select id from input where at > timestampadd(HOUR, -1, current_timestamp())",
    "select date_diff(DAY, at, current_date) from input",
    "select datediff(at, at), dateadd(MONTH, 1, at) from input",
    "select user() from input",
    "select ilike(user, 'a'), user ilike 'a%' from input",
    "select to_json(struct(*)) as j from input",
    "select to_json(struct(o.*)) as j from input o",
    "select o.place.* from input o",
    "select place.* from input",
    "select array_sort(tags, (l, r) -> case when l < r then -1 else 1 end) from input",
    "select collect_set(user) filter (where amount > 1) from input",
    "select parse_json(user) as v, variant_get(parse_json(user), '$.a', 'int') from input",
    "select * replace (1 as id) from input",
]
"""Valid Spark queries that a SQL checker might reject by mistake."""


@pytest.mark.parametrize("query", TAKEN)
def test_valid_spark_queries_are_accepted(query: str) -> None:
    columns_of_query(query, TABLES)


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("select * form input", "invalid SQL at 'input', in: select * form input"),
        ("select user form input", "invalid SQL at 'input', in: select user form input"),
        ("select (id from input", "invalid SQL at 'from', in: select (id from input"),
        ("selct id from input", "invalid SQL at 'from', in: selct id from input"),
        ("select id from inputt", "source 'inputt' does not exist; did you mean input?"),
        ("select id from zzz", "source 'zzz' does not exist; found input, orders, rates"),
        ("select idd from input", "no column 'idd'; did you mean id?"),
        ("select id from input where usr = 'a'", "no column 'usr'; did you mean user?"),
        ("select id from input group by contry", "no column 'contry'; did you mean country?"),
        ("select o.amout from orders o", "o has no column 'amout'; did you mean amount?"),
        ("select o.rate from orders o join rates r using (country)", "o has no column 'rate'; did you mean at?"),
        ("select p.id from rates", "no table or column 'p'; found country, rate"),
        ("select transform(tags, t -> upper(tt)) from input", "no column 'tt'; found amount, at, country, "
         "id, m, place, tags, user"),
        ("with a as (select idd from input) select * from a", "no column 'idd'; did you mean id?"),
        ("select id from input; select 1", "expected one SQL query, found 2"),
        (" ", "the SQL query is empty"),
    ],
)  # fmt: skip
def test_error_of_an_invalid_sql_query_suggests_a_valid_name(query: str, message: str) -> None:
    with pytest.raises(SqlProblem) as problem:
        columns_of_query(query, TABLES)
    assert str(problem.value) == message


@pytest.mark.parametrize(
    "query",
    ["select anything from input", "select i.anything from input i", "select o.id, i.z from orders o, input i"],
)
def test_table_with_unknown_columns_accepts_any_column_in_sql(query: str) -> None:
    columns_of_query(query, {**TABLES, "input": None})
    assert columns_of_query("select * from input", {"input": None}) is None


def test_sql_after_a_python_step_may_read_any_table() -> None:
    columns_of_query("select id from made", TABLES, any_table=True)


@pytest.mark.parametrize(
    ("query", "columns"),
    [
        ("select * from rates", ("country", "rate")),
        ("select o.id, r.*, o.amount * r.rate as euros from orders o join rates r on true", ("id", "country", "rate",
         "euros")),
        ("select r.*, 1 as n from orders join rates r using (country)", ("country", "rate", "n")),
        ("with a as (select id as n from input) select * from a", ("n",)),
        ("select * from (select country c from rates)", ("c",)),
        ("select country from rates union select id from input", ("country",)),
        ("select _source.offset, place.city from input", ("offset", "city")),
        ("select count(*) from input", None),
        ("select * except (id, _source) from input", ("user", "country", "amount", "at", "tags", "place", "m")),
        ("from rates |> extend 1 as more", None),
    ],
)  # fmt: skip
def test_check_of_a_sql_query_returns_the_columns_of_its_result(query: str, columns: Columns) -> None:
    assert columns_of_query(query, TABLES) == columns


def test_columns_and_syntax_of_sql_expressions_are_checked() -> None:
    check_expression("rate > 0 and country is not null", ("country", "rate"))
    for text, message in (("rat > 0", "no column 'rat'; did you mean rate?"), ("rate >", "invalid SQL")):
        with pytest.raises(SqlProblem, match=message):
            check_expression(text, ("country", "rate"))


pytest.importorskip("sqlglot")


CLICKS = """\
name: clicks
brokers: localhost:9092
sources:
  clicks: {topics: [clicks], decode: {format: json, schema: "user string, country string, ms int, at timestamp"}}
  regions: {topics: [regions], read: table, decode: {format: json, schema: "country string, region string"}}
steps:
  - sql: select c.*, r.region from clicks c left join regions r using (country)
  - sql: select *, ms / 1000 as s from input where ms > 0
    filters: true
expect:
  - {not_null: region}
  - {check: s < 3600}
sinks:
  - parquet: {path: out, partition_by: [region]}
  - topic: {topic: seconds, key: user}
summaries:
  - {name: totals, path: totals, sql: "select region, sum(s) as s from parquet group by region"}
dlq: {topic: dead}
"""
WINDOW = """\
  - window: {time: at, size: 1 minute, by: [region], agg: {n: count(*), last: max(s)}}
"""


def refused(old: str, new: str) -> str:
    assert old in CLICKS
    with pytest.raises(PipelineError) as problem:
        check_sql(parse_pipeline(CLICKS.replace(old, new), Path("/p/clicks.yaml"), {}))
    return str(problem.value).removeprefix("/p/clicks.yaml, ")


def test_valid_pipeline_passes_the_sql_check() -> None:
    check_sql(parse_pipeline(CLICKS, Path("/p/clicks.yaml"), {}))


@pytest.mark.parametrize("name", ["flight_delays.yaml", "consumer_offsets.yaml"])
def test_example_pipelines_pass_the_sql_check(name: str) -> None:
    check_sql(load_pipeline(Path(__file__).parents[4] / "examples" / name, {}))


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("user string", "user lonk", "line 4: schema: 'lonk' is not a Spark type; did you mean long?"),
        ("from clicks c", "form clicks c", "line 7: invalid SQL at 'clicks', in: c.*, r.region form clicks c "
         "left join regions"),
        ("r.region from", "r.regon from", "line 7: r has no column 'regon'; did you mean region?"),
        ("ms / 1000", "mss / 1000", "line 8: no column 'mss'; did you mean ms?"),
        ("not_null: region", "not_null: regin", "line 11: no column 'regin'; did you mean region?"),
        ("check: s <", "check: duration <", "line 12: no column 'duration'; found at, country, ms, region, s, "
         "user"),
        ("partition_by: [region]", "partition_by: [nocol]", "line 14: partition_by: no column 'nocol'; found at, "
         "country, ms, region, s, user"),
        ("key: user", "key: usr", "line 15: key: no column 'usr'; did you mean user?"),
        ("sum(s)", "sum(z)", "line 17: no column 'z'; found at, country, ms, region, s, user"),
        ("using (country)", "using (contry)", "line 7: no column 'contry'; did you mean country?"),
        ("user string", "_source string", "line 4: schema: column '_source' is reserved for the pipeline"),
        ("user string", "_problem string", "line 4: schema: column '_problem' is reserved for the pipeline"),
        ("user string", "_corrupt_record string", "line 4: schema: column '_corrupt_record' is reserved "
         "for the pipeline"),
        ("user string", "MS string", "line 4: schema: columns 'MS' and 'ms' differ only in case, which SQL ignores"),
        ("ms / 1000 as s", "1 as s, 2 as _failed", "line 8: column '_failed' is reserved for the pipeline"),
        ("topics: [clicks],", "topics: [clicks], group: '',", "line 4: group: '' is blank: give a name, or remove "
         "group"),
    ],
)  # fmt: skip
def test_error_in_pipeline_sql_names_the_line_of_the_file(old: str, new: str, message: str) -> None:
    assert refused(old, new) == message


TESTS = """\
tests:
  - name: seconds
    given: {clicks: [{value: {user: ann, other: 1}}]}
    expect: {rows: [{s: 1, USER: ann}], dlq: [{stage: decode, offset: 0}]}
"""


def test_unknown_column_in_expected_rows_of_a_pipeline_test_is_rejected() -> None:
    def check(text: str) -> None:
        check_sql(parse_pipeline(text, Path("/p/clicks.yaml"), {}))

    check(CLICKS + TESTS)
    for old, new, message in (
        ("s: 1,", "seconds: 1,", "rows: no column 'seconds'; found at, country, ms, region, s, user"),
        ("offset: 0", "ofset: 0", "dlq: no column 'ofset'; did you mean offset?"),
    ):
        with pytest.raises(PipelineError) as problem:
            check(CLICKS + TESTS.replace(old, new))
        assert str(problem.value) == f"/p/clicks.yaml, line 20: test 'seconds': {message}"


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("time: at", "time: att", "line 10: window: no column 'att'; did you mean at?"),
        ("by: [region]", "by: [regio]", "line 10: window: no column 'regio'; did you mean region?"),
        ("max(s)", "max(zz)", "line 10: agg: last: no column 'zz'; found at, country, ms, region, s, user"),
    ],
)
def test_unknown_columns_of_a_window_are_rejected(old: str, new: str, message: str) -> None:
    text = CLICKS.replace("expect:\n", WINDOW.replace(old, new) + "expect:\n").replace("    filters: true\n", "")
    windowed = text[: text.index("expect:")] + "sinks: [{topic: {topic: out}}]\n"
    with pytest.raises(PipelineError) as problem:
        check_sql(parse_pipeline(windowed, Path("/p/clicks.yaml"), {}))
    assert str(problem.value).replace("line 9", "line 10") == f"/p/clicks.yaml, {message}"


def test_sql_after_a_python_step_may_use_any_column(tmp_path: Path) -> None:
    (tmp_path / "steps.py").write_text("def enrich(rows):\n    return rows\n")
    text = CLICKS.replace("  - sql: select *, ms / 1000", "  - python: steps.py:enrich\n  - sql: select *, anything")

    check_sql(parse_pipeline(text, tmp_path / "clicks.yaml", {}))


@pytest.mark.heavy
def test_pipeline_validate_command_runs_without_spark_and_names_a_missing_extra(tmp_path: Path) -> None:
    file = tmp_path / "clicks.yaml"
    file.write_text(CLICKS)
    program = """
import sys
for name in sys.argv[2:]:
    sys.modules[name] = None
from kohort.cli.main import main
main(["pipeline", "validate", sys.argv[1]])
"""

    def validate(*missing: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-c", program, str(file), *missing]
        return subprocess.run(command, capture_output=True, text=True, check=False)

    done = validate("pyspark", "pyarrow", "numpy", "numba")
    assert (done.returncode, "is valid" in done.stdout) == (0, True), done.stderr
    for package in ("yaml", "sqlglot"):
        done = validate("pyspark", package)
        assert done.returncode == 1
        assert f"needs the package {package}: pip install 'kohort[pipeline]'" in done.stderr
