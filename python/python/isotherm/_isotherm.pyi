"""The native half of the package."""

import os
from pathlib import Path
from types import TracebackType
from typing import Any, Iterator, Literal, Optional, Sequence, Type, TypedDict, Union, final

__VERSION__: str

class Header(TypedDict):
    """Facts about a whole record. Those that are not known are empty or 0."""

    isotherm: str
    host: str
    kernel: str
    arch: str
    page_size: int
    boot_id: str
    started_unix_ns: int
    started_ns: int
    ops: str
    method: str
    sample_us: int
    aggr_us: int
    update_us: int
    command: list[str]

def read(path: Union[str, os.PathLike[str]] = "isotherm.data") -> Record:
    """Opens a record: one of Isotherm, or one of damo (``damon.data``, or the text that ``perf
    script`` prints).

    Nothing but its beginning is read until a table is. Records of damo are read whole.

    :raises isotherm.MissingError: there is no such file.
    :raises isotherm.BadRecordError: it is not a record.
    """

@final
class Table:
    """Rows of a record or of a snapshot, for any library that knows Arrow's PyCapsule interface.

    Every time it is taken, the record is read anew, in batches: a table may be larger than memory.
    Names are dictionaries, which pandas shows as categories.
    """

    @property
    def name(self) -> str:
        """Which table it is."""
    @property
    def columns(self) -> list[str]:
        """The names of the columns."""
    def __arrow_c_stream__(self, requested_schema: Optional[object] = None) -> object: ...
    def __arrow_c_schema__(self) -> object: ...

@final
class Record:
    """A record.

    All tables begin with ``host``; ``t_ns`` (when, by ``CLOCK_MONOTONIC``; of a window its end);
    ``time`` (the same by the wall clock, UTC; null if the record does not tell); ``pid`` and
    ``target`` (its name at that time). Sizes and addresses are bytes, ranges half-open.
    """

    @property
    def path(self) -> Path:
        """The file."""
    @property
    def header(self) -> Header:
        """Facts about the whole record."""
    @property
    def snapshots(self) -> Table:
        """A row per target and window.

        ``seq``, ``window_ns`` (how long it really took), ``missing_ns`` (how much of that nobody
        looked as often as asked for), ``sample_us``, ``aggr_us``, ``nr_regions``, ``mapped``,
        ``unresolved`` (nobody could look); ``wss``, ``wss_lo``, ``wss_hi``: working set by regions;
        and where the record has page maps, ``watched`` and for each span (``sample``, ``window``,
        ``1s``, ``10s``, ``1min``) ``touched_SPAN`` with ``_lo``, ``_hi`` and ``_measured``; the
        window's cost in ``checks``, ``clears``, ``cpu_ns``, and ``target_ns``
        (what the targets paid, if the method tells).
        """
    @property
    def regions(self) -> Table:
        """A row per region and window.

        ``window_ns``, ``start``, ``end``, ``mapping`` and ``kind`` (of what holds most of it),
        ``nr_accesses`` (samples with an access) of ``max_nr_accesses``, ``age`` (windows for which
        it has looked like this), ``lo`` and ``hi`` (90 % interval of the mean rate, in
        ``nr_accesses``), ``resolved`` (false: nobody could look, and the numbers mean nothing),
        ``touched_window`` and ``touched_1s`` (share of its pages; null where nobody knows: with
        methods that see no single pages, before the span was measured, where it is not
        ``resolved``, and in older records).
        """
    @property
    def pages(self) -> Table:
        """A row per unit of 2 MiB, whenever something changed in it; only records of the method
        census have them.

        ``start``, ``mapping``, ``since_ns``, ``leaf_sz``, ``nr_present``, ``nr_unresolved``,
        ``nr_touched_SPAN``, and the same as 64 bytes with a bit per page: ``present``,
        ``unresolved``, ``touched_SPAN``, ``found`` (touched since the last row of the unit, by any
        look), ``young`` (touched since ``since_ns``). A look at ``found_after_ns`` had found nothing
        of ``found`` yet.
        """
    @property
    def mappings(self) -> Table:
        """A row per mapping, whenever they were read: ``start``, ``end``, ``perms``, ``kind``,
        ``mapping``, ``device``, ``inode``, ``offset``."""
    @property
    def events(self) -> Table:
        """A row per ``event``: ``target`` (with ``ppid``), ``exec``, ``exit`` (with ``status``),
        ``note`` and ``end`` (with ``text``)."""
    def damage(self) -> str:
        """What could not be read, in words; empty if everything could. Reads the whole record."""
    def heatmap_json(
        self,
        columns: int = 240,
        rows: int = 120,
        targets: Sequence[str] = ...,
        time: Optional[str] = None,
        address: Optional[str] = None,
    ) -> str:
        """The heatmap, as ``isotherm report heatmap --json`` prints it."""

@final
class WorkingSet:
    """A working set in bytes."""

    @property
    def size(self) -> int:
        """The estimate."""
    @property
    def low(self) -> int:
        """Lower end of its 90 % interval."""
    @property
    def high(self) -> int:
        """Upper end of its 90 % interval."""
    @property
    def unresolved(self) -> int:
        """What nobody could look at, or what was not measured yet. It is in none of the above."""
    @property
    def mapped(self) -> int:
        """Size of everything that is watched."""

@final
class Target:
    """A target of a snapshot."""

    @property
    def pid(self) -> int:
        """Its process; 0 for physical memory."""
    @property
    def name(self) -> str:
        """Name of its command."""
    @property
    def working_set(self) -> WorkingSet:
        """Its working set by regions."""

@final
class Snapshot:
    """One window of a monitor. It is a copy and stays as it is."""

    @property
    def number(self) -> int:
        """Counts windows. A gap means that windows were lost."""
    @property
    def start(self) -> float:
        """When the window began, in s of ``CLOCK_MONOTONIC`` (``time.monotonic()``)."""
    @property
    def end(self) -> float:
        """When it ended."""
    @property
    def window(self) -> float:
        """How long it really took, in s."""
    @property
    def working_set(self) -> WorkingSet:
        """The working set by regions, all targets together."""
    @property
    def touched_within(self) -> dict[float, WorkingSet]:
        """The working set by pages, by span in seconds. Empty unless the method is census."""
    @property
    def targets(self) -> list[Target]:
        """Who was watched."""
    @property
    def regions(self) -> Table:
        """Its regions, with the columns of :attr:`Record.regions`."""

@final
class Monitor:
    """Watches processes, physical memory or a simulation, and yields a snapshot per window.

    It measures on a thread of its own from when it is made. A loop that takes longer than its
    windows finds at most 64 of them waiting; older ones are dropped, and counted in :attr:`lost`
    (a simulation waits instead).
    The loop ends when all targets have exited. Ctrl-C works. Use it in a ``with`` statement, or
    call :meth:`stop`.

    :param pid: a process, or several.
    :param command: starts this program and its arguments, and watches it.
    :param name: watches all processes of this name, also those to come; ``*`` and ``?`` as in a
        shell.
    :param cgroup: watches all processes of this cgroup and below, also those to come.
    :param physical_memory: ``"all"``, ``"node:1"``, or ranges of addresses.
    :param sim: watches a shipped simulated workload, for tests: needs no privileges and no time.
    :param duration: of a simulation, in s.
    :param children: whether children of the targets are targets, too.
    :param sample: seconds between two looks at a page (0.005).
    :param aggregation: length of a window in s (0.1).
    :param update: seconds between two looks at the mappings (1.0).
    :param budget: with the method census, the share of one CPU that it may use (0.01).
    :param ops: how to look; by default the best that passes its self-test here.
    :param method: how pages are sampled.
    :param record: also writes a record to this file.
    :raises isotherm.InvalidError: there is nothing to watch, or the numbers make no sense.
    :raises isotherm.AccessError: a privilege is missing.
    :raises isotherm.GoneError: there is no such process.
    :raises isotherm.NotSupportedError: this kernel cannot do it.
    """

    def __init__(
        self,
        pid: Union[int, Sequence[int], None] = None,
        *,
        command: Optional[Sequence[str]] = None,
        name: Optional[str] = None,
        cgroup: Optional[str] = None,
        physical_memory: Optional[str] = None,
        sim: Optional[str] = None,
        duration: Optional[float] = None,
        children: bool = True,
        sample: Optional[float] = None,
        aggregation: Optional[float] = None,
        update: Optional[float] = None,
        budget: Optional[float] = None,
        ops: Optional[Literal["pagewalk", "idle", "kdamond", "smaps"]] = None,
        method: Optional[Literal["census", "first-touch", "resample"]] = None,
        record: Union[str, os.PathLike[str], None] = None,
    ) -> None: ...
    @property
    def ops(self) -> str:
        """The operations set that looks."""
    @property
    def notes(self) -> list[str]:
        """Why this set was chosen, and what it cannot do."""
    @property
    def lost(self) -> int:
        """Snapshots that were dropped because nobody took them."""
    def stop(self) -> None:
        """Ends the run; targets are let go as they are. Snapshots that wait can still be taken."""
    def __iter__(self) -> Iterator[Snapshot]: ...
    def __next__(self) -> Snapshot: ...
    def __enter__(self) -> Monitor: ...
    def __exit__(
        self,
        kind: Optional[Type[BaseException]] = None,
        error: Optional[BaseException] = None,
        trace: Optional[TracebackType] = None,
    ) -> None: ...
