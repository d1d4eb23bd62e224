//! One target: its heat over time, its mappings by heat, ages, and what could be saved.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::text::{Line, Span};

use super::columns::bar;
use super::put;
use super::text::{clock, cut, maybe, plain, size, time, within};
use crate::app::App;
use crate::look::Look;
use crate::model::detail::{Detail, Level};
use crate::model::tally::Ages;
use crate::model::{Row, Watch};

/// The width of the addresses beside the heatmap.
const ADDRESS: usize = 15;

pub(super) fn draw(app: &App, pid: u32, area: Rect, buf: &mut Buffer) {
    let look = app.look;
    let row = app.world.rows.iter().find(|row| row.pid == pid);
    let mut at = 0;
    let mut line = |line: Line<'_>| {
        put(buf, area, at, line);
        at += 1;
    };
    let Some(row) = row else {
        line(Line::styled(format!("process {pid} has ended (Esc: back)"), look.warning()));
        return;
    };
    line(title(app, row));
    line(Line::raw(sums(row)));
    if let Watch::Refused(why) = &row.watch {
        line(Line::styled(format!("not watched: {}", plain(why)), look.warning()));
    }
    let Some(detail) = app.world.detail.as_ref().filter(|detail| detail.pid == pid) else {
        line(Line::styled("looking ...", look.quiet()));
        return;
    };
    let width = usize::from(area.width);
    // What is below the heatmap has 11 lines on the smallest terminal; what is more is shared.
    let rest = usize::from(area.height).saturating_sub(at_least(row) + 1);
    let mappings = detail.mappings.len().min((rest / 3).max(3));
    let height = rest.saturating_sub(mappings + 6);
    for text in heat(detail, height, width, look) {
        line(text);
    }
    line(Line::styled(format!("{:<width$}", "MAPPINGS, the hottest first"), look.heading()));
    for mapping in detail.mappings.iter().take(mappings) {
        let tiers = mapping.tiers;
        let label = cut(&plain(&mapping.label), 22);
        let start = format!("{label:<22} {:<9} {:>5} ", mapping.kind, size(tiers.total()));
        let mut spans = vec![Span::raw(start)];
        let length = width.saturating_sub(40).min(40);
        spans.extend(bar(tiers, length, look));
        line(Line::from(spans));
    }
    let more = detail.mappings.len() - mappings;
    if more > 0 {
        line(Line::styled(format!("and {more} more"), look.quiet()));
    }
    for text in ages(&detail.ages) {
        line(Line::raw(text));
    }
    for text in saving(app, row, detail) {
        line(Line::raw(text));
    }
}

/// Lines above the heatmap.
fn at_least(row: &Row) -> usize {
    2 + usize::from(matches!(row.watch, Watch::Refused(_)))
}

fn title(app: &App, row: &Row) -> Line<'static> {
    let look = app.look;
    let name = plain(&row.name);
    let mut spans = vec![Span::styled(format!("{} {name}", row.pid), look.title())];
    if !row.cgroup.is_empty() {
        spans.push(Span::styled(format!("  {}", plain(&row.cgroup)), look.quiet()));
    }
    if let Some(position) = app.world.position {
        let (at, all) = (clock(position.at_ns), clock(position.length_ns));
        spans.push(Span::styled(format!("  at {at} of {all}"), look.title()));
    } else if app.is_frozen {
        spans.push(Span::styled("  FROZEN (space)", look.warning()));
    }
    Line::from(spans)
}

fn sums(row: &Row) -> String {
    let [second, ten, minute] = row.within.map(|w| within(w, row.watched));
    let age = row.age_ns.map_or_else(String::new, |age| format!("  looked at {} ago", time(age)));
    let rss = maybe(row.rss);
    format!("RSS {rss}  working set 1s {second}  10s {ten}  1m {minute}{age}")
}

/// The heatmap, with its legend.
fn heat(detail: &Detail, height: usize, width: usize, look: Look) -> Vec<Line<'static>> {
    if height < 2 {
        return Vec::new();
    }
    let columns = width.saturating_sub(ADDRESS + 1);
    let span = detail.heat.step_ns.saturating_mul(detail.heat.len().min(columns) as u64);
    let legend = format!(
        "HEAT, {} to now, by address: 0% . : - = + * # % @ 100% touched, ? unknown",
        time(span)
    );
    let mut out = vec![Line::styled(format!("{:<width$}", cut(&legend, width)), look.heading())];
    let grid = detail.heat.grid(height - 1, columns);
    if grid.is_empty() {
        out.push(Line::styled("nothing was seen yet", look.quiet()));
    }
    for (start, levels) in grid {
        let mut spans = vec![Span::styled(format!("{start:>ADDRESS$x} "), look.quiet())];
        spans.extend(levels.iter().map(|level| match level {
            Level::Absent => Span::raw(" "),
            Level::Unknown => Span::styled("?", look.tiers()[3].1),
            Level::Touched(level) => {
                let (sign, style) = look.heat(*level);
                Span::styled(sign.to_string(), style)
            }
        }));
        out.push(Line::from(spans));
    }
    out.resize(height, Line::default());
    out
}

fn ages(ages: &Ages) -> [String; 2] {
    let Ages { touched: [second, ten, minute], minute: older, idle, unresolved } = *ages;
    let [second, ten, minute, older] = [second, ten, minute, older].map(size);
    [
        format!("AGES  touched within 1s {second}  10s {ten}  1m {minute}  longer ago {older}"),
        format!(
            "      idle, but not watched for a minute yet {}  unresolved {}",
            size(idle),
            size(unresolved)
        ),
    ]
}

/// What `reclaim` would find now. It looks at every page again before it acts.
fn saving(app: &App, row: &Row, detail: &Detail) -> [String; 2] {
    let [anonymous, file] = detail.idle;
    let swap = match app.world.head.swap_free {
        Some(free) if free < anonymous => format!(" (swap has {} free)", size(free)),
        _ => String::new(),
    };
    let (anonymous, file, pid) = (size(anonymous), size(file), row.pid);
    [
        format!("RECLAIM  idle for a minute: {anonymous} anonymous{swap}, {file} of files"),
        format!("         isotherm reclaim -p {pid} --age 1m --dry-run   (needs top to end first)"),
    ]
}
