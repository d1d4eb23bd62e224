//! A monitor that loses its rights while it runs.

use rustix::thread::{CapabilitySet, CapabilitySets, capabilities, set_capabilities};

use crate::target::{MIB, Target};
use crate::watch::Watch;

/// This thread without any right, until it is dropped.
struct Without(CapabilitySets);

impl Without {
    fn any() -> Self {
        let had = capabilities(None).unwrap();
        let none = CapabilitySets { effective: CapabilitySet::empty(), ..had };
        set_capabilities(None, none).unwrap();
        Self(had)
    }
}

impl Drop for Without {
    fn drop(&mut self) {
        set_capabilities(None, self.0).unwrap();
    }
}

#[test]
fn all_capabilities_are_lost() {
    let Some(mut target) = Target::start(64 * MIB) else { return };
    let hot = target.heat(16 * MIB, 16 * MIB);
    let Some(mut watch) = Watch::start(target.pid()) else { return };
    watch.expect_hot(Some(hot));
    watch.until_hot(hot);
    let less = Without::any();
    // No page can be made old any more. What is hot is not called cold for that.
    watch.until("word of it", |w| w.told.iter().any(|text| text.contains("cannot be made old")));
    for _ in 0..20 {
        watch.window();
        assert_eq!(watch.cold_percent(hot), 0);
    }
    // Looks still work, so memory that wakes up is seen.
    let woken = target.heat(40 * MIB, 16 * MIB);
    watch.expect_hot(Some(woken));
    watch.until("memory that has woken up", |w| w.cold_percent(woken) == 0);
    assert_eq!(watch.told.len(), 1, "it is told once: {:?}", watch.told);
    // With the rights, all goes on.
    drop(less);
    watch.until_hot(woken);
    watch.until("memory that has gone cold", |w| w.cold_percent(hot) >= 90);
    watch.assert_cheap();
}
