//! The columns of the table: their headings, widths and texts. The screen and the plain text of
//! `--batch` show the same.

use ratatui::style::Style;
use ratatui::text::{Line, Span};

use super::text::{cut, maybe, plain, time, trend, within};
use crate::look::Look;
use crate::model::table::{self, Grouping, SortKey};
use crate::model::{Tiers, Watch};

/// The width of everything but the name, the bar and the trend: PID, RSS, three working sets, age,
/// and what is between the columns.
const FIXED: usize = 7 + 5 + 3 * 6 + 4 + 8;

/// The width of the column that a group has beside its resident memory: the sum over processes.
const SUM: usize = 6;

/// How wide the columns are that grow with the terminal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Widths {
    pub(crate) name: usize,
    pub(crate) sum: usize,
    pub(crate) bar: usize,
    pub(crate) trend: usize,
}

impl Widths {
    /// For a line of `total` characters. Below 80 the trend goes, and then the bar.
    pub(crate) fn of(total: usize, grouping: Grouping) -> Self {
        let rest = total.saturating_sub(FIXED);
        let sum = if grouping != Grouping::Processes && rest >= 56 { SUM } else { 0 };
        let rest = rest - sum;
        // Names of cgroups are long.
        let most = if grouping == Grouping::Processes { 24 } else { 48 };
        let trend = if rest >= 36 { (rest / 5).clamp(7, 16) } else { 0 };
        let bar = if rest >= 24 { (rest / 3).clamp(10, 32) } else { 0 };
        let name = rest.saturating_sub(bar + trend).clamp(4, most);
        Self { name, sum, bar, trend }
    }
}

/// The headings; that of the column that the rows are sorted by has a sign.
pub(crate) fn heading(widths: Widths, grouping: Grouping, key: SortKey) -> String {
    let mark = |name: &str, of: SortKey| {
        if of == key { format!("*{name}") } else { name.to_owned() }
    };
    let name = match grouping {
        Grouping::Processes => "NAME",
        Grouping::Cgroups => "CGROUP",
        Grouping::Units => "UNIT",
        Grouping::Pods => "POD",
        Grouping::Containers => "CONTAINER",
        Grouping::Users => "USER",
    };
    let pid = if grouping == Grouping::Processes { "PID" } else { "PROCS" };
    let Widths { name: name_width, sum, bar, trend } = widths;
    let bar_name = match key {
        SortKey::Cold => "*.COLD",
        SortKey::Unresolved => "*?UNRESOLVED",
        _ if bar < 28 => "#hot .cold ?",
        _ => "#hot +warm .cold ?unresolved",
    };
    format!(
        "{:>7} {:<name_width$} {:>5}{:>sum$} {:>6} {:>6} {:>6} {:<bar$} {:>trend$} {:>4}",
        mark(pid, SortKey::Pid),
        mark(name, SortKey::Name),
        mark("RSS", SortKey::Rss),
        cut("SUM", sum),
        mark("1s", SortKey::Second),
        mark("10s", SortKey::Ten),
        mark("1m", SortKey::Minute),
        cut(bar_name, bar),
        cut("TREND", trend),
        mark("AGE", SortKey::Age),
    )
}

/// A row.
pub(crate) fn row(line: &table::Line<'_>, widths: Widths, look: Look) -> Line<'static> {
    let row = &line.row;
    let Widths { name: name_width, sum, bar, trend: trend_width } = widths;
    let summed = if sum > 0 { maybe(line.summed().rss) } else { String::new() };
    let number = if row.pid == 0 { line.pids.len() } else { row.pid as usize };
    let indent = " ".repeat(line.depth.min(8) * 2);
    let name =
        if row.pid == 0 { tail(&plain(&row.name), name_width) } else { indent + &plain(&row.name) };
    let name = cut(&name, name_width);
    let [second, ten, minute] = row.within.map(|w| within(w, row.watched));
    let start = format!(
        "{number:>7} {name:<name_width$} {:>5}{summed:>sum$} {second:>6} {ten:>6} {minute:>6} ",
        maybe(row.rss)
    );
    let mut spans = vec![Span::raw(start)];
    match &row.watch {
        Watch::Watched if row.tiers.total() > 0 => spans.extend(self::bar(row.tiers, bar, look)),
        Watch::Refused(why) => {
            let why = cut(&format!("not watched: {}", plain(why)), bar + 1 + trend_width);
            spans.push(Span::styled(format!("{why:<bar$}"), look.quiet()));
            return Line::from(spans);
        }
        Watch::Watched | Watch::Waiting => {
            spans.push(Span::styled(format!("{:<bar$}", cut("waiting", bar)), look.quiet()));
        }
    }
    let trend = trend(row, trend_width, look.steps());
    let age = row.age_ns.map_or_else(|| "-".into(), time);
    spans.push(Span::raw(format!(" {trend:>trend_width$} {age:>4}")));
    Line::from(spans)
}

/// The end of a path, which tells more than its beginning.
fn tail(name: &str, width: usize) -> String {
    let nr = name.chars().count();
    if nr <= width {
        return name.to_owned();
    }
    let rest: String = name.chars().skip(nr - width.saturating_sub(1)).collect();
    format!("~{rest}")
}

/// A bar of `width` signs. What there is at all has at least one, if there is room.
pub(crate) fn bar(tiers: Tiers, width: usize, look: Look) -> Vec<Span<'static>> {
    let sizes = [tiers.hot, tiers.warm, tiers.cold, tiers.unresolved];
    let lengths = lengths(sizes, width);
    let parts = lengths.into_iter().zip(look.tiers());
    parts
        .map(|(nr, (sign, style)): (usize, (&str, Style))| Span::styled(sign.repeat(nr), style))
        .collect()
}

/// How many of `width` signs each part gets: by its share, with the largest remainders first.
fn lengths(sizes: [u64; 4], width: usize) -> [usize; 4] {
    let total: u128 = sizes.iter().map(|size| u128::from(*size)).sum();
    if total == 0 || width == 0 {
        return [0; 4];
    }
    let least = sizes.map(|size| usize::from(size > 0));
    let room = width.saturating_sub(least.iter().sum());
    let share = |size: u64| {
        let exact = u128::from(size) * room as u128;
        (usize::try_from(exact / total).unwrap_or(0), exact % total)
    };
    let shares = sizes.map(share);
    let mut out: [usize; 4] = std::array::from_fn(|at| least[at] + shares[at].0);
    let mut by_rest = [0, 1, 2, 3];
    by_rest.sort_by_key(|at| std::cmp::Reverse(shares[*at].1));
    let missing = width.saturating_sub(out.iter().sum());
    by_rest.iter().take(missing).for_each(|at| out[*at] += 1);
    // A bar of fewer signs than there are parts.
    while out.iter().sum::<usize>() > width {
        let smallest = (0..4).filter(|at| out[*at] > 0).min_by_key(|at| sizes[*at]).unwrap_or(0);
        out[smallest] -= 1;
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_fits_the_terminal() {
        for width in [80, 100, 120, 200] {
            for grouping in [Grouping::Processes, Grouping::Cgroups] {
                let widths = Widths::of(width, grouping);
                let heading = heading(widths, grouping, SortKey::Ten);
                assert!(heading.chars().count() <= width, "{width}: {heading:?}");
                assert!(widths.bar >= 10 && widths.trend >= 7 && widths.name >= 12, "{widths:?}");
            }
        }
        assert_eq!(
            Widths::of(0, Grouping::Processes),
            Widths { name: 4, sum: 0, bar: 0, trend: 0 }
        );
    }

    #[test]
    fn a_bar_has_its_width_and_shows_the_smallest_part() {
        for (sizes, width, want) in [
            ([1, 0, 0, 0], 8, [8, 0, 0, 0]),
            ([1, 0, 999_999, 0], 8, [1, 0, 7, 0]),
            ([50, 25, 25, 0], 12, [6, 3, 3, 0]),
            ([1, 1, 1, 97], 2, [0, 0, 0, 2]),
            ([u64::MAX, u64::MAX, 0, 0], 10, [5, 5, 0, 0]),
            ([0, 0, 0, 0], 8, [0, 0, 0, 0]),
        ] {
            let got = lengths(sizes, width);
            if sizes == [1, 1, 1, 97] {
                assert_eq!(got.iter().sum::<usize>(), width);
                assert!(got[3] >= 1);
            } else {
                assert_eq!(got, want, "{sizes:?}");
            }
        }
    }

    #[test]
    fn of_a_path_the_end_is_shown() {
        assert_eq!(tail("/system.slice/redis.service", 14), "~redis.service");
        assert_eq!(tail("/a", 14), "/a");
    }
}
