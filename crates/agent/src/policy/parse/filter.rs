//! Filters: `"reject anon"`, `"allow addr 0x1000..0x2000"`, `"reject not young"`,
//! `"allow memcg /app"`.

use isotherm_act::apply::Settings;
use isotherm_core::AddrRange;
use isotherm_core::scheme::{Filter, FilterKind, Filters};
use isotherm_core::units;

use super::context::{Over, cgroup_path};
use super::fields::{Entry, Errors, Fields};
use crate::policy::number_of;
use crate::text::{TextError, unknown};

const KINDS: [&str; 11] = [
    "addr",
    "target",
    "anon",
    "active",
    "memcg",
    "young",
    "hugepage_size",
    "unmapped",
    "file",
    "shared",
    "mapping",
];

const FORM: &str = "\"allow KIND\" or \"reject KIND\", with `not` before the kind for all other memory, as in \
    \"reject not young\"";

/// The filters of a scheme.
pub(super) fn filters(
    fields: &Fields<'_>,
    over: Over,
    settings: &mut Settings,
    errors: &mut Errors,
) -> Filters {
    let mut filters = Filters::default();
    let list = fields.maybe("filters", errors, |e| e.list("strings: \"reject anon\""));
    for entry in list.into_iter().flatten() {
        let filter = entry.text().and_then(|text| filter(entry, text, over, settings));
        if let Some(filter) = errors.keep(filter) {
            filters.push(filter);
        }
    }
    filters
}

fn word(text: &str) -> (&str, &str) {
    let text = text.trim();
    text.split_once(char::is_whitespace).map_or((text, ""), |(word, rest)| (word, rest.trim()))
}

fn filter(
    entry: Entry<'_>,
    text: &str,
    over: Over,
    settings: &mut Settings,
) -> Result<Filter, TextError> {
    let (verdict, rest) = word(text);
    let allow = match verdict {
        "allow" => true,
        "reject" => false,
        _ => {
            let what = format!("a filter that begins with `{verdict}`");
            return Err(entry.error(what).hint(FORM));
        }
    };
    let (first, after) = word(rest);
    let (matching, kind, argument) = match first {
        "not" => {
            let (kind, argument) = word(after);
            (false, kind, argument)
        }
        kind => (true, kind, after),
    };
    let kind = self::kind(entry, kind, argument, settings)?;
    fits(entry, kind, over)?;
    Ok(Filter { kind, matching, allow })
}

fn kind(
    entry: Entry<'_>,
    kind: &str,
    argument: &str,
    settings: &mut Settings,
) -> Result<FilterKind, TextError> {
    let plain = match kind {
        "anon" => Some(FilterKind::Anon),
        "active" => Some(FilterKind::Active),
        "young" => Some(FilterKind::Young),
        "file" => Some(FilterKind::File),
        "shared" => Some(FilterKind::Shared),
        "unmapped" => Some(FilterKind::Unmapped),
        _ => None,
    };
    if let Some(plain) = plain {
        return match argument {
            "" => Ok(plain),
            more => {
                Err(entry
                    .error(format!("filter `{kind}` takes nothing more than itself: `{more}`")))
            }
        };
    }
    let need = |example: &str| match argument {
        "" => Err(entry.error(format!("filter `{kind}` without what it is about")).hint(example)),
        argument => Ok(argument),
    };
    Ok(match kind {
        "addr" => FilterKind::Addr(addresses(entry, need("\"addr 0x1000..0x2000\"")?)?),
        "target" => {
            let index = need("\"target 0\": the first of the context")?.parse();
            FilterKind::Target(index.map_err(|_e| entry.error("`target` needs a number, from 0"))?)
        }
        "memcg" => {
            let path = cgroup_path(need("\"memcg /app\"")?).map_err(|what| entry.error(what))?;
            FilterKind::Memcg(number_of(&mut settings.cgroups, path))
        }
        "mapping" => {
            let pattern = need("\"mapping */libc*\": the last column of /proc/PID/maps")?;
            FilterKind::Mapping(number_of(&mut settings.mappings, pattern))
        }
        "hugepage_size" => {
            let (min, max) = sizes(entry, need("\"hugepage_size 2M..1G\"")?)?;
            FilterKind::HugepageSize(min, max)
        }
        "" => return Err(entry.error("a filter without a kind").hint(FORM)),
        other => return Err(unknown(entry.span(), "filter", other, &KINDS)),
    })
}

/// Whether a filter says something about what the context looks at.
fn fits(entry: Entry<'_>, kind: FilterKind, over: Over) -> Result<(), TextError> {
    match (kind, over) {
        (FilterKind::Unmapped, Over::Processes) => Err(entry
            .error("filter `unmapped` says nothing here")
            .why("it is about page cache that no process maps, and the targets are processes")
            .hint("targets = [{ paddr = \"all\" }] looks at physical memory")),
        (FilterKind::Shared | FilterKind::Mapping(_), Over::Memory { .. }) => Err(entry
            .error("a filter by mappings, over physical memory")
            .why("frames have no mappings of their own")
            .hint("filter by memcg, anon, file, unmapped, active, young or hugepage_size")),
        _ => Ok(()),
    }
}

/// `2M..1G`; an end that is left out is no limit.
fn sizes(entry: Entry<'_>, text: &str) -> Result<(u64, u64), TextError> {
    let (min, max) = text.split_once("..").unwrap_or((text, text));
    let end = |text: &str, open| match text.trim() {
        "" if min != max => Ok(open),
        text => units::size(text).map_err(|e| entry.error(e.to_string())),
    };
    let (min, max) = (end(min, 0)?, end(max, u64::MAX)?);
    if max < min { Err(entry.error("the sizes are upside down")) } else { Ok((min, max)) }
}

fn addresses(entry: Entry<'_>, text: &str) -> Result<AddrRange, TextError> {
    let address = |text: &str| {
        let text = text.trim();
        match text.strip_prefix("0x") {
            Some(hex) => u64::from_str_radix(hex, 16).ok(),
            None => text.parse().ok(),
        }
    };
    let ends = text.split_once("..").and_then(|(a, b)| Some((address(a)?, address(b)?)));
    let Some((start, end)) = ends else {
        let error = entry.error(format!("`{text}` is not a range of addresses"));
        return Err(error.hint("as in 0x7f0000000000..0x7f0000200000; the end is outside"));
    };
    if end <= start {
        return Err(entry.error("the range of addresses is empty or upside down"));
    }
    Ok(AddrRange { start, end })
}
