//! What an answer about a frame says about a page, and what is noted of it.

use isotherm_core::{PageState, UnitCheck};
use isotherm_pages::frames::Flags;
use isotherm_pages::idle::Ask;

use super::super::armed::{Unit, Was};
use super::bits::is_huge;

/// What an answer about a frame says about its page: `Old`, `Young`, `Absent` for the kernel's page
/// of zeros, or nothing.
pub(super) fn verdict(ask: &Ask, was: Was, is_huge: bool) -> Option<PageState> {
    let is_new = was == Was::ABSENT;
    // A mark moves with its page's content, and so does a missing mark. A page that came from swap
    // or as a copy was touched for that. But pages that were joined (512 into one of 2 MiB, or
    // equal ones into one) lose their marks, touched or not.
    let joined = was.had_other_than(ask.frame)
        && !is_new
        && (ask.flags.has(Flags::HEAD) && !was.is_large()
            || is_huge && !was.is_huge()
            || ask.flags.has(Flags::KSM));
    match ask.state {
        PageState::Old => Some(PageState::Old),
        PageState::Young if !joined => Some(PageState::Young),
        PageState::Unresolved if ask.flags.has(Flags::ZERO_PAGE) => Some(PageState::Absent),
        // Touched for the first time just now, or since it was marked.
        PageState::Unresolved if is_new && ask.waits_for_its_list() => Some(PageState::Young),
        PageState::Unresolved if ask.accessed == Some(true) => Some(PageState::Young),
        _ => None,
    }
}

/// Notes the frame of a page, or those of a huge one.
pub(super) fn note(armed: &mut Unit, unit: &UnitCheck, page: usize, ask: &Ask) {
    if is_huge(unit) {
        for (frame, was) in (ask.frame..).zip(armed.pages.iter_mut()) {
            *was = Was::huge(frame);
        }
    } else {
        let is_large = ask.head != ask.frame || ask.flags.has(Flags::HEAD);
        armed.pages[page] = Was::new(ask.frame, ask.head, is_large);
    }
}

#[cfg(test)]
mod tests {
    use isotherm_pages::idle::NOT_KNOWN;

    use super::*;

    const FRAME: u64 = 0x12340;

    #[test]
    fn an_answer_counts_if_the_mark_was_this_pages() {
        use PageState::{Absent, Old, Unknown, Unresolved, Young};
        let small = Was::new(FRAME, FRAME, false);
        let other = Was::new(FRAME + 9, FRAME + 9, false);
        let large = Was::new(FRAME + 9, FRAME + 8, true);
        let (lru, head) = (Flags::LRU.0, Flags::LRU.0 | Flags::HEAD.0);
        let (ksm, mapped) = (Flags::LRU.0 | Flags::KSM.0, Flags::MMAP.0);
        for (name, state, flags, was, huge, expected) in [
            ("touched", Young, lru, small, false, Some(Young)),
            ("not touched", Old, 0, small, false, Some(Old)),
            ("never marked", Young, lru, Was::NOT_KNOWN, false, Some(Young)),
            ("new", Young, lru, Was::ABSENT, false, Some(Young)),
            ("new, in one piece with others", Young, head, Was::ABSENT, true, Some(Young)),
            ("copied when it was written", Young, lru, other, false, Some(Young)),
            ("moved with its mark", Old, lru, other, false, Some(Old)),
            ("joined to a large folio", Young, head, other, false, None),
            ("a large folio moved", Young, head, large, false, Some(Young)),
            ("joined to a huge page", Young, head, large, true, None),
            ("a huge page moved", Young, head, Was::huge(FRAME + 512), true, Some(Young)),
            ("joined with equal pages", Young, ksm, other, false, None),
            ("isolated", Unresolved, mapped, small, false, None),
            ("new, on no list yet", Unresolved, mapped, Was::ABSENT, false, Some(Young)),
            ("hugetlb", Unresolved, Flags::HUGE.0 | mapped, Was::ABSENT, false, None),
            ("zeros", Unresolved, Flags::ZERO_PAGE.0, small, false, Some(Absent)),
            ("freed meanwhile", Absent, 0, small, false, None),
            ("contradicting", Unknown, lru, small, false, None),
        ] {
            let flags = Flags(flags);
            let ask = Ask { state, flags, head: NOT_KNOWN, ..Ask::new(FRAME, 0) };
            assert_eq!(verdict(&ask, was, huge), expected, "{name}");
        }
        let ask = Ask { state: Unresolved, accessed: Some(true), ..Ask::new(FRAME, 0) };
        assert_eq!(verdict(&ask, small, false), Some(Young), "its own bit is set");
    }
}
