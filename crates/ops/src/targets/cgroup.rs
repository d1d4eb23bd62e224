//! Which processes a cgroup pattern or a systemd unit means, by what `/proc/PID/cgroup` says.
//!
//! The file has a line per hierarchy, `NUMBER:CONTROLLERS:PATH`; v2's line is `0::PATH`. A process
//! is in a cgroup if it is in it, or below it, in any of the hierarchies. So nobody has to know
//! whether a machine has v1, v2 or both. A systemd unit is a cgroup of that name anywhere on the
//! way, since units lie in slices, and user units in the cgroup of their user's manager.

use isotherm_host::glob::{glob, is_glob};

/// Whether a process with this `/proc/PID/cgroup` is in a cgroup that matches, or below one. `*`
/// stands for any text, also with `/` in it, and `?` for one byte.
#[must_use]
pub fn in_cgroup_by(text: &[u8], pattern: &str) -> bool {
    paths(text).any(|path| path_matches(path, pattern))
}

/// Whether a process with this `/proc/PID/cgroup` belongs to a systemd unit of this name.
#[must_use]
pub fn in_unit_by(text: &[u8], unit: &str) -> bool {
    paths(text).any(|path| path_is_of_unit(path, unit))
}

/// Whether this cgroup, or one above it, matches.
#[must_use]
pub fn path_matches(path: &[u8], pattern: &str) -> bool {
    let pattern = pattern.trim_matches('/').as_bytes();
    let path = trim(path);
    let inner = path.iter().enumerate().filter(|(_, byte)| **byte == b'/').map(|(at, _)| at);
    // Every cgroup is below the root.
    pattern.is_empty()
        || inner
            .chain([path.len()])
            .any(|end| path.get(..end).is_some_and(|part| glob(pattern, part)))
}

/// Whether this cgroup, or one above it, is that of a systemd unit of this name. As for
/// `systemctl`, a name without a type is a service, and `*` and `?` are as in a shell.
#[must_use]
pub fn path_is_of_unit(path: &[u8], unit: &str) -> bool {
    let service = format!("{unit}.service");
    let is_typed = unit.rsplit_once('.').is_some_and(|(_, kind)| KINDS.contains(&kind));
    let pattern = if is_typed || is_glob(unit) { unit } else { &service };
    let matches = |part: &[u8]| glob(pattern.as_bytes(), part);
    path.split(|byte| *byte == b'/').filter(|part| !part.is_empty()).any(matches)
}

/// The systemd unit that a cgroup belongs to: the innermost part of its path that names one.
#[must_use]
pub fn unit_of(path: &str) -> Option<&str> {
    let is_unit =
        |part: &&str| part.rsplit_once('.').is_some_and(|(_, kind)| KINDS.contains(&kind));
    path.rsplit('/').find(is_unit)
}

/// The types of systemd units that have cgroups.
const KINDS: [&str; 6] = ["service", "scope", "slice", "socket", "mount", "swap"];

/// The one cgroup of a process to show, by its `/proc/PID/cgroup`: that of v2 if it is in one, else
/// of the memory controller, else systemd's name of it; `/` if it is in none.
#[must_use]
pub fn cgroup_to_show(text: &str) -> &str {
    let path = |is_it: fn(&str, &str) -> bool| {
        text.lines().find_map(|line| {
            let mut parts = line.splitn(3, ':');
            let (nr, names, path) = (parts.next()?, parts.next()?, parts.next()?);
            (is_it(nr, names) && path != "/").then_some(path)
        })
    };
    let v2 = || path(|nr, names| nr == "0" && names.is_empty());
    let memory = || path(|_, names| names.split(',').any(|name| name == "memory"));
    let systemd = || path(|_, names| names == "name=systemd");
    v2().or_else(memory).or_else(systemd).unwrap_or("/")
}

/// The paths of a `/proc/PID/cgroup`.
pub(super) fn paths(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    let lines = text.split(|byte| *byte == b'\n');
    lines.filter_map(|line| line.splitn(3, |byte| *byte == b':').nth(2))
}

fn trim(path: &[u8]) -> &[u8] {
    let path = path.strip_prefix(b"/").unwrap_or(path);
    path.strip_suffix(b"/").unwrap_or(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    const V2: &[u8] = b"0::/system.slice/postgresql@15-main.service/inner\n";
    const HYBRID: &[u8] =
        b"9:name=systemd:/user.slice/user-1000.slice/user@1000.service/app.slice/x.service\n\
                            4:memory:/docker/0123\n0::/\n";

    #[test]
    fn cgroups_match_in_any_hierarchy_and_with_what_is_below() {
        for (text, pattern, matches) in [
            (V2, "/system.slice", true),
            (V2, "system.slice/", true),
            (V2, "/system", false),
            (V2, "/system.slice/postgresql*", true),
            (V2, "*/inner", true),
            (V2, "/", true),
            (V2, "/system.slice/postgresql@1?-main.service", true),
            (V2, "/inner", false),
            (HYBRID, "/docker/*", true),
            (HYBRID, "/docker", true),
            (HYBRID, "*.service", true),
            (HYBRID, "/podman", false),
            (b"", "/a", false),
            (b"nonsense\n::\n", "a", false),
        ] {
            assert_eq!(in_cgroup_by(text, pattern), matches, "{pattern}");
        }
    }

    #[test]
    fn units_are_found_by_their_names() {
        for (text, unit, matches) in [
            (V2, "postgresql@15-main", true),
            (V2, "postgresql@15-main.service", true),
            (V2, "postgresql", false),
            (V2, "postgresql@*", true),
            (V2, "system.slice", true),
            (V2, "system", false),
            (V2, "inner", false),
            (HYBRID, "x", true),
            (HYBRID, "user@1000", true),
            (HYBRID, "docker", false),
        ] {
            assert_eq!(in_unit_by(text, unit), matches, "{unit}");
        }
    }
}
