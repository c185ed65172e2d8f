"""What a query of Spark SQL says, as far as it can be known without Spark: whether it parses, which names it uses, and
which columns come of it.

A false alarm is worse than a miss here: Spark itself judges in ``dry-run``. So a name is only refused that is a column
of no table in the query, no alias, no field, no variable of a function in it; and where the columns of one table are
not known, or come from its data (PIVOT), no name is refused at all.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Final

from kohort.extras import needs
from kohort.nearest import did_you_mean

if TYPE_CHECKING:
    from sqlglot import exp

Columns = tuple[str, ...] | None
"""Names, in order; None where they are not known."""

_SHOWN: Final = 12
_WORDS: Final = """
year years yyyy yy quarter qtr month months mon mm week weeks day days dd dayofyear dayofweek hour hours hh minute
minutes mi second seconds ss millisecond milliseconds ms microsecond microseconds nanosecond nanoseconds all
current_date current_time current_timestamp current_user session_user user current_catalog current_database
current_schema current_timezone localtimestamp localtime now grouping__id _metadata both leading trailing default
_source epoch doy dow isoyear decade century millennium
"""
"""Words that sqlglot may take for columns, and that are none."""
_UNSURE: Final = re.compile(
    r"\b(transform|match_recognize|tablesample|cluster|distribute|sort|void|identifier)\b|\|>|\w:\w|\{\{", re.IGNORECASE
)
"""Spark's syntax that sqlglot may not know: whether such a text parses is left to Spark."""


class SqlProblem(ValueError):
    """What is surely wrong in a query, in a sentence."""


class Query:
    """A query that parses. ``tables``: the columns of what it may read, by lower-case name."""

    def __init__(self, text: str, tables: Mapping[str, Columns], nested: Iterable[str] = ()) -> None:
        """``nested``: the names of fields in the tables' columns. Raises SqlProblem where it does not parse."""
        self._tables = tables
        self._nested = {name.lower() for name in nested}
        self._tree = _parsed(text)

    def check(self, *, any_table: bool = False) -> None:
        """Raise SqlProblem for a table or a name that there cannot be; ``any_table``: a step before may have made
        some."""
        from sqlglot import exp

        if self._tree is None or self._tree.find(exp.Pivot, exp.Command):
            return
        ctes = {cte.alias.lower() for cte in self._tree.find_all(exp.CTE)}
        read = [table for table in self._tree.find_all(exp.Table) if not table.find_ancestor(exp.Hint)]
        if any(not isinstance(table.this, exp.Identifier) or table.db for table in read):
            return
        for table in read:
            name = table.name.lower()
            if name not in self._tables and name not in ctes:
                if any_table:
                    return
                raise SqlProblem(f"no source is called {table.name!r}{hint(name, {*self._tables, *ctes})}")
        if any(self._tables.get(t.name.lower(), ()) is None for t in read):
            return
        self._check_columns(self._tree, read, ctes)

    def _check_columns(self, tree: exp.Expr, read: list[exp.Table], ctes: set[str]) -> None:
        from sqlglot import exp

        columns = {c.lower() for t in read for c in self._tables.get(t.name.lower()) or ()}
        known = columns | self._nested | set(_WORDS.split()) | set(_given_names(tree))
        known |= {name.lower() for table in read for name in (table.name, table.alias_or_name)}
        of = {}
        for table in read:
            if table.name.lower() not in ctes:
                of[table.alias_or_name.lower()] = {c.lower() for c in self._tables[table.name.lower()] or ()}
        twice = {n for n in of if sum(n == t.alias_or_name.lower() for t in read) > 1}
        for column in tree.find_all(exp.Column):
            parts = [part.name.lower() for part in column.parts if isinstance(part, exp.Identifier)]
            if len(parts) != len(column.parts):
                continue  # a star
            first = parts[0]
            if first not in known:
                what = "column" if len(parts) == 1 else "table or column"
                raise SqlProblem(f"no {what} {column.parts[0].name!r}{hint(first, columns)}")
            if len(parts) > 1 and first in of and first not in twice | columns:
                own = of[first]
                if parts[1] not in own | {"_source"} and not any(first in names for names in _alias_groups(tree)):
                    name = column.parts[1].name
                    raise SqlProblem(f"{first} has no column {name!r}{hint(parts[1], own)}")
        for join in tree.find_all(exp.Join):
            own = of.get(join.this.alias_or_name.lower(), set()) if isinstance(join.this, exp.Table) else set()
            for named in join.args.get("using") or ():
                if own and named.name.lower() not in own:
                    raise SqlProblem(
                        f"using: {join.this.alias_or_name} has no column {named.name!r}{hint(named.name.lower(), own)}"
                    )

    def columns(self) -> Columns:
        """Return the names of the columns that come of it; None where Spark alone knows."""
        if self._tree is None:
            return None
        return _columns_of(self._tree, dict(self._tables))


def hint(name: str, known: Iterable[str]) -> str:
    """Return what may be meant, or what there is."""
    there = sorted(name for name in known if not name.startswith("_"))
    more = ", ..." if len(there) > _SHOWN else ""
    return did_you_mean(name.lower(), there) or f"; there is {', '.join(there[:_SHOWN])}{more}"


def check_expression(text: str, columns: Columns, nested: Iterable[str] = ()) -> None:
    """Raise SqlProblem for an expression over these columns that does not parse, or names another."""
    Query(f"select {text} from _rows", {"_rows": columns}, nested).check()


def _parsed(text: str) -> exp.Query | None:
    """Return the parsed text; None where only Spark can judge."""
    with needs("pipeline", "the check of SQL"):
        import sqlglot
        from sqlglot import errors, exp
    logging.getLogger("sqlglot").setLevel(logging.ERROR)  # of what it passes over
    try:
        trees = sqlglot.parse(text, dialect="spark")
    except errors.SqlglotError as error:
        if _UNSURE.search(text):
            return None
        raise SqlProblem(_said(error)) from None
    except RecursionError:
        return None
    found = [tree for tree in trees if tree is not None]
    if not found:
        raise SqlProblem("it is empty")
    if len(found) > 1:
        raise SqlProblem("one query is expected, without ; between two")
    return found[0] if isinstance(found[0], exp.Query) and "|>" not in text else None


def _said(error: Exception) -> str:
    details = getattr(error, "errors", None) or [{}]
    near = str(details[0].get("highlight") or "")
    context = str(details[0].get("start_context") or "")[-20:]
    after = str(details[0].get("end_context") or "")[:20]
    if not near:
        return "it is not SQL that can be read"
    return f"it is no SQL from {near!r} on, in: {' '.join((context + near + after).split())}"


def _given_names(tree: exp.Expr) -> Iterator[str]:
    """Return names that the query itself gives: aliases, variables of functions, columns of aliases."""
    from sqlglot import exp

    for alias in tree.find_all(exp.Alias, exp.TableAlias, exp.CTE, exp.Subquery, exp.Lateral, exp.Window):
        if alias.alias:
            yield alias.alias.lower()
    for table_alias in tree.find_all(exp.TableAlias):
        yield from (column.name.lower() for column in table_alias.columns)
    for several in tree.find_all(exp.Aliases):
        yield from (str(getattr(name, "name", name)).lower() for name in several.aliases)
    for function in tree.find_all(exp.Lambda):
        yield from (variable.name.lower() for variable in function.expressions)
    for pair in tree.find_all(exp.Kwarg, exp.PropertyEQ):
        yield pair.this.name.lower()


def _alias_groups(tree: exp.Expr) -> Iterator[set[str]]:
    """Return names that stand for something else than a table."""
    from sqlglot import exp

    yield {alias.alias.lower() for alias in tree.find_all(exp.Subquery, exp.Lateral, exp.CTE) if alias.alias}
    yield {v.name.lower() for function in tree.find_all(exp.Lambda) for v in function.expressions}


def _columns_of(tree: exp.Expr, tables: dict[str, Columns]) -> Columns:
    from sqlglot import exp

    known = dict(tables)
    with_ = tree.args.get("with_") or tree.args.get("with")
    for cte in with_.expressions if with_ is not None else ():
        known[cte.alias.lower()] = tuple(c.name for c in cte.args["alias"].columns) or _columns_of(cte.this, known)
    if isinstance(tree, exp.Subquery):
        return _columns_of(tree.this, known)
    if isinstance(tree, exp.SetOperation):
        return _columns_of(tree.this, known)
    if not isinstance(tree, exp.Select) or tree.find(exp.Pivot):
        return None
    found: list[str] = []
    for projection in tree.expressions:
        names = _names_of(projection, tree, known)
        if names is None:
            return None
        found += names
    return tuple(found)


def _names_of(projection: exp.Expr, select: exp.Select, tables: Mapping[str, Columns]) -> Columns:
    """Return the columns that one item after SELECT makes."""
    from sqlglot import exp

    star = projection.this if isinstance(projection, exp.Column) else projection
    if isinstance(star, exp.Star):
        if any(star.args.get(key) for key in ("except_", "except", "replace", "rename")):
            return None
        return _starred(select, tables, projection.table.lower() if isinstance(projection, exp.Column) else "")
    if isinstance(projection, exp.Alias | exp.Column) and projection.alias_or_name:
        return (projection.alias_or_name,)
    if isinstance(projection, exp.Dot):
        return (projection.name,)
    return None


def _starred(select: exp.Select, tables: Mapping[str, Columns], only: str) -> Columns:
    """Return all columns of what is read, or of one."""
    from sqlglot import exp

    from_ = select.args.get("from_") or select.args.get("from")
    joins = select.args.get("joins") or []
    if from_ is None or select.args.get("laterals"):
        return None
    found: list[str] = []
    for join in [None, *joins]:
        read = from_.this if join is None else join.this
        if only and read.alias_or_name.lower() != only:
            continue
        if isinstance(read, exp.Table) and isinstance(read.this, exp.Identifier) and not read.db:
            columns = tables.get(read.name.lower())
        else:
            columns = _columns_of(read.this, dict(tables)) if isinstance(read, exp.Subquery) else None
        if columns is None:
            return None
        once = join.args.get("using") or () if join is not None and not only else ()
        found += [name for name in columns if name.lower() not in {column.name.lower() for column in once}]
    return tuple(found) or None
