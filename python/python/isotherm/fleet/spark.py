"""Spark, on this machine or, with ``SPARK_REMOTE`` or a site's defaults, on a cluster."""

from __future__ import annotations

import itertools
import os
import shutil
from typing import Any, Optional

from isotherm._errors import NotSupportedError
from isotherm.fleet.catalog import Catalog
from isotherm.fleet.engine import INTEGER, imported_ibis, paths, select_list, union
from isotherm.fleet.problems import first_line

OPTIONS = {
    "spark.sql.legacy.parquet.nanosAsLong": "true",
    "spark.sql.sources.partitionColumnTypeInference.enabled": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.parquet.filterPushdown": "true",
}
"""Nanoseconds are integers, and a host named 007 stays a text."""


COUNT = itertools.count(1)


class Spark:
    """A Spark session, through Ibis."""

    name = "spark"
    most_rows: Optional[int] = None
    """It sorts what does not fit into memory, on disks."""

    def __init__(self, threads: Optional[int]):
        ibis = imported_ibis()
        try:
            from pyspark.sql import SparkSession
        except ImportError as error:
            raise NotSupportedError(
                "engine spark is not installed\n"
                f"  tried: import pyspark: {error}\n"
                "  hint:  pip install 'isotherm[spark]', or use --engine duckdb"
            ) from error
        remote = os.environ.get("SPARK_REMOTE")
        java = os.environ.get("JAVA_HOME") or shutil.which("java")
        if not java and not remote:
            raise NotSupportedError(
                "engine spark cannot start\n"
                "  tried: java on PATH, and JAVA_HOME\n"
                "  why:   Spark runs in a Java virtual machine (17 or later)\n"
                "  hint:  install one (Debian: default-jre-headless), or use --engine duckdb"
            )
        self.own = SparkSession.getActiveSession() is None
        builder = SparkSession.builder.appName("isotherm-fleet")
        if not remote and "MASTER" not in os.environ:
            cores = threads or os.cpu_count() or 1
            builder = builder.master(f"local[{cores}]")
            builder = builder.config("spark.sql.shuffle.partitions", str(2 * cores))
            builder = builder.config("spark.driver.memory", os.environ.get("SPARK_MEMORY", "3g"))
        for option, value in OPTIONS.items():
            builder = builder.config(option, value)
        try:
            self.session = builder.getOrCreate()
        except Exception as error:
            hint = "see the lines of Java above"
            if remote:
                hint = f"is a Spark Connect server at {remote}? pip install 'pyspark[connect]'"
            raise NotSupportedError(
                "engine spark cannot start\n"
                f"  tried: a Spark session: {first_line(error)}\n"
                f"  hint:  {hint}, or use --engine duckdb"
            ) from error
        if not remote:
            self.session.sparkContext.setLogLevel("OFF")
        self.con = ibis.pyspark.connect(self.session)
        self.texts: dict[str, str] = {}
        # Fleets may share a session, and views are the session's.
        nth = next(COUNT)
        self.suffix = f"_{nth}" if nth > 1 else ""

    def view(self, catalog: Catalog, table: str) -> Any:
        selects, shorts = [], []
        base = str(catalog.base / table)
        for nth, ((signature, twice), parts) in enumerate(catalog.groups(table).items()):
            reader = self.session.read.option("basePath", base)
            source = f"{table}{self.suffix}_files_{nth}"
            reader.parquet(*[part.path for part in parts]).createOrReplaceTempView(source)
            columns = select_list(table, signature, INTEGER)
            columns = columns.replace("NANOSECONDS", "")
            selects.append((f"SELECT {columns} FROM {source}", twice))
            shorts.append(f"-- {source}: Parquet {paths(parts, True)}\n")
        if not selects:
            none = select_list(table, (), "{}").replace("host,", "CAST(NULL AS STRING) AS host,", 1)
            selects.append((f"SELECT {none} WHERE false", False))
        name = table + self.suffix
        text = f"CREATE OR REPLACE TEMPORARY VIEW {name} AS {union(table, selects)}"
        self.session.sql(text)
        self.texts[table] = "".join(shorts) + text
        return self.con.table(name)

    def run(self, expression: Any) -> Any:
        return self.con.to_pyarrow(expression)

    def keep(self, name: str, *expressions: Any) -> Any:
        name += self.suffix
        all_rows = " UNION ALL ".join(self.sql(expression) for expression in expressions)
        frame = self.session.sql(all_rows).cache()
        frame.createOrReplaceTempView(name)
        frame.count()
        return self.con.table(name)

    def sql(self, expression: Any) -> str:
        return str(imported_ibis().to_sql(expression, dialect="pyspark"))

    def views(self) -> list[str]:
        return list(self.texts.values())

    def is_from_data(self, error: BaseException) -> bool:
        return type(error).__module__.split(".")[0] in ("pyspark", "py4j")

    def is_too_large(self, error: BaseException) -> bool:
        return "java.lang.OutOfMemoryError" in str(error)

    def close(self) -> None:
        if self.own:
            self.session.stop()
