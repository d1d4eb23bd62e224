//! Filters: which part of the matching memory a scheme takes or leaves alone.

use std::ops::Not;

use isotherm_core::AddrRange;
use isotherm_core::scheme::{self, FilterKind};

use crate::Bytes;

/// A kind of memory, for [`Scheme::reject`](super::Scheme::reject) and
/// [`Scheme::allow`](super::Scheme::allow). `!filter` is all other memory.
///
/// ```
/// use isotherm::Scheme;
/// use isotherm::scheme::Filter;
///
/// // Only file memory, and no libraries.
/// let scheme = Scheme::pageout().reject(!Filter::file()).reject(Filter::mapping("*.so*"));
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Filter {
    kind: FilterKind,
    matching: bool,
    /// Path or pattern that the kind names by number.
    text: String,
}

impl Filter {
    const fn new(kind: FilterKind) -> Self {
        Self { kind, matching: true, text: String::new() }
    }

    /// These addresses. Regions are cut at the ends.
    #[must_use]
    pub const fn addresses(range: AddrRange) -> Self {
        Self::new(FilterKind::Addr(range))
    }

    /// Anonymous memory.
    #[must_use]
    pub const fn anonymous() -> Self {
        Self::new(FilterKind::Anon)
    }

    /// Memory of a file.
    #[must_use]
    pub const fn file() -> Self {
        Self::new(FilterKind::File)
    }

    /// Shared mappings.
    #[must_use]
    pub const fn shared() -> Self {
        Self::new(FilterKind::Shared)
    }

    /// Pages on an active LRU list. Needs `CAP_SYS_ADMIN`.
    #[must_use]
    pub const fn active() -> Self {
        Self::new(FilterKind::Active)
    }

    /// Pages that were touched since they were last made old.
    #[must_use]
    pub const fn young() -> Self {
        Self::new(FilterKind::Young)
    }

    /// Pages in folios of `least` to `most` bytes, both inside.
    #[must_use]
    pub const fn folio_size(least: Bytes, most: Bytes) -> Self {
        Self::new(FilterKind::HugepageSize(least.0, most.0))
    }

    /// Memory charged to a cgroup (v2): a path from the root of the hierarchy.
    #[must_use]
    pub fn cgroup(path: impl Into<String>) -> Self {
        Self { text: path.into(), ..Self::new(FilterKind::Memcg(0)) }
    }

    /// Mappings whose path or name (last column of `/proc/PID/maps`) matches: `*` and `?` as in a
    /// shell.
    #[must_use]
    pub fn mapping(pattern: impl Into<String>) -> Self {
        Self { text: pattern.into(), ..Self::new(FilterKind::Mapping(0)) }
    }

    /// As the core has it; paths and patterns are put into their lists.
    pub(super) fn to_core(
        &self,
        allow: bool,
        cgroups: &mut Vec<String>,
        mappings: &mut Vec<String>,
    ) -> scheme::Filter {
        let kind = match self.kind {
            FilterKind::Memcg(_) => FilterKind::Memcg(number_of(cgroups, &self.text)),
            FilterKind::Mapping(_) => FilterKind::Mapping(number_of(mappings, &self.text)),
            kind => kind,
        };
        scheme::Filter { kind, matching: self.matching, allow }
    }
}

impl Not for Filter {
    type Output = Self;

    fn not(self) -> Self {
        Self { matching: !self.matching, ..self }
    }
}

/// The number of `text` in a list, at whose end it is put if it is not there.
pub(super) fn number_of(list: &mut Vec<String>, text: &str) -> u32 {
    let at = list.iter().position(|known| known == text).unwrap_or_else(|| {
        list.push(text.to_owned());
        list.len() - 1
    });
    u32::try_from(at).unwrap_or(u32::MAX)
}
