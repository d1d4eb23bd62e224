"""Which memory of a Linux process is hot, and which is cold.

Read a record (made by ``isotherm record``, or by damo), and hand its tables to any library that
knows Arrow. Nothing is copied, and no such library is needed to install this package::

    import isotherm, pyarrow as pa, polars as pl, pandas as pd, duckdb

    rec = isotherm.read("isotherm.data")
    pa.table(rec.regions)                        # a pyarrow.Table
    pl.DataFrame(rec.snapshots)                  # a polars.DataFrame
    pd.DataFrame.from_arrow(rec.mappings)        # a pandas.DataFrame (3.0)
    regions = rec.regions
    duckdb.sql("select mapping, max(nr_accesses) from regions group by 1")

Watch a process::

    with isotherm.Monitor(pid=4711) as monitor:
        for snapshot in monitor:
            print(snapshot.working_set)

Draw a heatmap (needs matplotlib)::

    isotherm.plot.heatmap(rec)

Times are in seconds unless a name says otherwise, sizes in bytes. Estimates come with the ends of
their 90 % interval. Memory that nobody could look at is told apart from memory that was not used.
The columns of the tables are described at :class:`Record`.
"""

from isotherm import plot
from isotherm._errors import (
    AccessError,
    BadRecordError,
    Error,
    FileError,
    GoneError,
    InvalidError,
    MissingError,
    NotSupportedError,
    NotWatchedError,
)
from isotherm._isotherm import (
    Monitor,
    Record,
    Snapshot,
    Table,
    Target,
    WorkingSet,
    __VERSION__ as __version__,
    read,
)

__all__ = [
    "AccessError",
    "BadRecordError",
    "Error",
    "FileError",
    "GoneError",
    "InvalidError",
    "MissingError",
    "Monitor",
    "NotSupportedError",
    "NotWatchedError",
    "Record",
    "Snapshot",
    "Table",
    "Target",
    "WorkingSet",
    "__version__",
    "plot",
    "read",
]
