"""Records, in every library that the README names."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import isotherm

TABLES = ["snapshots", "regions", "pages", "mappings", "events"]


@pytest.mark.parametrize("name", TABLES)
def test_a_table_is_what_the_program_exports(folder: Path, name: str) -> None:
    rec = isotherm.read(folder / "isotherm.data")
    table = getattr(rec, name)
    got = pa.table(table)
    want = pq.read_table(folder / f"{name}.parquet")
    assert got.num_rows > 0
    assert got.column_names == want.column_names == table.columns
    # Parquet has plain names and bytes of any length; the values have to be the same.
    plain = got.cast(want.schema)
    assert plain.equals(want)
    # The same table can be taken again.
    assert pa.table(table).num_rows == got.num_rows


def test_every_library_takes_a_table_as_it_is(folder: Path) -> None:
    rec = isotherm.read(folder / "isotherm.data")
    want = pa.table(rec.regions)
    hottest = max(want["nr_accesses"].to_pylist())
    polars = pl.DataFrame(rec.regions)
    assert polars.shape == want.shape
    assert polars["nr_accesses"].max() == hottest
    pandas = pd.DataFrame.from_arrow(rec.regions)
    assert pandas.shape == want.shape
    assert pandas["nr_accesses"].max() == hottest
    assert str(pandas["time"].dtype) == "datetime64[ns, UTC]"
    regions = rec.regions
    assert regions is not None
    rows = duckdb.sql("select count(*), max(nr_accesses) from regions").fetchall()
    assert rows == [(want.num_rows, hottest)]
    names = duckdb.sql("select distinct kind from regions order by 1").fetchall()
    assert ("heap",) in names or ("anonymous",) in names


def test_nothing_is_copied(folder: Path) -> None:
    """The buffers that Arrow sees are ours: pyarrow has allocated nothing for them."""
    rec = isotherm.read(folder / "isotherm.data")
    before = pa.total_allocated_bytes()
    table = pa.table(rec.regions)
    assert table.nbytes > 10_000
    assert pa.total_allocated_bytes() == before


def test_streams_do_not_leak(folder: Path) -> None:
    rec = isotherm.read(folder / "isotherm.data")

    def resident() -> int:
        return int(Path("/proc/self/statm").read_text().split()[1])

    for _ in range(20):
        pa.table(rec.regions)
        rec.regions.__arrow_c_stream__()
    before = resident()
    size = pa.table(rec.regions).nbytes
    for _ in range(100):
        pa.table(rec.regions)
        rec.regions.__arrow_c_stream__()
    grown = (resident() - before) * 4096
    assert grown < 20 * size, f"{grown} bytes more after 200 streams of {size}"


def test_facts(folder: Path) -> None:
    rec = isotherm.read(folder / "isotherm.data")
    assert rec.header["sample_us"] == 5000
    assert rec.header["aggr_us"] == 100_000
    assert rec.header["ops"] == "sim"
    assert rec.damage() == ""
    assert "isotherm.data" in repr(rec)
    windows = pa.table(rec.snapshots)["window_ns"].to_pylist()
    assert min(windows) > 0


def test_a_record_of_damo_is_read(folder: Path) -> None:
    ours = pa.table(isotherm.read(folder / "isotherm.data").regions)
    rec = isotherm.read(folder / "damon.data")
    assert rec.header["ops"] == "kdamond"
    damos = pa.table(rec.regions)
    known = ours.filter(ours["resolved"])
    for column in ["t_ns", "start", "end", "nr_accesses", "age"]:
        assert damos[column].to_pylist() == known[column].to_pylist(), column
    assert "note" in pa.table(rec.events)["event"].to_pylist()


def test_damage_is_told(folder: Path, tmp_path: Path) -> None:
    whole = (folder / "isotherm.data").read_bytes()
    cut = tmp_path / "cut"
    cut.write_bytes(whole[: len(whole) * 2 // 3])
    rec = isotherm.read(cut)
    assert 0 < pa.table(rec.snapshots).num_rows
    assert "torn tail" in rec.damage()


def test_errors_are_exceptions_with_our_texts(tmp_path: Path) -> None:
    with pytest.raises(isotherm.MissingError) as missing:
        isotherm.read(tmp_path / "none")
    assert isinstance(missing.value, FileNotFoundError)
    assert isinstance(missing.value, isotherm.Error)
    assert missing.value.errno == 2
    assert "isotherm record" in missing.value.hint
    (tmp_path / "text").write_text("hello")
    with pytest.raises(isotherm.BadRecordError) as bad:
        isotherm.read(tmp_path / "text")
    assert isinstance(bad.value, ValueError)
    assert bad.value.what == "not a record of isotherm"
    assert "magic number" in bad.value.why
    assert str(bad.value).splitlines()[0] == bad.value.what


def test_a_record_that_is_gone_when_it_is_read(folder: Path, tmp_path: Path) -> None:
    path = tmp_path / "r"
    path.write_bytes((folder / "isotherm.data").read_bytes())
    rec = isotherm.read(path)
    path.unlink()
    with pytest.raises(isotherm.MissingError):
        pa.table(rec.regions)
