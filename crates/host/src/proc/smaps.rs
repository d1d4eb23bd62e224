//! `/proc/PID/smaps`: per mapping, how much is resident and how much was touched.

use isotherm_core::AddrRange;

use super::maps::parse_line;
use super::scan::{line, split};
use super::status::kib;

/// Resident and touched memory of one mapping.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct MappingUse {
    /// The mapping's addresses.
    pub range: AddrRange,
    /// Resident bytes.
    pub rss_bytes: u64,
    /// Resident bytes that were touched since the accessed bits were last cleared.
    pub referenced_bytes: u64,
    /// Whether [`Mapping::is_monitored`](super::Mapping::is_monitored).
    pub is_monitored: bool,
    /// What was advised about huge pages (`VmFlags`): `Some(true)` to have them, `Some(false)` not
    /// to.
    pub huge_advice: Option<bool>,
    /// Whether the kernel makes it longer at its low end when that is touched (`VmFlags`), as the
    /// stack of a main thread and all parts into which advice has split it.
    pub grows_down: bool,
}

/// The mappings of an `smaps` file. Made by [`parse_smaps`].
#[derive(Debug, Clone)]
pub struct Smaps<'t> {
    rest: &'t [u8],
    next: Option<MappingUse>,
}

/// Walks over the mappings in the text of an `smaps` file, in address order.
#[must_use]
pub fn parse_smaps(text: &[u8]) -> Smaps<'_> {
    Smaps { rest: text, next: None }
}

impl Iterator for Smaps<'_> {
    type Item = MappingUse;

    fn next(&mut self) -> Option<MappingUse> {
        while let Some(text) = line(&mut self.rest) {
            // A heading starts with a hexadecimal number in lower case, a value with a capital.
            if text.first().is_some_and(u8::is_ascii_uppercase) {
                let Some(current) = &mut self.next else { continue };
                match split(text, b':') {
                    Some((b"Rss", value)) => current.rss_bytes = kib(value),
                    Some((b"Referenced", value)) => current.referenced_bytes = kib(value),
                    Some((b"VmFlags", value)) => {
                        let has = |flag: &[u8]| value.split(|b| *b == b' ').any(|f| f == flag);
                        current.huge_advice = match (has(b"hg"), has(b"nh")) {
                            (true, _) => Some(true),
                            (_, true) => Some(false),
                            _ => None,
                        };
                        current.grows_down = has(b"gd");
                    }
                    _ => {}
                }
            } else if let Some(mapping) = parse_line(text) {
                let done = self.next.replace(MappingUse {
                    range: mapping.range,
                    is_monitored: mapping.is_monitored(),
                    ..MappingUse::default()
                });
                if done.is_some() {
                    return done;
                }
            }
        }
        self.next.take()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_mappings() {
        let text = b"Rss: 1 kB\n\
1000-3000 rw-p 00000000 00:00 0 \nSize:  8 kB\nRss:   8 kB\nReferenced:        4 kB\nVmFlags: rd mr gd nh sd \n\
3000-4000 ---p 00000000 00:00 0 \nSize:  4 kB\nRss:   0 kB\nReferenced:        0 kB\n\
5000-6000 r-xp 00000000 fe:00 7    /usr/lib/A: b.so\nRss:   4 kB\n";
        let got: Vec<_> = parse_smaps(text).collect();
        let expect = [
            (0x1000, 0x3000, 8, 4, true),
            (0x3000, 0x4000, 0, 0, false),
            (0x5000, 0x6000, 4, 0, true),
        ];
        assert_eq!(
            got,
            expect.map(|(start, end, rss, referenced, is_monitored)| MappingUse {
                range: AddrRange::new(start, end),
                rss_bytes: rss * 1024,
                referenced_bytes: referenced * 1024,
                is_monitored,
                huge_advice: (start == 0x1000).then_some(false),
                grows_down: start == 0x1000,
            })
        );
    }
}
