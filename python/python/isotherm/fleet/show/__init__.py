"""Shows answers: as text in a terminal, as one page for a browser, as Parquet."""

from isotherm.fleet.show.html import to_html
from isotherm.fleet.show.text import to_text

__all__ = ["to_html", "to_text"]
