//! A monitor over an operations set and a clock of the user's own, with a scheme that acts by it.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use isotherm::operations::{
    AddrRange, Applied, Check, Clock, Operations, PageState, Request, TargetId, Time, UpdateError,
};
use isotherm::{Bytes, ErrorKind, Event, Monitor, Scheme, raw};

const HOT: u64 = 1 << 20;

/// 4 MiB of which the first is always in use. The target ends after 20 s.
struct Memory(Rc<Cell<Time>>);

impl Operations for Memory {
    fn prepare(&mut self, batch: &mut [Check]) {
        for check in batch {
            check.state = if check.addr < HOT { PageState::Cleared } else { PageState::Old };
        }
    }

    fn check(&mut self, batch: &mut [Check]) {
        for check in batch {
            check.state = if check.addr < HOT { PageState::Young } else { PageState::Old };
        }
    }

    fn update(&mut self, target: TargetId, maps: &mut Vec<AddrRange>) -> Result<(), UpdateError> {
        if !self.target_valid(target) {
            return Err(UpdateError::Gone);
        }
        maps.push(AddrRange::new(0, 4 * HOT));
        Ok(())
    }

    fn target_valid(&mut self, _: TargetId) -> bool {
        self.0.get() < Time(20_000_000_000)
    }

    /// Half of what is asked for can be done.
    fn apply(&mut self, request: &Request, _: &raw::core::Scheme) -> Applied {
        let asked = request.range.len();
        Applied { covered: asked, asked, applied: asked / 2, ..Applied::default() }
    }
}

/// A clock that jumps.
struct Jump(Rc<Cell<Time>>);

impl Clock for Jump {
    fn now(&mut self) -> Time {
        self.0.get()
    }

    fn sleep_until(&mut self, deadline: Time) -> bool {
        self.0.set(deadline.max(self.0.get()));
        false
    }
}

#[test]
fn a_set_of_ones_own_is_watched_and_acted_on() {
    let now = Rc::new(Cell::new(Time(0)));
    let builder = Monitor::builder().operations(Memory(Rc::clone(&now))).clock(Jump(now));
    let mut monitor = builder.target(TargetId(4), "guest").seed(1).build().unwrap();
    monitor.add_scheme(Scheme::pageout().idle_for(Duration::from_secs(5))).unwrap();
    let mut last = None;
    while let Some(snapshot) = monitor.next_snapshot().unwrap() {
        last = Some((snapshot.end(), snapshot.working_set()));
    }
    let (end, set) = last.expect("windows");
    assert!(Duration::from_secs(19) < end && end < Duration::from_secs(21), "{end:?}");
    assert!(set.low <= Bytes(HOT) && Bytes(HOT) <= set.high, "{set}");
    let account = &monitor.schemes()[0];
    assert!(account.asked >= Bytes(2 * HOT), "{account}");
    assert_eq!(account.done, Bytes(account.asked.get() / 2), "{account}");
    let events = monitor.take_events();
    let names: Vec<_> = events.iter().map(ToString::to_string).collect();
    assert!(matches!(&events[..], [Event::Added(_), Event::Gone(_)]), "{names:?}");
}

#[test]
fn numbered_targets_belong_to_own_sets() {
    let error = Monitor::builder().pid(1).target(TargetId(0), "x").build().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
    let workload = isotherm::sim::Workload::shipped("stairs").unwrap();
    let mut monitor = Monitor::builder().sim(workload).build().unwrap();
    let error = monitor.add_target(TargetId(9), "x").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
}

#[test]
fn an_age_is_as_long_as_its_windows_really_were() {
    let now = Rc::new(Cell::new(Time(0)));
    let builder = Monitor::builder().operations(Memory(Rc::clone(&now)));
    let builder = builder.clock(Jump(Rc::clone(&now)));
    let mut monitor = builder.target(TargetId(4), "guest").seed(1).build().unwrap();
    let mut oldest = |windows: u32| {
        let mut oldest = (Duration::ZERO, 0);
        for _ in 0..windows {
            let snapshot = monitor.next_snapshot().unwrap().expect("a window");
            let regions = snapshot.targets().flat_map(|t| t.regions().collect::<Vec<_>>());
            let ages = regions.map(|r| (r.age(), r.raw().age));
            oldest = ages.max().expect("regions");
        }
        oldest
    };
    let (age, windows) = oldest(30);
    let nominal = Duration::from_millis(100) * windows;
    assert!(windows > 20 && age.abs_diff(nominal) < Duration::from_millis(500), "{age:?}");
    // The program is not scheduled for 5 s.
    now.set(Time(now.get().as_ns() + 5_000_000_000));
    let (age, windows) = oldest(2);
    let nominal = Duration::from_millis(100) * windows;
    let more = age.saturating_sub(nominal);
    assert!(
        windows > 20 && more.abs_diff(Duration::from_secs(5)) < Duration::from_millis(500),
        "{age:?}"
    );
}
