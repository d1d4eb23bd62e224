"""Pictures and the notebook."""

from __future__ import annotations

import json
import os
from pathlib import Path

import matplotlib
import nbformat
import numpy as np
import pytest
from nbclient import NotebookClient

import isotherm

matplotlib.use("Agg")


def test_a_heatmap_shows_what_the_report_says(folder: Path, tmp_path: Path) -> None:
    rec = isotherm.read(folder / "isotherm.data")
    figure = isotherm.plot.heatmap(rec, columns=64, rows=40)
    (image,) = figure.axes[0].images
    shown = np.ma.filled(image.get_array(), np.nan)
    panel = json.loads(rec.heatmap_json(64, 40))["panels"][0]
    want = np.array([[np.nan if c is None else c for c in row["cells"]] for row in panel["rows"]])
    assert shown.shape[1] == 64 and np.array_equal(shown, want, equal_nan=True)
    assert np.nanmax(shown) > 0.9 and np.nanmin(shown[shown >= 0]) < 0.1
    figure.savefig(tmp_path / "heatmap.png")
    assert (tmp_path / "heatmap.png").stat().st_size > 10_000
    assert "stairs" in figure.axes[0].get_title(loc="left")


def test_a_filter_that_leaves_nothing_is_told(folder: Path) -> None:
    rec = isotherm.read(folder / "isotherm.data")
    with pytest.raises(isotherm.Error):
        isotherm.plot.heatmap(rec, targets=["nobody"])
    with pytest.raises(isotherm.Error, match="time"):
        isotherm.plot.heatmap(rec, time="soon")


def test_the_notebook_runs(folder: Path) -> None:
    path = Path(__file__).parent.parent / "notebooks" / "tour.ipynb"
    notebook = nbformat.read(path, as_version=4)
    client = NotebookClient(
        notebook, timeout=120, kernel_name="python3", resources={"metadata": {"path": str(folder)}}
    )
    client.execute(env={**os.environ, "MPLBACKEND": "module://matplotlib_inline.backend_inline"})
    outputs = [out for cell in notebook.cells if cell.cell_type == "code" for out in cell.outputs]
    kinds = {kind for out in outputs for kind in out.get("data", {})}
    assert "image/png" in kinds and "text/html" in kinds
