//! Watches a policy that acts: pressure, refaults and errors above its limits end that.
//!
//! Refaults and errors are those of the last minutes, so that what was long ago neither hides nor
//! causes a stop. Of less than 1 MiB taken, the share that came back means nothing yet.

use std::collections::{BTreeMap, VecDeque};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use isotherm_act::apply::ActEvent;
use isotherm_agent::policy::Rollout;
use isotherm_agent::run::{Event, Summary};
use isotherm_core::units::{bytes, show_share};

/// Refaults are looked at over so long.
const REFAULTS_OVER: Duration = Duration::from_secs(300);
/// Errors are counted over so long.
const ERRORS_OVER: Duration = Duration::from_secs(60);
/// The least that has to be taken before the share that came back says anything, in bytes.
const LEAST_DONE: u64 = 1 << 20;

/// Watches a policy.
#[derive(Debug)]
pub(crate) struct Watch {
    limits: Rollout,
    pressure: PathBuf,
    /// By context and scheme: bytes done and refaulted by the last summary.
    last: BTreeMap<(String, String), (u64, u64)>,
    /// When, and by how much both have grown then.
    grown: VecDeque<(Instant, u64, u64)>,
    errors: VecDeque<Instant>,
}

impl Watch {
    /// Nothing is known yet. `proc`: `/proc` on a machine.
    pub(crate) fn new(limits: Rollout, proc: &Path) -> Self {
        Self {
            limits,
            pressure: proc.join("pressure/memory"),
            last: BTreeMap::new(),
            grown: VecDeque::new(),
            errors: VecDeque::new(),
        }
    }

    /// Takes in what a context tells. Returns which limit was passed, and by how much; for people.
    pub(crate) fn hear(&mut self, context: &str, event: &Event, now: Instant) -> Option<String> {
        match event {
            Event::Act(ActEvent::Trouble { text, .. }) => self.error(text, now),
            Event::Summary(summary) => {
                self.pressure().or_else(|| self.refaults(context, summary, now))
            }
            _ => None,
        }
    }

    fn error(&mut self, text: &str, now: Instant) -> Option<String> {
        let most = self.limits.max_errors?;
        self.errors.push_back(now);
        while self.errors.front().is_some_and(|at| now.duration_since(*at) > ERRORS_OVER) {
            self.errors.pop_front();
        }
        let errors = self.errors.len() as u64;
        (errors > most).then(|| {
            format!("{errors} errors in a minute, and `max_errors` is {most}; the last: {text}")
        })
    }

    fn pressure(&self) -> Option<String> {
        let most = self.limits.max_pressure_bp?;
        // A kernel without PSI has no such file; the agent says so when the policy starts.
        let text = fs::read_to_string(&self.pressure).ok()?;
        let now = some_avg10_bp(&text)?;
        (now > most).then(|| {
            format!(
                "memory pressure of the machine (some avg10) is {}, and `max_pressure` is {}",
                show_share(now.into()),
                show_share(most.into())
            )
        })
    }

    fn refaults(&mut self, context: &str, summary: &Summary, now: Instant) -> Option<String> {
        let most = self.limits.max_refaults_bp?;
        let (mut done, mut refaulted) = (0_u64, 0_u64);
        for account in summary.schemes.iter().map(|standing| &standing.account) {
            let key = (context.to_owned(), account.name.clone());
            let total = (
                account.done_bytes.saturating_sub(account.pretended_bytes),
                account.refaulted_bytes,
            );
            let before = self.last.insert(key, total).unwrap_or_default();
            // Counters of a context that was started again begin at zero.
            done += total.0.checked_sub(before.0).unwrap_or(total.0);
            refaulted += total.1.checked_sub(before.1).unwrap_or(total.1);
        }
        if done > 0 || refaulted > 0 {
            self.grown.push_back((now, done, refaulted));
        }
        while self.grown.front().is_some_and(|(at, ..)| now.duration_since(*at) > REFAULTS_OVER) {
            self.grown.pop_front();
        }
        let done: u64 = self.grown.iter().map(|(_, done, _)| done).sum();
        let refaulted: u64 = self.grown.iter().map(|(.., refaulted)| refaulted).sum();
        let is_more =
            u128::from(refaulted) * 10_000 > u128::from(done.max(refaulted)) * u128::from(most);
        (done.max(refaulted) >= LEAST_DONE && is_more).then(|| {
            format!(
                "{} of {} that were taken in the last minutes came back, and `max_refaults` is {}",
                bytes(refaulted),
                bytes(done),
                show_share(most.into())
            )
        })
    }
}

/// Why a limit on pressure cannot be kept on this machine; none if it can.
pub(crate) fn no_pressure(limits: &Rollout, proc: &Path) -> Option<String> {
    limits.max_pressure_bp?;
    let path = proc.join("pressure/memory");
    let why = match fs::read_to_string(&path) {
        Ok(text) if some_avg10_bp(&text).is_some() => return None,
        Ok(_) => "it has no `some avg10`".to_owned(),
        Err(err) => err.to_string(),
    };
    Some(format!(
        "`max_pressure` cannot be kept here\n  tried: read {}: {why}\n  hint:  a kernel with PSI \
         (boot with psi=1), or leave `max_pressure` out",
        path.display()
    ))
}

/// `some avg10` of a pressure file, in basis points.
fn some_avg10_bp(text: &str) -> Option<u32> {
    let line = text.lines().find(|line| line.starts_with("some "))?;
    let value = line.split(' ').find_map(|field| field.strip_prefix("avg10="))?;
    let (whole, part) = value.split_once('.').unwrap_or((value, "00"));
    let part: u32 = format!("{part:0<2}").get(..2)?.parse().ok()?;
    whole.parse::<u32>().ok()?.checked_mul(100)?.checked_add(part)
}

#[cfg(test)]
mod tests {
    use isotherm_agent::run::Standing;
    use isotherm_core::Time;

    use super::*;

    const MIB: u64 = 1 << 20;

    fn limits() -> Rollout {
        Rollout {
            max_pressure_bp: Some(1000),
            max_refaults_bp: Some(500),
            max_errors: Some(2),
            ..Rollout::default()
        }
    }

    fn summary(done: u64, refaulted: u64) -> Event {
        let mut standing = Standing::default();
        standing.account.name = "cold".to_owned();
        (standing.account.done_bytes, standing.account.refaulted_bytes) = (done, refaulted);
        Event::Summary(Box::new(Summary { schemes: vec![standing], ..Summary::default() }))
    }

    #[test]
    fn pressure_above_the_limit_stops() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("pressure")).unwrap();
        let mut watch = Watch::new(limits(), dir.path());
        let mut at = |text: &str| {
            fs::write(dir.path().join("pressure/memory"), text).unwrap();
            watch.hear("c", &summary(0, 0), Instant::now())
        };
        assert_eq!(at("some avg10=10.00 avg60=99.00 total=5\nfull avg10=99.00\n"), None);
        assert_eq!(at(""), None);
        let why = at("some avg10=10.01 avg60=0.00 avg300=0.00 total=5\n").unwrap();
        assert!(why.contains("10.01%") && why.contains("`max_pressure` is 10%"), "{why}");
        assert!(no_pressure(&limits(), dir.path()).is_none());
        assert!(no_pressure(&limits(), Path::new("/nonexistent")).unwrap().contains("hint:"));
        assert!(no_pressure(&Rollout::default(), Path::new("/nonexistent")).is_none());
    }

    #[test]
    fn numbers_of_pressure() {
        for (text, bp) in
            [("0.00", Some(0)), ("12.5", Some(1250)), ("100.00", Some(10_000)), ("x", None)]
        {
            assert_eq!(some_avg10_bp(&format!("some avg10={text} avg60=1.00")), bp, "{text}");
        }
    }

    #[test]
    fn refaults_are_those_of_the_last_minutes() {
        let mut watch = Watch::new(limits(), Path::new("/nonexistent"));
        let start = Instant::now();
        let mut after = |s: u64, done: u64, refaulted: u64| {
            watch.hear("c", &summary(done, refaulted), start + Duration::from_secs(s))
        };
        assert_eq!(after(0, MIB / 2, MIB / 2), None, "too little to tell");
        assert_eq!(after(10, 100 * MIB, 4 * MIB), None);
        let why = after(20, 100 * MIB, 6 * MIB).unwrap();
        assert!(why.contains("`max_refaults` is 5%"), "{why}");
        // The context has begun anew, with little, and the former has been long ago.
        assert_eq!(after(400, MIB * 10, 0), None);
        assert_eq!(after(410, MIB * 10, MIB / 4), None);
        assert!(after(420, MIB * 10, MIB).is_some());
    }

    #[test]
    fn errors_are_those_of_a_minute() {
        let mut watch = Watch::new(limits(), Path::new("/nonexistent"));
        let start = Instant::now();
        let mut after = |s: u64| {
            let trouble = ActEvent::Trouble {
                at: Time(0),
                scheme: "cold".to_owned(),
                pid: 1,
                text: "the kernel said no".to_owned(),
            };
            watch.hear("c", &Event::Act(trouble), start + Duration::from_secs(s))
        };
        assert_eq!([after(0), after(1), after(70), after(71)], [const { None }; 4]);
        let why = after(72).unwrap();
        assert!(why.contains("3 errors in a minute") && why.contains("said no"), "{why}");
        let mut none = Watch::new(Rollout::default(), Path::new("/nonexistent"));
        assert_eq!(none.hear("c", &summary(MIB, MIB), start), None, "there is no limit");
    }
}
