"""Makes a fleet whose answers are known: Parquet as the agents write it, and the truth beside it.

Every host gets some cgroups, each an instance of one of a few services. A service has a size,
shares that are idle, and memory that comes back; a day has a rhythm. Some hosts page out from noon
on. Their memory without that is known, so the effect of the rollout is known, too. Some hosts are
faulty in each of the ways that the reader has to notice.

The truth is added up in numpy from the same numbers that go into the files, by other code than that
of the questions. ``answers.json`` has it. The same seed makes the same fleet.
"""

from isotherm.fleet.simulate.write import simulate

__all__ = ["simulate"]
