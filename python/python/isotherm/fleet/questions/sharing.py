"""Sharing and duplicates by file.

A file (by name, or by the hash of it) that lies at several places of a host, as in the layers of
several images, is in memory once per place. All but the largest could be saved if the places were
one. A file at one place that several processes map is shared already: what they have mapped
together is more than what is resident. It is idle only where none of them touches it.

It needs the table ``files``, which agents write only where a site allows identities of files.
Without it, only what cgroups say of shared memory is known.
"""

from __future__ import annotations

from typing import Any

from isotherm.fleet.engine import imported_ibis
from isotherm.fleet.fleet import Answer, Fleet


def sharing(fleet: Fleet) -> list[Answer]:
    """Asks it."""
    ibis = imported_ibis()
    each = places(fleet)
    per_host = each.group_by("host", "file").agg(
        places=each.count(),
        largest=each.resident.max(),
        resident=each.resident.sum(),
        mapped=each.mapped.sum(),
        cgroups=each.cgroups.sum(),
        processes=each.processes.sum(),
        idle=each.idle.sum(),
        size=each.size.max(),
    )
    files = per_host.group_by("file").agg(
        hosts=per_host.count(),
        size_bytes=per_host["size"].max(),
        places=per_host.places.mean(),
        cgroups=per_host.cgroups.mean(),
        processes=per_host.processes.mean(),
        resident_bytes=per_host.resident.sum().cast("float64"),
        mapped_bytes=per_host.mapped.sum().cast("float64"),
        idle_5m_bytes=per_host.idle.sum().cast("float64"),
        duplicate_bytes=(per_host.resident - per_host.largest).sum().cast("float64"),
    )
    groups = fleet.cgroups()
    services = groups.group_by(service=groups.owner).agg(
        current_bytes=groups.current_bytes.sum(), shared_bytes=groups.shared_bytes.sum()
    )
    services = services.mutate(
        shared_share=services.shared_bytes / services.current_bytes.nullif(0)
    )
    return [
        Answer(
            "duplicates",
            "Files that are in memory more than once per host",
            files.order_by(ibis.desc("duplicate_bytes"), "file"),
            "At the newest time of each host. duplicate: what the places but the largest hold. "
            "places, cgroups and processes: mean per host. resident: what processes have mapped, "
            "each page once per place. Agents write this table only where it is allowed.",
        ),
        Answer(
            "shared",
            "Memory that other cgroups map as well, by service",
            services.order_by(ibis.desc("shared_bytes"), "service"),
        ),
    ]


def places(fleet: Fleet) -> Any:
    """A row per host, file and place, at the newest time of the host."""
    t = fleet.tables["files"]
    newest = t.group_by("host").agg(newest_ns=t.time_ns.max())
    t = t.join(newest, "host")
    t = t.filter(t.time_ns == t.newest_ns)
    t = t.mutate(place=t.dev_ino.fill_null("(unknown)"))
    return t.group_by("host", "file", "place").agg(
        resident=t.resident.max().fill_null(0),
        mapped=t.mapped.sum(),
        cgroups=t.cgroup.nunique(),
        processes=t.mappers.sum(),
        # Unknown stays unknown. A lower bound, as `resident`: cgroups may have other pages of it.
        idle=t.idle_5m.max(),
        size=t["size"].max(),
    )
