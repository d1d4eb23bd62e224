"""``python -m isotherm.fleet``."""

import sys

from isotherm.fleet.cli import main

sys.exit(main(program="python -m isotherm.fleet"))
