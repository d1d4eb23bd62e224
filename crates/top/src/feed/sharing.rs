//! What running processes share, from window to window.
//!
//! Of hundreds of processes few have told something new of shared pages in a window, so only these
//! are looked through again; and all of them when memory of one has become another's as well.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use isotherm::raw::agent::sharing::LiveSharing;
use isotherm::raw::core::{Snapshot, TargetId, UnitInfo};
use isotherm::raw::report::page_maps::PageMap;

use crate::model::{Member, Sharers};

/// What is known of it.
#[derive(Debug, Default)]
pub(super) struct Sharing {
    live: LiveSharing,
    generation: u64,
    members: BTreeMap<TargetId, Arc<Member>>,
    sharers: Arc<Sharers>,
}

impl Sharing {
    /// Takes in a window of these processes.
    pub(super) fn follow(
        &mut self,
        s: &Snapshot,
        pids: &BTreeMap<TargetId, u32>,
        maps: &BTreeMap<TargetId, PageMap>,
    ) {
        let were_read = self.live.follow(s, |id| pids.get(&id).copied());
        if !self.live.is_any() {
            self.members.clear();
            self.sharers = Arc::default();
            return;
        }
        let generation = self.live.sharing().generation();
        let here: BTreeSet<TargetId> = s.targets.iter().map(|target| target.id).collect();
        let before = self.members.len();
        self.members.retain(|id, _| {
            self.generation == generation && here.contains(id) && !were_read.contains(id)
        });
        self.generation = generation;
        let mut is_changed = self.members.len() < before;
        for target in &s.targets {
            let (map, sharing) = (maps.get(&target.id), self.live.sharing());
            let takes_in = |unit: &UnitInfo| sharing.takes_in(target.id.0, unit.start);
            let is_old = map.is_some() && !target.units.iter().any(takes_in);
            if is_old && self.members.contains_key(&target.id) {
                continue;
            }
            let member = Member::of(sharing, target.id.0, map, &target.regions);
            self.members.insert(target.id, Arc::new(member));
            is_changed = true;
        }
        if is_changed {
            let member = |(id, member)| Some((*pids.get(id)?, Arc::clone(member)));
            let members = self.members.iter().filter_map(member).collect();
            let sharing = Arc::new(self.live.sharing().clone());
            self.sharers = Arc::new(Sharers::new(sharing, members, s.aggr_us, false));
        }
    }

    pub(super) fn sharers(&self) -> Arc<Sharers> {
        Arc::clone(&self.sharers)
    }
}
