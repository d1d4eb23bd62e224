//! What of a policy may be tuned: numbers with ranges, and what tuning has to keep to.
//!
//! A range is written `SCHEME.KEY=LOW..HIGH`, on the command line and in the list `range` of the
//! table `[tune]` alike. A policy that runs uses none of this, unless it is tuned online.
//!
//! Invariants. The ends of a range differ, and 0 is none of them where steps are factors. Setting a
//! value changes that number only, with one exception: evidence that follows the age by default
//! goes on following it.
//!
//! Not here: which values are tried, and why. That is [`crate::tune`].

use std::fmt;

use isotherm_act::apply::Evidence;
use isotherm_core::scheme::{Action, Age, Bounds, Frequency, Pattern};
use isotherm_core::units::size;
use isotherm_core::units::{interval_us_with_unit, share_bp, show_interval, show_share, show_size};

use super::{ContextPolicy, OnlineTuning, Policy, SchemePolicy, defaults};
use crate::text::nearest;

/// The table `[tune]`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Tuning {
    /// What may be changed, and how far.
    pub ranges: Vec<Range>,
    /// How much slower the targets may become, in basis points; none: as the user of it says.
    pub max_slowdown_bp: Option<u32>,
    /// How many percent of memory one percent of slowdown is worth; none: as the user of it says.
    pub weight: Option<u32>,
    /// How the policy is tuned while it runs; none: it is not.
    pub online: Option<OnlineTuning>,
}

/// The score's weight of slowdown, if nobody gives one.
const WEIGHT: u32 = 2;
/// The largest slowdown, if nobody gives one, in basis points.
const MAX_SLOWDOWN_BP: u32 = 200;

impl Tuning {
    /// The largest slowdown that is allowed, as a share.
    #[must_use]
    pub fn max_slowdown(&self) -> f64 {
        f64::from(self.max_slowdown_bp.unwrap_or(MAX_SLOWDOWN_BP)) / 10_000.0
    }

    /// What slowdown weighs against memory in the score.
    #[must_use]
    pub fn weight(&self) -> f64 {
        f64::from(self.weight.unwrap_or(WEIGHT))
    }
}

/// A number of a scheme that can be tuned.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Key {
    /// The least age, in µs.
    Age,
    /// The quota's bytes per interval.
    QuotaSize,
    /// The quota's time per interval, in ms.
    QuotaTime,
    /// The upper bound of the frequency, in basis points.
    Frequency,
    /// The least share of a huge page that is in use, in basis points.
    MinTouched,
    /// For how long pages are confirmed, in µs.
    Confirm,
}

/// All keys as they are written, longest first where one ends like another.
const KEYS: [(&str, Key); 6] = [
    ("age", Key::Age),
    ("quota.size", Key::QuotaSize),
    ("quota.time", Key::QuotaTime),
    ("frequency", Key::Frequency),
    ("min_touched", Key::MinTouched),
    ("confirm", Key::Confirm),
];

impl Key {
    /// As it is written.
    #[must_use]
    pub fn name(self) -> &'static str {
        KEYS.iter().find(|(_, key)| *key == self).map_or("", |(name, _)| name)
    }

    /// Whether steps are factors: times and bytes. Shares have steps of equal size.
    #[must_use]
    pub const fn is_log(self) -> bool {
        matches!(self, Self::Age | Self::QuotaSize | Self::QuotaTime | Self::Confirm)
    }

    fn read(self, text: &str) -> Result<u64, String> {
        let value = match self {
            Self::Age | Self::Confirm => interval_us_with_unit(text),
            Self::QuotaTime => interval_us_with_unit(text).map(|us| us / 1000),
            Self::QuotaSize => size(text),
            Self::Frequency | Self::MinTouched => share_bp(text),
        };
        let value = value.map_err(|err| format!("`{text}`: {err}"))?;
        if !self.is_log() && value > 10_000 {
            return Err(format!("`{text}` is more than 100%"));
        }
        Ok(value)
    }

    /// A value, with its unit.
    #[must_use]
    pub fn show(self, value: u64) -> String {
        match self {
            Self::Age | Self::Confirm => show_interval(value),
            Self::QuotaTime => show_interval(value.saturating_mul(1000)),
            Self::QuotaSize => show_size(value),
            Self::Frequency | Self::MinTouched => show_share(value),
        }
    }
}

/// A number of the schemes with this name, and between which values it may be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Range {
    /// The scheme's name, in whichever contexts have one.
    pub scheme: String,
    /// Which number.
    pub key: Key,
    /// The smallest value, in the key's unit.
    pub low: u64,
    /// The largest value.
    pub high: u64,
}

impl fmt::Display for Range {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { scheme, key, low, high } = self;
        write!(f, "{scheme}.{}={}..{}", key.name(), key.show(*low), key.show(*high))
    }
}

impl Range {
    /// Reads `SCHEME.KEY=LOW..HIGH`.
    ///
    /// # Errors
    ///
    /// What is wrong with it, for people.
    pub fn parse(text: &str) -> Result<Self, String> {
        let shape = || format!("`{text}` is not SCHEME.KEY=LOW..HIGH, as cold.age=1s..60s");
        let (name, values) = text.split_once('=').ok_or_else(shape)?;
        let (name, values) = (name.trim(), values.trim());
        let known = KEYS.iter().find_map(|(word, key)| {
            let scheme = name.strip_suffix(word)?.strip_suffix('.')?;
            (!scheme.is_empty()).then_some((scheme, *key))
        });
        let Some((scheme, key)) = known else {
            let (_, word) = name.split_once('.').ok_or_else(shape)?;
            let words = KEYS.map(|(word, _)| word);
            let near = nearest(word, words).map(|near| format!("; did you mean `{near}`?"));
            let near = near.unwrap_or_else(|| format!("; known: {}", words.join(", ")));
            return Err(format!("unknown key `{word}` in `{name}`{near}"));
        };
        let (low, high) = values.split_once("..").ok_or_else(shape)?;
        let (low, high) = (key.read(low.trim())?, key.read(high.trim())?);
        if low >= high {
            return Err(format!("the range of `{name}` is empty: {values}"));
        }
        if key.is_log() && low == 0 {
            return Err(format!("the range of `{name}` begins at 0, which no factor leaves"));
        }
        Ok(Self { scheme: scheme.to_owned(), key, low, high })
    }

    /// Fails if the policy has no such scheme, or the number means nothing for its action.
    ///
    /// # Errors
    ///
    /// What does not fit, for people.
    pub fn check(&self, policy: &Policy) -> Result<(), String> {
        let all = || policy.contexts.iter().flat_map(|c| &c.schemes);
        let mut mine = all().filter(|s| s.settings.name == self.scheme).peekable();
        if mine.peek().is_none() {
            let names: Vec<_> = all().map(|s| s.settings.name.as_str()).collect();
            let names = names.join(", ");
            return Err(format!("`{self}`: no scheme `{}`; there are: {names}", self.scheme));
        }
        mine.try_for_each(|scheme| self.fits(scheme).map_err(|why| format!("`{self}`: {why}")))
    }

    fn fits(&self, policy: &SchemePolicy) -> Result<(), String> {
        let SchemePolicy { scheme, settings } = policy;
        let action = scheme.action;
        match self.key {
            Key::MinTouched if !matches!(action, Action::Collapse | Action::Hugepage) => {
                Err(format!("action `{}` does not use `min_touched`", action.name()))
            }
            Key::Confirm if settings.evidence == Evidence::Off => {
                Err("the scheme has no evidence to confirm".to_owned())
            }
            Key::Age => match scheme.pattern.age {
                Age::Micros(age) if age.max < self.high => {
                    Err(format!("the scheme's age ends at {}", show_interval(age.max)))
                }
                _ => Ok(()),
            },
            Key::Frequency => match scheme.pattern.nr_accesses {
                Frequency::Bp(bp) if u64::from(bp.min) > self.low => {
                    Err(format!("the scheme's frequency begins at {}", show_share(bp.min.into())))
                }
                frequency if frequency == Pattern::ALL.nr_accesses => Ok(()),
                Frequency::Samples(_) => {
                    Err("the scheme's frequency is in samples; write it in %".to_owned())
                }
                Frequency::Bp(_) => Ok(()),
            },
            _ => Ok(()),
        }
    }

    /// The value that the policy has now; none if it has no limit there.
    #[must_use]
    pub fn get(&self, policy: &Policy) -> Option<u64> {
        let all = policy.contexts.iter().flat_map(|c| c.schemes.iter().map(move |s| (c, s)));
        let (context, policy) = all.into_iter().find(|(_, s)| s.settings.name == self.scheme)?;
        let SchemePolicy { scheme, settings } = policy;
        match self.key {
            Key::Age => Some(min_age_us(context, policy)),
            Key::QuotaSize => Some(scheme.quota.sz).filter(|sz| *sz != 0),
            Key::QuotaTime => Some(scheme.quota.ms).filter(|ms| *ms != 0),
            Key::Frequency => match scheme.pattern.nr_accesses {
                Frequency::Bp(bp) => Some(bp.max.into()).filter(|bp| *bp <= 10_000),
                Frequency::Samples(_) => None,
            },
            Key::MinTouched => Some(settings.min_touched_bp.into()),
            Key::Confirm => Some(confirm_us(policy)).filter(|us| *us != 0),
        }
    }

    /// Sets the value in every scheme of this name.
    pub fn set(&self, policy: &mut Policy, value: u64) {
        for context in &mut policy.contexts {
            let attrs = context.attrs;
            let mine = context.schemes.iter_mut().filter(|s| s.settings.name == self.scheme);
            for SchemePolicy { scheme, settings } in mine {
                let share = u32::try_from(value).unwrap_or(u32::MAX);
                let before = scheme.quota.clone();
                match self.key {
                    Key::Age => {
                        let usual = defaults::evidence(&scheme.pattern, &attrs);
                        let max = match scheme.pattern.age {
                            Age::Micros(age) => age.max,
                            Age::Windows(_) => u64::MAX,
                        };
                        scheme.pattern.age = Age::Micros(Bounds::new(value, max));
                        if settings.evidence == usual {
                            settings.evidence = defaults::evidence(&scheme.pattern, &attrs);
                        }
                    }
                    Key::QuotaSize => scheme.quota.sz = value,
                    Key::QuotaTime => scheme.quota.ms = value,
                    Key::Frequency => {
                        let min = match scheme.pattern.nr_accesses {
                            Frequency::Bp(bp) => bp.min,
                            Frequency::Samples(_) => 0,
                        };
                        scheme.pattern.nr_accesses = Frequency::Bp(Bounds::new(min, share));
                    }
                    Key::MinTouched => settings.min_touched_bp = share,
                    Key::Confirm => settings.evidence = Evidence::Confirm(value),
                }
                if scheme.quota != before && before.reset_interval_ms == 0 {
                    scheme.quota.reset_interval_ms = defaults::QUOTA_INTERVAL_MS;
                }
            }
        }
    }
}

/// The least age of a scheme, in µs.
#[must_use]
pub fn min_age_us(context: &ContextPolicy, policy: &SchemePolicy) -> u64 {
    match policy.scheme.pattern.age {
        Age::Micros(age) => age.min,
        Age::Windows(age) => u64::from(age.min).saturating_mul(context.attrs.aggr_us),
    }
}

/// For how long a scheme confirms pages, in µs; 0 without evidence.
#[must_use]
pub const fn confirm_us(policy: &SchemePolicy) -> u64 {
    match policy.settings.evidence {
        Evidence::Confirm(us) => us,
        Evidence::Off => 0,
    }
}

/// The ranges for a policy that names none: the age of what is paged out, from 1 s to 60 s, and the
/// share in use of what is made huge, from 12 to 95 %. They are wider where the policy's own value
/// is outside.
#[must_use]
pub fn usual_ranges(policy: &Policy) -> Vec<Range> {
    let mut ranges: Vec<Range> = Vec::new();
    for scheme in policy.contexts.iter().flat_map(|c| &c.schemes) {
        let (key, low, high) = match scheme.scheme.action {
            Action::Pageout => (Key::Age, 1_000_000, 60_000_000),
            Action::Collapse | Action::Hugepage => (Key::MinTouched, 1_200, 9_500),
            _ => continue,
        };
        let mut range = Range { scheme: scheme.settings.name.clone(), key, low, high };
        if let Some(own) = range.get(policy).filter(|own| *own > 0) {
            (range.low, range.high) = (low.min(own), high.max(own));
        }
        if !ranges.contains(&range) && range.check(policy).is_ok() {
            ranges.push(range);
        }
    }
    ranges
}

#[cfg(test)]
mod tests {
    use super::super::{parse, print};
    use super::*;

    const POLICY: &str = "[[context]]\nname = \"c\"\ntargets = [{ pid = 1 }]\n\
                          [[context.scheme]]\nname = \"cold\"\naction = \"pageout\"\nage = \"5s..\"\n";

    fn policy(more: &str) -> Policy {
        parse(&format!("{POLICY}{more}"), "p").unwrap()
    }

    #[test]
    fn ranges_are_read_as_they_are_written() {
        for text in [
            "cold.age=1s..60s",
            "cold.quota.size=16M..1G",
            "cold.quota.time=5ms..100ms",
            "a.b.frequency=0%..20%",
            "huge.min_touched=10%..90%",
            "cold.confirm=1s..10s",
        ] {
            assert_eq!(Range::parse(text).unwrap().to_string(), text);
        }
        for (text, part) in [
            ("cold.age", "is not SCHEME.KEY"),
            ("cold.agee=1s..2s", "did you mean `age`?"),
            ("cold.age=2s..1s", "is empty"),
            ("cold.age=2s..2s", "is empty"),
            ("cold.age=0s..1s", "begins at 0"),
            ("cold.age=1..2", "`1`"),
            ("cold.frequency=0%..200%", "more than 100%"),
            (".age=1s..2s", "unknown key"),
        ] {
            let err = Range::parse(text).unwrap_err();
            assert!(err.contains(part), "{text}: {err}");
        }
    }

    #[test]
    fn a_value_is_set_and_nothing_else() {
        let plain = policy("");
        for (text, value) in [
            ("cold.age=1s..60s", 7_000_000),
            ("cold.quota.size=16M..1G", 32 << 20),
            ("cold.quota.time=5ms..100ms", 20),
            ("cold.frequency=0%..20%", 500),
            ("cold.confirm=1s..10s", 2_000_000),
        ] {
            let range = Range::parse(text).unwrap();
            range.check(&plain).unwrap();
            let mut changed = plain.clone();
            range.set(&mut changed, value);
            if range.key == Key::Frequency {
                // A scheme without frequency takes any.
                assert_eq!(range.get(&plain), None);
            }
            assert_eq!(range.get(&changed), Some(value), "{text}");
            // What was set is what a file says.
            assert_eq!(parse(&print(&changed), "p").unwrap(), changed, "{text}");
            if let Some(before) = range.get(&plain) {
                range.set(&mut changed, before);
                assert_eq!(changed, plain, "{text}");
            }
        }
        // Evidence that was given stays; that by default follows the age.
        let age = Range::parse("cold.age=1s..60s").unwrap();
        let confirm = Range::parse("cold.confirm=1s..60s").unwrap();
        for (more, expected) in [("", 20_000_000), ("evidence = { confirm = \"3s\" }\n", 3_000_000)]
        {
            let mut policy = policy(more);
            age.set(&mut policy, 20_000_000);
            assert_eq!(confirm.get(&policy), Some(expected));
        }
    }

    #[test]
    fn the_table_is_read_printed_and_checked() {
        let plain = policy("");
        assert_eq!(plain.tuning, Tuning::default());
        assert!(!print(&plain).contains("tune"));
        let table = "[tune]\nrange = [\"cold.age=1s..30s\"]\nmax_slowdown = \"1%\"\nweight = 3\n";
        let tuned = policy(table);
        assert_eq!(tuned.contexts, plain.contexts);
        assert_eq!(tuned.tuning.ranges, [Range::parse("cold.age=1s..30s").unwrap()]);
        assert_eq!((tuned.tuning.max_slowdown_bp, tuned.tuning.weight), (Some(100), Some(3)));
        assert_eq!(parse(&print(&tuned), "p").unwrap(), tuned);
        for (table, parts) in [
            ("[tune]\nrnage = []\n", ["p:9:1", "unknown key `rnage`"]),
            ("[tune]\nrange = [\"warm.age=1s..2s\"]\n", ["p:9:10", "no scheme `warm`"]),
            ("[tune]\nrange = [\"cold.min_touched=1%..2%\"]\n", ["p:9:10", "does not use"]),
            ("[tune]\nrange = [\"cold.age=2s..2s\"]\n", ["p:9:10", "is empty"]),
            ("[tune]\nevery = \"5m\"\n", ["p:9:9", "without `online`"]),
            ("[tune]\nonline = 1\n", ["p:9:10", "true or false"]),
            ("[tune]\nonline = true\nevery = \"0s\"\n", ["p:10:9", "left alone"]),
            ("[tune]\nonline = true\nphase = \"0s\"\n", ["p:10:9", "in no time"]),
            ("[tune]\nonline = true\npsi = true\nprogress = \"f\"\n", ["p:10:7", "one measure"]),
            ("[tune]\nonline = true\nstate = \"\"\n", ["p:10:9", "is empty"]),
            (
                "[tune]\nonline = true\nrange = [\"cold.quota.time=1ms..90ms\", \"cold.age=6s..9s\"]\n",
                ["p:10:39", "begins with 5s"],
            ),
        ] {
            let err = parse(&format!("{POLICY}{table}"), "p").unwrap_err().to_string();
            for part in parts {
                assert!(err.contains(part), "no {part} in {err}");
            }
        }
    }

    #[test]
    fn online_tuning_is_read_printed_and_refused_where_no_step_can_be_measured() {
        let online = |more: &str| policy(&format!("[tune]\nonline = true\n{more}"));
        assert_eq!(online("").tuning.online, Some(OnlineTuning::default()));
        assert_eq!(policy("[tune]\nonline = false\nevery = \"1h\"\n").tuning, Tuning::default());
        for measure in
            ["psi = true", "progress = \"f\"", "progress_cmd = \"c\"", "latency_cmd = \"l\""]
        {
            let more = format!("every = \"1h\"\nphase = \"1m\"\n{measure}\nstate = \"s\"\n");
            let tuned = online(&more);
            let text = print(&tuned);
            assert!(text.contains(measure), "{text}");
            assert_eq!(parse(&text, "p").unwrap(), tuned, "{text}");
            let tuning = tuned.tuning.online.unwrap();
            assert_eq!((tuning.every_us, tuning.phase_us), (3_600_000_000, 60_000_000));
        }
        let of = |text: &str| parse(text, "p").unwrap_err().to_string();
        let tune = "[tune]\nonline = true\n";
        for (from, to, part) in [
            ("pageout", "stat", "nothing to tune"),
            ("pageout", "collapse", "does not show in the share of memory that is out of RAM"),
            ("age = ", "dry_run = true\nage = ", "is a dry run"),
            ("name = \"c\"", "name = \"c\"\nops = \"kdamond\"", "kernel's DAMON applies"),
            ("{ pid = 1 }", "{ paddr = \"all\" }", "physical memory"),
        ] {
            let err = of(&format!("{}{tune}", POLICY.replacen(from, to, 1)));
            assert!(err.contains(part) && err.contains("why:"), "{err}");
        }
    }

    #[test]
    fn without_ranges_the_age_of_what_is_paged_out_is_tuned() {
        let shown = |more: &str| -> Vec<String> {
            usual_ranges(&policy(more)).iter().map(ToString::to_string).collect()
        };
        assert_eq!(shown(""), ["cold.age=1s..60s"]);
        let huge = "[[context.scheme]]\nname = \"huge\"\naction = \"collapse\"\n";
        assert_eq!(shown(huge), ["cold.age=1s..60s", "huge.min_touched=12%..95%"]);
        assert!(usual_ranges(&Policy::default()).is_empty());
    }
}
