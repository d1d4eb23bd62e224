//! `plan`: what paging out would save, and at what price, from a record.
//!
//! For each idle time: how much memory would be left, how fast pages would come back, and by how
//! much that slows the program down (times the price of one page that comes back). Where the record
//! has page maps, the scheme that pages out after that time is played back over it
//! ([`crate::replay`]): it knows how Isotherm waits and what it leaves alone. Bounds come from the
//! working set over time and its slope ([`curve`]), which hold whatever is paged out and how. Where
//! there are no page maps, so do the estimates. Quotas and the brake of a policy are left out: they
//! only make less of both. All have 90 % intervals. From a stated limit follows the idle time to
//! use: the shortest of which even the upper end keeps to the limit. Beside it: where huge pages
//! pay ([`huge`]), and how many accesses stay fast for each size of a fast node ([`tier`]).
//!
//! Absent: acting, and measuring the price of a page; the caller does both.

pub mod curve;
mod html;
pub mod huge;
mod played;
mod seen;
mod svg;
mod text;
pub mod tier;

use isotherm_record::Record;
use serde::Serialize;

use self::curve::Curve;
use self::huge::{Huge, HugeRow};
pub use self::played::AfterIdle;
use self::played::Played;
use self::seen::Seen;
use crate::error::Error;
use crate::filter::Filter;
use crate::price::{Estimate, Price};

/// Idle times that are told, in seconds.
const AGES_S: [f64; 13] =
    [1.0, 2.0, 5.0, 10.0, 20.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1800.0, 3600.0, 7200.0];
const PAGE: f64 = 4096.0;
/// A record has to be this many times as long as an idle time that it is to tell of.
const TIMES: f64 = 5.0;
/// A page leaves when it was idle for the idle time and then stayed untouched while it was watched,
/// which takes as long again, less what was known of it before. By what the job `plan` found, it
/// leaves mostly after this many times the idle time.
const MOSTLY: f64 = 1.6;
/// And after this many times the idle time and so many seconds at the latest, since what was
/// touched while it was watched is left alone for a while.
pub const LATEST: (f64, f64) = (3.0, 1.0);

/// What leaves and comes back is out for this part of the idle time at least, on average. So what
/// comes back per second is at most what is saved, divided by that (Little's law). A curve that has
/// few points still rises where hardly anything is left to leave.
const LEAST_OUT: f64 = 0.5;

/// What paging out may cost, or has to bring.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Limits {
    /// The largest slowdown, as a share.
    pub max_slowdown: f64,
    /// The most that may come back per minute, as a share of resident memory.
    pub max_refaults: Option<f64>,
    /// The least saving, as a share of resident memory.
    pub save: Option<f64>,
}

impl Default for Limits {
    /// 1 % slower.
    fn default() -> Self {
        Self { max_slowdown: 0.01, max_refaults: None, save: None }
    }
}

/// What becomes of the memory if it is paged out after some idle time.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Row {
    /// The idle time, in seconds.
    pub age_s: f64,
    /// Bytes that stay resident, on average.
    pub left: Estimate,
    /// Bytes that are saved, on average.
    pub saved: Estimate,
    /// The same as a share of what is resident.
    pub saved_share: Estimate,
    /// Pages that come back per second.
    pub refaults_per_s: Estimate,
    /// Bytes that come back per minute, as a share of what is resident.
    pub refaults_per_min: Estimate,
    /// The time that the program waits for them, as a share.
    pub slowdown: Estimate,
}

/// The idle time to use.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "choice", rename_all = "snake_case")]
pub enum Choice {
    /// This row keeps to the limits.
    Age {
        /// The number of the row.
        row: usize,
    },
    /// None does.
    Nothing {
        /// Why, for people.
        why: String,
    },
}

/// The plan.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Report {
    /// Version of the JSON's format.
    pub schema_version: u32,
    /// What the plan is about, such as `postgres (pid 4711)`.
    #[serde(rename = "target")]
    pub title: String,
    /// The names of the programs, each once.
    pub names: Vec<String>,
    /// Length of the record, in seconds.
    pub len_s: f64,
    /// Mean resident memory, in bytes.
    pub resident: f64,
    /// The part of it that is anonymous, and so needs swap.
    pub anonymous: f64,
    /// The part that cannot be looked at, and so stays.
    pub unresolved: f64,
    /// Whether the record has page maps.
    pub by_pages: bool,
    /// What a page costs that comes back.
    pub price: Price,
    /// The limits.
    pub limits: Limits,
    /// By idle time.
    pub rows: Vec<Row>,
    /// The row to use.
    pub choice: Choice,
    /// Where huge pages pay, from the largest share of pages in use to the smallest.
    pub huge_pages: Vec<HugeRow>,
    /// All that huge pages are about.
    pub huge: Huge,
    /// By size of a fast node; empty if too little was seen.
    pub fast_node: Vec<tier::Row>,
    /// What to keep in mind when reading it.
    pub notes: Vec<String>,
    /// The working set over time.
    #[serde(skip)]
    pub curve: Curve,
}

impl Report {
    /// Reads a record. `after` says what would page out after an idle time.
    ///
    /// # Errors
    ///
    /// If the record cannot be read, no snapshot passes the filter, the filter names addresses (a
    /// working set is that of a whole target), or the record is too short to tell of any idle time.
    pub fn build(
        record: &Record,
        filter: &Filter,
        price: Price,
        limits: Limits,
        after: AfterIdle<'_>,
    ) -> Result<Self, Error> {
        if filter.address.is_some() {
            return Err(Error::Usage(
                "a plan is for whole processes, not for --address\n  why:   working sets are known of \
                 whole processes\n  hint:  leave --address out; `isotherm report pages --address` \
                 tells of parts"
                    .into(),
            ));
        }
        let seen = Seen::of(record, filter)?;
        let curve = Curve::new(seen.knots.clone());
        let told = AGES_S.into_iter().filter(|age_s| seen.len_s >= TIMES * age_s);
        let mut told: Vec<Told> =
            told.filter_map(|age_s| Told::by_curve(&seen, &curve, age_s)).collect();
        if seen.has_pages && !told.is_empty() {
            let ages_s: Vec<f64> = told.iter().map(|told| told.age_s).collect();
            let played = played::back(record, filter, &ages_s, after)?;
            told.iter_mut().zip(played).for_each(|(told, played)| told.take_in(&seen, played));
        }
        let rows: Vec<_> = told.iter().map(|told| told.row(&seen, &price)).collect();
        if rows.is_empty() {
            return Err(Error::Nothing {
                why: format!("the record is {:.1} s long, and no working set is known", seen.len_s),
                hint: "record for at least 15 s; for an idle time, five times as long as that",
            });
        }
        Ok(Self {
            schema_version: crate::SCHEMA_VERSION,
            choice: choose(&rows, &limits),
            notes: notes(&seen, &rows),
            title: seen.title,
            names: seen.names,
            len_s: seen.len_s,
            resident: seen.resident,
            anonymous: seen.anonymous,
            unresolved: seen.unresolved,
            by_pages: seen.has_pages,
            price,
            limits,
            rows,
            huge_pages: seen.huge.rows().to_vec(),
            huge: seen.huge,
            fast_node: seen.tier,
            curve,
        })
    }

    /// The row that keeps to the limits, if there is one.
    #[must_use]
    pub fn chosen(&self) -> Option<&Row> {
        match self.choice {
            Choice::Age { row } => self.rows.get(row),
            Choice::Nothing { .. } => None,
        }
    }

    /// The plan as one JSON object.
    #[must_use]
    pub fn to_json(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }
}

/// What becomes of the memory at an idle time, whatever a page costs.
#[derive(Debug, Clone, Copy)]
struct Told {
    age_s: f64,
    /// Bytes that are saved, on average.
    saved: Estimate,
    /// Bytes that come back per second.
    returns: Estimate,
}

impl Told {
    /// What the curve tells; none if it does not reach so far.
    fn by_curve(seen: &Seen, curve: &Curve, age_s: f64) -> Option<Self> {
        let end = curve.knots().last()?.span_s;
        let (mostly, latest) = ((MOSTLY * age_s).min(end), LATEST.0 * age_s + LATEST.1);
        let first = curve.within(age_s)?;
        let mid = curve.within(mostly)?.mid;
        let last = curve.within(latest).or_else(|| curve.beyond(latest))?;
        let resident = seen.resident();
        // Of what cannot be looked at nothing is paged out.
        let stays = seen.unresolved.min(resident);
        let saved = |left: f64| (resident - left.min(resident).max(stays)).max(0.0);
        let saved = Estimate::new(saved(last.hi), saved(mid), saved(first.lo));
        // Less comes back of what leaves later, and nothing of what is seen to come back while it
        // is watched: that does not leave.
        let most = saved.mid / (LEAST_OUT * age_s);
        let mid = curve.returns(mostly)?.mid.min(most);
        let returns = Estimate::new(0.0, mid, curve.returns(age_s)?.hi);
        Some(Self { age_s, saved, returns })
    }

    /// What was played back is the estimate. It knows how Isotherm waits; the curve knows bounds.
    fn take_in(&mut self, seen: &Seen, played: Played) {
        self.saved = self.saved.moved_to(played.saved_share * seen.resident());
        self.returns = self.returns.moved_to(played.pages_back_per_s * PAGE);
    }

    fn row(&self, seen: &Seen, price: &Price) -> Row {
        let Self { age_s, saved, returns } = *self;
        let resident = seen.resident();
        let refaults_per_s = returns.times(1.0 / PAGE);
        Row {
            age_s,
            left: Estimate::new(resident - saved.hi, resident - saved.mid, resident - saved.lo),
            saved,
            saved_share: saved.times(1.0 / resident),
            refaults_per_s,
            refaults_per_min: returns.times(60.0 / resident),
            slowdown: refaults_per_s.by(price.us).times(1e-6 / price.cpus.max(0.01)),
        }
    }
}

/// The shortest idle time that keeps to the limits even at the upper ends of the intervals.
fn choose(rows: &[Row], limits: &Limits) -> Choice {
    let keeps = |row: &Row| {
        row.slowdown.hi <= limits.max_slowdown
            && limits.max_refaults.is_none_or(|most| row.refaults_per_min.hi <= most)
    };
    let saves = |row: &Row| limits.save.is_none_or(|least| row.saved_share.lo >= least);
    // Of those that save enough, the longest idle time costs least.
    let row = match limits.save {
        Some(_) => rows.iter().rposition(|row| keeps(row) && saves(row)),
        None => rows.iter().position(|row| keeps(row) && row.saved.mid >= PAGE),
    };
    if let Some(row) = row {
        return Choice::Age { row };
    }
    let why = match (rows.iter().any(keeps), limits.save) {
        (true, Some(_)) => {
            let most = rows.iter().filter(|row| keeps(row)).map(|row| row.saved_share.lo);
            let most = isotherm_core::units::percent(most.fold(0.0, f64::max));
            format!("what keeps to the limits is only sure to save {most}")
        }
        (true, None) => "nothing is idle for so long that it could be paged out".into(),
        (false, _) => {
            let least = rows.iter().map(|row| row.slowdown.hi).fold(f64::INFINITY, f64::min);
            let least = isotherm_core::units::percent(least);
            format!("even the cheapest of these idle times may cost {least} of the program's time")
        }
    };
    Choice::Nothing { why }
}

/// What a reader has to keep in mind.
fn notes(seen: &Seen, rows: &[Row]) -> Vec<String> {
    use isotherm_core::units::{mib, span};
    let mut notes = Vec::new();
    if !seen.has_pages {
        notes.push(
            "the record has no page maps, so this is from regions, and resident memory is address \
             space; `isotherm record` with the method census makes page maps"
                .into(),
        );
    }
    let longest = rows.last().map_or(0.0, |row| row.age_s);
    if let Some(next) = AGES_S.iter().find(|age| **age > longest) {
        notes.push(format!(
            "the record is {} long; for an idle time of {}, record for {}",
            span(seen.len_s * 1e9),
            span(next * 1e9),
            span(next * TIMES * 1e9)
        ));
    }
    if seen.unresolved > 0.0 {
        notes.push(format!("{} cannot be looked at, and stays", mib(seen.unresolved)));
    }
    notes.extend(seen.caveats.iter().cloned());
    notes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(of: &[(f64, f64, f64)]) -> Vec<Row> {
        let sure = |x: f64| Estimate::new(x * 0.9, x, x * 1.1);
        let row = |&(age_s, saved, slowdown): &(f64, f64, f64)| Row {
            age_s,
            left: sure(1e9 * (1.0 - saved)),
            saved: sure(1e9 * saved),
            saved_share: sure(saved),
            refaults_per_s: sure(slowdown * 1e5),
            refaults_per_min: sure(slowdown * 10.0),
            slowdown: sure(slowdown),
        };
        of.iter().map(row).collect()
    }

    #[test]
    fn the_shortest_idle_time_that_keeps_to_the_limits_is_chosen() {
        let rows =
            rows(&[(1.0, 0.8, 0.2), (10.0, 0.6, 0.0095), (30.0, 0.5, 0.005), (60.0, 0.4, 0.0)]);
        let chosen = |limits: Limits| match choose(&rows, &limits) {
            Choice::Age { row } => Some(row),
            Choice::Nothing { .. } => None,
        };
        let limits = Limits::default();
        assert_eq!(chosen(limits), Some(2), "the upper end at 10 s is above 1 %");
        assert_eq!(chosen(Limits { max_slowdown: 0.011, ..limits }), Some(1));
        assert_eq!(chosen(Limits { max_refaults: Some(0.01), ..limits }), Some(3));
        assert_eq!(chosen(Limits { save: Some(0.3), ..limits }), Some(3), "it costs least");
        assert_eq!(chosen(Limits { save: Some(0.42), ..limits }), Some(2));
        let why = |limits| match choose(&rows, &limits) {
            Choice::Nothing { why } => why,
            Choice::Age { row } => panic!("{row}"),
        };
        let why = why(Limits { save: Some(0.7), ..limits });
        assert!(why.contains("45.0 %"), "half, less 10 %: {why}");
        let never = choose(&rows[..1], &limits);
        assert!(matches!(&never, Choice::Nothing { why } if why.contains("22.0 %")), "{never:?}");
    }
}
