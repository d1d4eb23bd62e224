//! What the terminal shows, as functions of the application's state.

pub(crate) mod columns;
mod detail;
mod help;
pub(crate) mod table;
pub(crate) mod text;

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::text::Line;

use crate::app::{App, Page, Prompt};

/// Draws everything. It never panics, however small the area is.
pub(crate) fn draw(app: &mut App, area: Rect, buf: &mut Buffer) {
    if area.height == 0 || area.width == 0 {
        return;
    }
    let [body, foot] = split_foot(area);
    if app.help {
        help::draw(app, body, buf);
    } else {
        match app.page {
            Page::Table => table::draw(app, body, buf),
            Page::Detail(pid) => detail::draw(app, pid, body, buf),
        }
    }
    put(buf, foot, 0, foot_line(app));
}

fn split_foot(area: Rect) -> [Rect; 2] {
    let height = area.height - 1;
    [Rect { height, ..area }, Rect { y: area.y + height, height: 1, ..area }]
}

/// Writes a line into the row `at` of an area, if there is such a row.
pub(crate) fn put(buf: &mut Buffer, area: Rect, at: usize, line: Line<'_>) {
    if let Some(y) = u16::try_from(at).ok().filter(|at| *at < area.height) {
        buf.set_line(area.x, area.y + y, &line, area.width);
    }
}

/// Keys, or what is being typed, or a message.
fn foot_line(app: &App) -> Line<'static> {
    let look = app.look;
    match &app.prompt {
        Some(Prompt::Filter(text)) => {
            return Line::raw(format!("filter: {text}_   (Enter keeps it, Esc shows all)"));
        }
        Some(Prompt::Time(text)) => {
            return Line::raw(format!(
                "go to, from the record's beginning: {text}_   (90s, 5m; Esc: stay)"
            ));
        }
        None => {}
    }
    if !app.message.is_empty() {
        return Line::styled(app.message.clone(), look.warning());
    }
    let time = if app.world.position.is_some() { "  <-/-> [ ] { } t time" } else { "" };
    let keys = match app.page {
        _ if app.help => "any key: back   q quit".to_owned(),
        Page::Table => {
            format!(
                "q quit  ? help  s sort  / filter  v tree  c cgroups  u units  Enter open{time}"
            )
        }
        Page::Detail(_) => format!("q quit  Esc back  space freeze  ? help{time}"),
    };
    Line::styled(keys, look.quiet())
}

#[cfg(test)]
mod tests;
