//! What a scheme does to memory, and in which order it takes regions (R§3.6).

/// What to do with the memory that a scheme matches (`enum damos_action`, Linux 7.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Action {
    /// Bring the memory in, because it will be needed.
    Willneed,
    /// Make it the first to be reclaimed.
    Cold,
    /// Write it out now.
    Pageout,
    /// Let the kernel back it by huge pages.
    Hugepage,
    /// Let the kernel back it by small pages only.
    Nohugepage,
    /// Put it into huge pages now.
    Collapse,
    /// Move it to the head of its LRU list.
    LruPrio,
    /// Move it to the tail of its LRU list.
    LruDeprio,
    /// Move it to another node, hottest first.
    MigrateHot,
    /// Move it to another node, coldest first.
    MigrateCold,
    /// Only count it.
    #[default]
    Stat,
}

/// Which memory an action takes first when its quota is too small for all.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// No region comes before another.
    Any,
    /// The hottest.
    HotFirst,
    /// The coldest.
    ColdFirst,
}

impl Action {
    /// All of them, in the kernel's order.
    pub const ALL: [Self; 11] = [
        Self::Willneed,
        Self::Cold,
        Self::Pageout,
        Self::Hugepage,
        Self::Nohugepage,
        Self::Collapse,
        Self::LruPrio,
        Self::LruDeprio,
        Self::MigrateHot,
        Self::MigrateCold,
        Self::Stat,
    ];

    /// The kernel's keyword.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Willneed => "willneed",
            Self::Cold => "cold",
            Self::Pageout => "pageout",
            Self::Hugepage => "hugepage",
            Self::Nohugepage => "nohugepage",
            Self::Collapse => "collapse",
            Self::LruPrio => "lru_prio",
            Self::LruDeprio => "lru_deprio",
            Self::MigrateHot => "migrate_hot",
            Self::MigrateCold => "migrate_cold",
            Self::Stat => "stat",
        }
    }

    /// The action of this keyword.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|action| action.name() == name)
    }

    /// Which memory the action takes first.
    #[must_use]
    pub const fn order(self) -> Order {
        match self {
            Self::Pageout | Self::LruDeprio | Self::MigrateCold => Order::ColdFirst,
            Self::LruPrio | Self::MigrateHot => Order::HotFirst,
            _ => Order::Any,
        }
    }
}
