"""The two engines: DuckDB within this process, and Spark on a cluster or on this machine.

An engine does four things: it shows the parts of a catalogue as a view with the columns of
``schema.py``, it runs an Ibis expression, it keeps the result of one for the next, and it prints
the SQL. All that is different between the engines is in this file. Questions are written once.
"""

from __future__ import annotations

import os
import re
import tempfile
from typing import Any, Optional, Protocol

from isotherm._errors import InvalidError, NotSupportedError
from isotherm.fleet.catalog import Catalog, Part, Signature
from isotherm.fleet.schema import TABLES, Column


class Engine(Protocol):
    """What the questions need."""

    name: str
    most_rows: Optional[int]
    """The most rows of which every value may have to be in memory at once; none: any."""

    def view(self, catalog: Catalog, table: str) -> Any:
        """Shows the parts of a table, each row once. Returns the Ibis table."""

    def run(self, expression: Any) -> Any:
        """Returns the rows of an expression as a ``pyarrow.Table``."""

    def keep(self, name: str, *expressions: Any) -> Any:
        """Computes expressions now, one after the other, and returns a table of all their rows."""

    def sql(self, expression: Any) -> str:
        """Returns the SQL of an expression."""

    def views(self) -> list[str]:
        """Returns the SQL of the views, with the lists of files cut short."""

    def is_from_data(self, error: BaseException) -> bool:
        """Returns whether a query may have failed because of what is in a file."""

    def is_too_large(self, error: BaseException) -> bool:
        """Returns whether a query has failed for want of memory."""

    def close(self) -> None:
        """Ends it."""


MOST_ROWS = 20_000_000
"""DuckDB's exact percentiles hold every value until all rows are read, and spill nothing. Those of
144 million rows did not fit into 3 GB."""

KEYS = {
    "cgroups": ("host", "session", "cgroup", "time_ns"),
    "sessions": ("host", "session", "time_ns"),
    "files": ("host", "session", "cgroup", "file", "dev_ino", "time_ns"),
}
"""What tells two rows apart."""

PATHS = re.compile(r"(?:file:)?(/[^\s'\"`]*\.parquet)")


MEMORY = "3GB"
"""What DuckDB may use unless it is told."""


def open_engine(name: str, memory: str = MEMORY, threads: Optional[int] = None) -> Engine:
    """Starts an engine, ``duckdb`` or ``spark``.

    :raises isotherm.Error: if it is not installed, or cannot be started.
    """
    if name == "duckdb":
        return DuckDb(memory, threads)
    if name == "spark":
        from isotherm.fleet.spark import Spark

        return Spark(threads)
    raise InvalidError(f"there is no engine {name}\n  hint:  duckdb or spark")


def imported_ibis() -> Any:
    """Ibis, or an error that says how to get it."""
    try:
        import ibis
    except ImportError as error:
        raise NotSupportedError(
            "fleet questions need Ibis\n"
            f"  tried: import ibis: {error}\n"
            "  hint:  pip install 'isotherm[fleet]', or pip install 'ibis-framework[duckdb]'"
        ) from error
    return ibis


INTEGER = "CASE WHEN {0} > 9223372036854775807 THEN -1 ELSE CAST({0} AS BIGINT) END"
"""How a value becomes a signed integer: no amount of memory is so large."""


def select_list(table: str, signature: Signature, cast: str) -> str:
    """The columns of ``schema.py`` out of files that have those of the signature.

    :param cast: how a value becomes an integer, with ``{}`` for it.
    """
    has = dict(signature)
    shown = ["host"]
    for column in TABLES[table]:
        shown.append(_shown(column, column.name in has, cast))
    return ", ".join(shown)


def _shown(column: Column, there: bool, cast: str) -> str:
    types = {"time": "BIGINT", "int": "BIGINT", "ratio": "DOUBLE", "bool": "BOOLEAN"}
    quoted = f"`{column.name}`"
    if not there:
        return f"CAST(NULL AS {types.get(column.kind, 'STRING')}) AS `{column.seen}`"
    if column.kind == "time":
        return f"NANOSECONDS({quoted}) AS `{column.seen}`"
    if column.kind == "int":
        return f"{cast.format(quoted)} AS {quoted}"
    if column.kind == "ratio":
        return f"CAST({quoted} AS DOUBLE) AS {quoted}"
    return f"CAST({quoted} AS STRING) AS {quoted}" if column.kind == "text" else quoted


def once(table: str, select: str) -> str:
    """Each row once. Of rows with the same key, the one with the largest numbers stays."""
    keys = ", ".join(KEYS[table])
    numbers = [c.seen for c in TABLES[table] if c.kind in ("int", "ratio")]
    order = ", ".join(f"`{name}` DESC NULLS LAST" for name in numbers)
    names = ", ".join(["host", *(f"`{column.seen}`" for column in TABLES[table])])
    return (
        f"SELECT {names} FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY {keys} ORDER BY {order})"
        f" AS nth FROM ({select}) AS every) AS numbered WHERE nth = 1"
    )


def union(table: str, selects: list[tuple[str, bool]]) -> str:
    """All rows of the selects, those that may be there twice once."""
    plain = [select for select, twice in selects if not twice]
    twice = [select for select, twice in selects if twice]
    if twice:
        plain.append(once(table, " UNION ALL ".join(twice)))
    return " UNION ALL ".join(plain)


class DuckDb:
    """DuckDB within this process, with little memory: what does not fit goes to a file."""

    name = "duckdb"
    most_rows: Optional[int] = MOST_ROWS

    def __init__(self, memory: str, threads: Optional[int]):
        ibis = imported_ibis()
        try:
            self.con = ibis.duckdb.connect()
        except ImportError as error:
            raise NotSupportedError(
                "engine duckdb is not installed\n"
                f"  tried: {error}\n"
                "  hint:  pip install 'ibis-framework[duckdb]'"
            ) from error
        self.spill = tempfile.TemporaryDirectory(prefix="isotherm-fleet-")
        self._set("memory_limit", memory)
        self._set("temp_directory", self.spill.name)
        self._set("threads", str(threads or os.cpu_count() or 1))
        self._set("preserve_insertion_order", "false")
        self.texts: dict[str, str] = {}

    def _set(self, option: str, value: str) -> None:
        self.con.raw_sql(f"SET {option} = '{value}'")

    def view(self, catalog: Catalog, table: str) -> Any:
        def text(short: bool) -> str:
            selects = []
            for (signature, twice), parts in catalog.groups(table).items():
                columns = select_list(table, signature, INTEGER)
                columns = columns.replace("NANOSECONDS", "EPOCH_NS").replace("`", '"')
                files = paths(parts, short)
                options = "hive_partitioning = true, hive_types_autocast = false"
                source = f"READ_PARQUET([{files}], {options})"
                selects.append((f"SELECT {columns} FROM {source}", twice))
            if not selects:
                columns = select_list(table, (), "{}").replace("`", '"')
                none = columns.replace("host,", "CAST(NULL AS STRING) AS host,", 1)
                selects.append((f"SELECT {none} WHERE false", False))
            return f"CREATE OR REPLACE VIEW {table} AS " + union(table, selects).replace("`", '"')

        self.con.raw_sql(text(False))
        self.texts[table] = text(True)
        return self.con.table(table)

    def run(self, expression: Any) -> Any:
        return self.con.to_pyarrow(expression)

    def keep(self, name: str, *expressions: Any) -> Any:
        how = f"CREATE OR REPLACE TEMP TABLE {name} AS"
        for expression in expressions:
            self.con.raw_sql(f"{how} {self.sql(expression)}")
            how = f"INSERT INTO {name}"
        return self.con.table(name)

    def sql(self, expression: Any) -> str:
        return str(imported_ibis().to_sql(expression, dialect="duckdb"))

    def views(self) -> list[str]:
        return list(self.texts.values())

    def is_from_data(self, error: BaseException) -> bool:
        is_ours = type(error).__module__.split(".")[0] in ("duckdb", "_duckdb")
        return is_ours and not self.is_too_large(error)

    def is_too_large(self, error: BaseException) -> bool:
        return type(error).__name__ == "OutOfMemoryException"

    def close(self) -> None:
        self.con.disconnect()
        self.spill.cleanup()


def broken_file(error: BaseException) -> Optional[str]:
    """The first file of Parquet that an error's text names."""
    found = PATHS.search(str(error))
    return "/" + found.group(1).lstrip("/") if found else None


def paths(parts: list[Part], short: bool) -> str:
    """The paths of parts as literals of SQL. ``short`` shows the first and says how many more."""
    names = [part.path.replace("'", "''") for part in parts]
    if short and len(names) > 2:
        return f"'{names[0]}' /* and {len(names) - 1} more */"
    return ", ".join(f"'{name}'" for name in names)
