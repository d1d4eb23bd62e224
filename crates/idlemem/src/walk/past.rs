//! The state of one page after a look, in one byte.

/// What a look has seen of a page, over all leaves that lead to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Seen {
    /// It is not mapped.
    Nothing,
    /// No leaf was touched since it was made old.
    Old,
    /// Touched, and made old.
    Armed,
    /// Touched, and made old because its unit was drawn from several.
    Drawn,
    /// Touched, and still young because its unit was not drawn.
    Left,
    /// Touched, and cannot be made old.
    Stuck,
    /// Another program makes it old.
    Watched,
}

/// What is known of a page since the last look.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Past(u8);

/// The age in intervals of this and what follows is the difference to one less.
const IDLE: u8 = 7;

impl Past {
    /// It was not mapped.
    pub(super) const GONE: Self = Self(0);
    /// It was young and was left so: when it was touched last will not be known.
    pub(super) const LEFT: Self = Self(1);
    /// The same, because it could not be made old.
    pub(super) const STUCK: Self = Self(2);
    /// The same, because another program makes it old.
    pub(super) const WATCHED: Self = Self(3);
    /// It is old since the last look.
    pub(super) const ARMED: Self = Self(4);
    /// The same, because its unit was drawn.
    pub(super) const DRAWN: Self = Self(5);
    /// It was drawn the round before last, and is idle for one interval. Until the next look it
    /// stands for pages that were not drawn.
    const FIRST: Self = Self(6);

    /// What follows from the next look.
    pub(super) const fn then(self, seen: Seen) -> Self {
        match seen {
            Seen::Nothing => Self::GONE,
            Seen::Left => Self::LEFT,
            Seen::Stuck => Self::STUCK,
            Seen::Watched => Self::WATCHED,
            Seen::Armed => Self::ARMED,
            Seen::Drawn => Self::DRAWN,
            Seen::Old => match self {
                // Who has made it old, and when, is not known: its time begins now.
                Self::GONE | Self::LEFT | Self::STUCK | Self::WATCHED => Self::ARMED,
                Self::DRAWN => Self::FIRST,
                Self::ARMED => Self(IDLE),
                Self::FIRST => Self(IDLE + 1),
                Self(idle) => Self(idle.saturating_add(1)),
            },
        }
    }

    /// For how many whole intervals the page was idle. It stops at 249.
    pub(super) const fn age(self) -> u8 {
        match self {
            Self::FIRST => 1,
            Self(idle) if idle >= IDLE => idle - IDLE + 1,
            _ => 0,
        }
    }

    /// Whether it is idle since the last look and was not before.
    pub(super) const fn is_first(self) -> bool {
        self.age() == 1
    }

    /// Whether it is idle and was drawn for that, so that it stands for others.
    pub(super) const fn is_drawn(self) -> bool {
        matches!(self, Self::FIRST)
    }

    /// Whether it was old after the last look, so that a program that touched it since had to set
    /// its accessed bit.
    pub(super) const fn was_old(self) -> bool {
        self.0 >= Self::ARMED.0
    }

    /// The same page, if its age begins anew.
    pub(super) const fn anew(self) -> Self {
        if self.age() > 0 { Self::ARMED } else { self }
    }
}
