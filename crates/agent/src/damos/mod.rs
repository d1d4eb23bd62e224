//! Reads schemes in DAMON's historic text formats (R§6.6): a scheme per line, `#` begins a comment.
//!
//! | format | fields | any bound is |
//! |---|---|---|
//! | RFC v6 (2020) | `min_size max_size min_freq max_freq min_age max_age action` | `null`, or 0 |
//! | `damo schemes` | the same 7, or 9, 12, 17 or 18: see below | `min`, `max` |
//! | debugfs | 7 as in RFC v6, or 18, as whole numbers | 0 in the 7, else the type's bounds |
//!
//! In `damo schemes`, 9 fields include a quota, 12 its weights as well, 17 the watermarks as well;
//! 18 are the same with a time quota. A debugfs line has 5 more fields if it was read back: the
//! statistics.
//!
//! Sizes have a unit (B, K, M, G, T), and so have ages (us, ms, s, m, h, d). Frequencies are in
//! percent. Frequencies and ages are converted to samples and windows of the given attributes and
//! rounded down, as DAMON's tools did. All lines of a file have the same format. If no line has
//! `null`, `min` or `max`, it is that of `damo schemes`.
//!
//! Unless `strict`, two defects of the tools are not reproduced. `max` is no bound on the age
//! (there: 2^32 - 1 µs, 71.6 minutes). And in RFC v6 a bound of less than one sample or window
//! stays one (there: it is cut to 0, which means no bound).

mod line;
mod raw;

use std::collections::BTreeMap;

use isotherm_act::apply::Settings;
use isotherm_core::{Attrs, Scheme};

use self::line::{Dialect, Line};
use crate::policy::{SchemePolicy, defaults};
use crate::ready::Confirm;
use crate::text::{TextError, TextErrors};

/// Reads schemes for contexts with these attributes. `name` is what errors call the text: its path.
///
/// # Errors
///
/// All errors in the text, with line and column.
pub fn parse_damos(text: &str, name: &str, attrs: &Attrs) -> Result<Vec<Scheme>, TextErrors> {
    let lines: Vec<Line<'_>> = Line::all(text).collect();
    let mut errors = Vec::new();
    let dialect = Dialect::of(&lines).unwrap_or_else(|error| {
        errors.push(error);
        Dialect::Damo
    });
    let mut schemes = Vec::new();
    // If the format is not clear, further errors would only follow from that.
    if errors.is_empty() {
        for line in &lines {
            match line.scheme(dialect, attrs) {
                Ok(scheme) => schemes.push(scheme),
                Err(wrong) => errors.extend(wrong),
            }
        }
    }
    if lines.is_empty() {
        errors.push(TextError::new(0..0, "no scheme in it"));
    }
    if errors.is_empty() { Ok(schemes) } else { Err(TextErrors::new(name, text, errors)) }
}

/// Adds to schemes what is needed to carry them out. Each gets a name (its action, with a number if
/// there are several), evidence, and a brake if the action takes memory away.
#[must_use]
pub fn with_settings(
    schemes: Vec<Scheme>,
    attrs: &Attrs,
    confirm: Confirm,
    inject: bool,
) -> Vec<SchemePolicy> {
    let mut seen: BTreeMap<&'static str, u32> = BTreeMap::new();
    let named = schemes.into_iter().map(|mut scheme| {
        let action = scheme.action.name();
        let count = seen.entry(action).and_modify(|n| *n += 1).or_insert(1);
        let name = if *count == 1 { action.to_owned() } else { format!("{action}{count}") };
        scheme.quota.brake = match confirm {
            Confirm::Off => None,
            Confirm::ByAge | Confirm::For(_) => defaults::brake(scheme.action),
        };
        let evidence = confirm.evidence(&scheme, attrs);
        let settings = Settings { name, evidence, inject, ..Settings::default() };
        SchemePolicy { scheme, settings }
    });
    named.collect()
}
