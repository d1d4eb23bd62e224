"""Pictures of records, with matplotlib (``pip install isotherm[plot]``)."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Any, Optional, Sequence

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from isotherm._isotherm import Record

__all__ = ["heatmap"]


def heatmap(
    rec: "Record",
    *,
    targets: Sequence[str] = (),
    time: Optional[str] = None,
    address: Optional[str] = None,
    columns: int = 240,
    rows: int = 120,
    cmap: str = "inferno",
    figure: Optional["Figure"] = None,
) -> "Figure":
    """Draws hot addresses over time, a panel per target.

    The rates are those of ``isotherm report heatmap``. White was not mapped or not recorded, and
    grey could not be looked at. Addresses that were never mapped take no room, so rows are equally
    high but their addresses are not equally far apart; the labels say where rows are.

    :param targets: pids or names; all targets if empty.
    :param time: ``"5s..1m"`` since the start; either end may be left out.
    :param address: ``"0x7f0000000000..0x7f0000800000"``.
    :param columns: cells from left to right.
    :param rows: cells from bottom to top, of each panel.
    :param cmap: a colour map of matplotlib for rates from 0 to 1.
    :param figure: draws into this one instead of a new one.
    :returns: the figure; ``savefig`` and notebooks take it.
    :raises isotherm.Error: if nothing is left of the record, or it cannot be read.
    """
    import matplotlib
    import matplotlib.pyplot as plt
    import numpy as np

    text = rec.heatmap_json(columns, rows, list(targets), time, address)
    heat: dict[str, Any] = json.loads(text)
    panels = heat["panels"]
    height = max(2.0, min(4.0, 12.0 / max(1, len(panels)))) * len(panels)
    if figure is None:
        figure = plt.figure(figsize=(9, height + 1), layout="constrained")
    axes = figure.subplots(len(panels), 1, squeeze=False, sharex=True)[:, 0]
    colours = matplotlib.colormaps[cmap].with_extremes(under="lightgrey", bad="white")
    start, end, origin = (heat[key] for key in ("start_ns", "end_ns", "origin_ns"))
    left, right = (start - origin) / 1e9, (end - origin) / 1e9
    image = None
    for ax, panel in zip(axes, panels):
        cells = [[math.nan if c is None else c for c in row["cells"]] for row in panel["rows"]]
        image = ax.imshow(
            np.ma.masked_invalid(np.array(cells, dtype=float)),
            aspect="auto",
            origin="lower",
            interpolation="nearest",
            extent=(left, right, 0, len(cells)),
            cmap=colours,
            vmin=0.0,
            vmax=1.0,
        )
        who = f"{panel['target']} (pid {panel['pid']})" if panel["pid"] else panel["target"]
        ax.set_title(who, loc="left", fontsize="small")
        _label_rows(ax, panel["rows"])
    axes[-1].set_xlabel("time in s")
    if image is not None:
        figure.colorbar(image, ax=list(axes), label="share of samples with an access")
    return figure


def _label_rows(ax: Any, rows: "list[dict[str, Any]]") -> None:
    """Labels the first row of each area, or as many of them as there is room for."""
    first = [nr for nr, row in enumerate(rows) if nr == 0 or rows[nr - 1]["area"] != row["area"]]
    step = max(1, math.ceil(len(first) / 12))
    shown = first[::step]
    ax.set_yticks(shown)
    ax.set_yticklabels(
        [f"{rows[nr]['start']:#x} {rows[nr]['mapping'].rsplit('/', 1)[-1]}" for nr in shown],
        fontsize="x-small",
    )
