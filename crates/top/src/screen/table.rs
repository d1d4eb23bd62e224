//! The table of processes or groups.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::text::{Line, Span};

use super::columns::{self, Widths};
use super::put;
use super::text::{clock, maybe, percent, size, within};
use crate::app::App;
use crate::look::Look;
use crate::model::table::{Line as TableLine, total};
use crate::model::{Watch, World};

/// Lines above the rows.
const HEAD: usize = 4;

/// Draws the table; scrolls so far that the selected row shows.
pub(super) fn draw(app: &mut App, area: Rect, buf: &mut Buffer) {
    let rows = usize::from(area.height).saturating_sub(HEAD).max(1);
    let lines = app.lines();
    let selected = app.selection(&lines);
    let last = lines.len().saturating_sub(rows);
    let scroll = app.scroll.clamp((selected + 1).saturating_sub(rows), selected).min(last);

    let look = app.look;
    for (at, line) in head(&app.world, &lines, look, app.is_frozen).into_iter().enumerate() {
        put(buf, area, at, line);
    }
    let widths = Widths::of(area.width.into(), app.order.grouping);
    let heading = columns::heading(widths, app.order.grouping, app.order.key);
    let width = usize::from(area.width);
    put(buf, area, HEAD - 1, Line::styled(format!("{heading:<width$}"), look.heading()));
    for (at, line) in lines.iter().enumerate().skip(scroll).take(rows) {
        let mut text = columns::row(line, widths, look);
        if at == selected {
            text = text.patch_style(look.selected());
        }
        put(buf, area, HEAD + at - scroll, text);
    }
    if lines.is_empty() {
        let why = if app.order.filter.is_empty() {
            "no process yet"
        } else {
            "nothing matches the filter"
        };
        put(buf, area, HEAD, Line::styled(why, look.quiet()));
    }
    app.scroll = scroll;
}

/// The three lines above the heading.
pub(crate) fn head(
    world: &World,
    lines: &[TableLine<'_>],
    look: Look,
    is_frozen: bool,
) -> [Line<'static>; 3] {
    let head = &world.head;
    let mut first = vec![Span::styled("isotherm top", look.title())];
    match world.position {
        Some(position) => {
            let state = if position.is_playing { "" } else { "  stopped" };
            let (at, all) = (clock(position.at_ns), clock(position.length_ns));
            first.push(Span::styled(format!("  at {at} of {all}{state}"), look.title()));
        }
        None if is_frozen => first.push(Span::styled("  FROZEN (space)", look.warning())),
        None => {}
    }
    let (sum, over_processes) = total(lines, world);
    first.push(Span::raw(format!("  {}", counts(lines))));
    if let Some(plain) = over_processes {
        let ten = within(plain.within[1], plain.watched);
        let text = format!("  (sum over processes: 10s {ten} of {})", maybe(plain.rss));
        first.push(Span::styled(text, look.quiet()));
    }
    let [second, ten, minute] = sum.within.map(|w| within(w, sum.watched));
    let unresolved = size(sum.tiers.unresolved);
    let rss = maybe(sum.rss);
    let sums = format!(
        "working set 1s {second}  10s {ten}  1m {minute}  of {rss}, unresolved {unresolved}"
    );
    let mut third = Vec::new();
    if let Some(used) = head.used_bp {
        let style = if used > head.budget_bp { look.warning() } else { look.quiet() };
        let mean = head.mean_bp.map_or_else(String::new, |bp| format!(", mean {}", percent(bp)));
        let budget = percent(head.budget_bp);
        let own = size(head.own_rss);
        third.push(Span::styled(
            format!("own CPU {}{mean}, budget {budget}, {own}  ", percent(used)),
            style,
        ));
    }
    third.push(Span::styled(head.set.clone(), look.quiet()));
    if !head.note.is_empty() {
        third.push(Span::styled(format!("  {}", head.note), look.warning()));
    }
    [Line::from(first), Line::raw(sums), Line::from(third)]
}

/// How many processes there are, and how many are not watched yet or cannot be.
fn counts(lines: &[TableLine<'_>]) -> String {
    let all: usize = lines.iter().map(|line| line.pids.len()).sum();
    let refused: usize = lines.iter().map(|line| line.refused).sum();
    let waiting = lines.iter().filter(|line| line.row.watch == Watch::Waiting).count();
    let plural = if all == 1 { "process" } else { "processes" };
    let mut text = format!("{all} {plural}");
    if refused > 0 {
        text += &format!(", {refused} not watched");
    }
    if waiting > 0 {
        text += &format!(", {waiting} waiting");
    }
    text
}
