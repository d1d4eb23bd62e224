//! The table as plain text, for scripts and logs.

use std::io::{self, Write};

use crate::app::{App, Start};
use crate::model::World;
use crate::screen::columns::{self, Widths};
use crate::screen::table;

/// The width of a line.
const WIDTH: usize = 120;

/// Writes the table of a world: three lines about all, the headings, and every row.
///
/// # Errors
///
/// What `out` says.
pub fn batch(world: World, start: &Start, out: &mut impl Write) -> io::Result<()> {
    let mut app = App::new(start.clone());
    app.take(world);
    let lines = app.lines();
    for line in table::head(&app.world, &lines, app.look, false) {
        writeln!(out, "{}", line.to_string().trim_end())?;
    }
    let order = &app.order;
    let widths = Widths::of(WIDTH, order.grouping);
    writeln!(out, "{}", columns::heading(widths, order.grouping, order.key).trim_end())?;
    for line in &lines {
        writeln!(out, "{}", columns::row(line, widths, app.look).to_string().trim_end())?;
    }
    Ok(())
}
