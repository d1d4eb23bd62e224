//! Parts `input` and `psi`: a quota that finds the size at which a goal is met, on a real plant.
//!
//! The plant is a program that touches all of its memory over and over: what is paged out comes
//! back soon. `input` closes the loop outside of Isotherm: once per quota window the job measures
//! what was paged out (or came back) since the last time, writes it into the policy as the goal's
//! current value, and sends SIGHUP. It does so in the middle of the window, when the window's work
//! is over and the next has not begun; a value that is a whole window late makes any such loop
//! swing. `psi` is measured by Isotherm itself, once per window.

use isotherm_core::Time;
use isotherm_sys::clock;

use super::case::{Case, Given, Leg};
use super::gauge::{Sample, gauge, psi_us};
use super::plant::{self, Policy, Session};
use super::{SWAP_BYTES, events, part};
use crate::job::Bench;
use crate::measure;
use crate::processes::child::sleep_until;

const AGGR_MS: u64 = 50;
/// Between two looks at the machine's total, which disturb it.
const APART_US: u64 = 5_000_000;
/// All of the plant's memory is in use.
const ANY: &str = "evidence = \"off\"";

/// A goal, and how it is measured.
#[derive(Debug)]
pub(super) struct Aim {
    part: &'static str,
    name: &'static str,
    /// KiB per second, or us per window.
    goal: u64,
    /// What is measured, for `input`.
    pages: fn(&Sample) -> u64,
    windows: u64,
}

impl Aim {
    /// All of them.
    pub(super) fn all(quick: bool) -> Vec<Self> {
        let n = |full| if quick { 15 } else { full };
        // Pressure has windows of a second, and needs many. A smoke run only goes through them.
        let nr_psi = if quick { 4 } else { 44 };
        let aim = |part, name, goal, pages, windows| Self { part, name, goal, pages, windows };
        let out: fn(&Sample) -> u64 = |s| s.out_pages;
        let back: fn(&Sample) -> u64 = |s| s.in_pages;
        let mut all = vec![
            aim(part::INPUT, "24 MiB/s out", 24 << 10, out, n(44)),
            aim(part::INPUT, "6 MiB/s out", 6 << 10, out, n(44)),
            aim(part::INPUT, "60 MiB/s out", 60 << 10, out, n(44)),
            aim(part::INPUT, "24 MiB/s back", 24 << 10, back, n(44)),
            aim(part::PSI, "2 ms/s", 2000, out, nr_psi),
            aim(part::PSI, "5 ms/s", 5000, out, nr_psi),
        ];
        if quick {
            all.retain(|a| matches!(a.name, "24 MiB/s out" | "2 ms/s"));
        }
        all
    }

    pub(super) const fn part(&self) -> &'static str {
        self.part
    }

    pub(super) const fn name(&self) -> &'static str {
        self.name
    }

    fn is_psi(&self) -> bool {
        self.part == part::PSI
    }

    /// Length of a quota window: whole passes.
    fn window_ms(&self) -> u64 {
        if self.is_psi() { 1000 } else { 500 }
    }

    fn policy(&self, pid: u32, current: u64) -> Policy {
        let interval = self.window_ms() - AGGR_MS / 2;
        let goal = if self.is_psi() {
            format!("metric = \"some_mem_psi_us\", target = \"{}us\"", self.goal)
        } else {
            format!("metric = \"user_input\", target = {}, current = {current}", self.goal)
        };
        let quota =
            format!("{{ size = \"256M\", interval = \"{interval}ms\", goals = [{{ {goal} }}] }}");
        let scheme = ANY.into();
        Policy { pid, sample_ms: 5, aggr_ms: AGGR_MS, regions: [10, 1000], scheme, quota }
    }

    /// Measures it.
    pub(super) fn run(&self, bench: &Bench<'_>, file: &str, case: &mut Case) -> anyhow::Result<()> {
        (case.window_ns, case.goal) = (self.window_ms() * 1_000_000, self.goal);
        let zram = measure::swap(SWAP_BYTES)?;
        let target = plant::target(bench, file, &plant::wanted(96, 400_000))?;
        let pid = target.child.pid();
        if self.is_psi() {
            warm_up(bench, file, pid)?;
        }
        let mut session = Session::start(bench, file, &self.policy(pid, 0))?;
        let gauge = gauge(pid, session.pid())?;
        let length_us = self.windows * self.window_ms() * 1000;
        if self.is_psi() {
            let end = clock::now().plus_us(length_us);
            while clock::now() < end {
                session.still_runs()?;
                case.totals.push(Given { ns: clock::now().as_ns(), value: psi_us()? });
                sleep_until(end.min(clock::now().plus_us(APART_US)))?;
            }
        } else {
            self.close_loop(&mut session, pid, clock::now().plus_us(length_us), case)?;
        }
        let samples = gauge.finish();
        let log = session.events();
        if self.is_psi() {
            case.totals.push(Given { ns: clock::now().as_ns(), value: psi_us()? });
            // The first is before the first window, and those after are each of a window.
            case.given = events::currents(&log);
        }
        let account = session.finish()?;
        let (acted, regions) = (events::acted(&log), events::regions(&log));
        case.legs.push(Leg { control: false, samples, acted, regions, account });
        drop(target);
        Ok(zram.tear_down()?)
    }

    /// Measures, tells, and waits for the next window, until `end`.
    fn close_loop(
        &self,
        session: &mut Session,
        pid: u32,
        end: Time,
        case: &mut Case,
    ) -> anyhow::Result<()> {
        let window_us = self.window_ms() * 1000;
        let mut last = Sample::take(pid, session.pid())?;
        while clock::now() < end {
            session.still_runs()?;
            // The window's first action; a window may do nothing.
            let latest = clock::now().plus_us(2 * window_us);
            let begun = loop {
                let acted = events::acted(&session.events());
                let new = acted.iter().map(events::Acted::begin_ns).find(|ns| *ns > last.ns);
                if new.is_some() || clock::now() >= latest {
                    break new;
                }
                sleep_until(clock::now().plus_us(5_000))?;
            };
            let begun = begun.map_or_else(clock::now, Time);
            sleep_until(begun.plus_us(window_us / 2))?;
            let sample = Sample::take(pid, session.pid())?;
            let pages = (self.pages)(&sample).saturating_sub((self.pages)(&last));
            let value = pages * 4 * 1_000_000_000 / sample.ns.saturating_sub(last.ns).max(1);
            session.commit(&self.policy(pid, value))?;
            case.given.push(Given { ns: sample.ns, value });
            last = sample;
        }
        Ok(())
    }
}

/// A page counts as pressure only when it comes back though it was in use when it went, for the
/// second time.
fn warm_up(bench: &Bench<'_>, file: &str, pid: u32) -> anyhow::Result<()> {
    let quota = "{ size = \"64M\", interval = \"475ms\" }".into();
    let scheme = ANY.into();
    let policy = Policy { pid, sample_ms: 5, aggr_ms: AGGR_MS, regions: [10, 1000], scheme, quota };
    let session = Session::start(bench, &format!("{file}-warm"), &policy)?;
    sleep_until(clock::now().plus_us(if bench.spec.quick { 1_500_000 } else { 4_000_000 }))?;
    session.finish().map(drop)
}
