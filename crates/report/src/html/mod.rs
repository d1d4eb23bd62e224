//! `report html`: a whole record as one page for a browser, to be sent to somebody.
//!
//! The page is one file. It asks for nothing from a network, and says so to the browser (its
//! content security policy forbids it). It has a heatmap to zoom into, page maps where the record
//! has them, the working set with its intervals, actions and refaults from an event log, mappings,
//! ages, warnings, and how all of it was measured. Style and scripts are files of their own in
//! `page/`.
//!
//! **What comes from the record is data, never markup.** Names of processes and files are in one
//! JSON block, in which `<`, `>` and `&` are escaped, and the script puts them into the page as
//! text. Only the title is written into the markup itself, escaped.
//!
//! **It fits.** The record is read twice as a stream. The sizes of all parts are bounded, whatever
//! the length of the record: cells and page maps are compressed and made coarser until they fit,
//! series are averaged, lists are cut and say so.

mod actions;
mod document;
mod grid;
mod packed;
mod page_frames;
mod series;

use std::collections::BTreeMap;
use std::io::BufRead;

use isotherm_core::{Cost, TargetId};
use isotherm_record::Record;

use self::document::Document;
use self::grid::Grid;
use self::page_frames::Shots;
use self::series::{Gaps, seconds};
use crate::error::Error;
use crate::filter::Filter;
use crate::heatmap::{Options, Surveys};
use crate::scan::Scan;
use crate::{ages, mappings, wss};

/// Most columns of the heatmap, and its rows in all panels together.
const COLUMNS: (usize, usize) = (120, 1800);
const ROWS: usize = 320;
/// Least number of rows of an area.
const MIN_ROWS: usize = 4;

const PAGE: &str = include_str!("page/page.html");
const STYLE: &str = include_str!("page/style.css");
/// The scripts, in the order in which they are needed.
const SCRIPTS: [&str; 7] = [
    include_str!("page/data.js"),
    include_str!("page/view.js"),
    include_str!("page/heatmap.js"),
    include_str!("page/pages.js"),
    include_str!("page/charts.js"),
    include_str!("page/tables.js"),
    include_str!("page/main.js"),
];

/// The page.
#[derive(Debug)]
pub struct Report {
    document: Document,
}

/// What the first pass collects.
#[derive(Default)]
struct First {
    surveys: Surveys,
    wss: wss::Build,
    ages: ages::Build,
    gaps: Gaps,
    cost: Cost,
}

impl Report {
    /// Reads a record, twice. `events`: the event log of a command that acted at that time.
    ///
    /// # Errors
    ///
    /// If the record or the log cannot be read, no snapshot passes the filter, or the log holds no
    /// events.
    pub fn build(
        record: &Record,
        filter: &Filter,
        events: Option<impl BufRead>,
    ) -> Result<Self, Error> {
        let mut first = First::default();
        let scan = Scan::run(record, filter, |scan, s| {
            first.surveys.add(scan, s, filter);
            first.wss.add(scan, s, filter);
            first.ages.add(scan, s, filter);
            let (from, to) = (s.start.0, s.watched_from().0);
            first.gaps.add(scan.since_start(from), scan.since_start(to));
            first.cost.add(&s.cost);
            Ok(())
        })?;
        let time = scan.seen_ns.unwrap_or_default();
        let actions = events.map(|log| actions::read(log, time, scan.origin_ns)).transpose()?;
        let columns = crate::numbers::to_usize(crate::shown::float(scan.taken));
        let options = Options {
            columns: columns.clamp(COLUMNS.0, COLUMNS.1),
            rows: ROWS,
            min_rows: MIN_ROWS,
            all_targets: true,
        };
        let mut grids = first.surveys.grids(&scan, filter, &options);
        let mut lines = mappings::Build::default();
        let mut shots: BTreeMap<u32, Shots> =
            grids.ids().map(|id| (id, Shots::default())).collect();
        // At most as many offers as are worth deciding about.
        let every = (scan.seen_len() / 192).max(1);
        let mut next = 0;
        let last = Scan::run(record, filter, |scan, s| {
            grids.add(scan, s, filter);
            lines.add(scan, s, filter);
            let now = scan.since_start(s.end.0);
            if now >= next {
                next = now.saturating_add(every);
                for (id, shots) in &mut shots {
                    if let Some(map) = scan.pages.get(TargetId(*id)) {
                        shots.offer(seconds(now), map, scan.pages.spans_us());
                    }
                }
            }
            Ok(())
        })?;
        let ids: Vec<u32> = grids.ids().collect();
        let mut grid = Grid::of(grids.finish(&last));
        let end = seconds(last.since_start(time.1));
        for (panel, id) in grid.panels.iter_mut().zip(ids) {
            let map = last.pages.get(TargetId(id));
            panel.pages = shots.remove(&id).and_then(|shots| shots.finish(end, map));
        }
        let document = Document::new(document::Parts {
            scan: &last,
            wss: first.wss.finish(&last),
            ages: first.ages.finish(&last),
            mappings: lines.finish(&last),
            gaps: first.gaps.finish(),
            cost: first.cost,
            grid,
            actions,
        });
        Ok(Self { document })
    }

    /// The data of the page as one JSON object. It changes with the page, unlike those of the other
    /// reports.
    #[must_use]
    pub fn to_json(&self) -> String {
        serde_json::to_string(&self.document).unwrap_or_default()
    }

    /// The page, ready to be written to a file.
    #[must_use]
    pub fn to_html(&self) -> String {
        let json = self.to_json();
        let title = format!("Isotherm: {}", self.document.title());
        // Data comes last, so that nothing in it is taken for a place to fill in.
        PAGE.replace("{{style}}", STYLE)
            .replace("{{script}}", &SCRIPTS.concat())
            .replace("{{title}}", &escaped(&title))
            .replace("{{data}}", &inert(&json))
    }
}

/// Text as it may stand in markup.
pub(crate) fn escaped(text: &str) -> String {
    let text = text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    // A title that looks like a place to fill in is none.
    text.replace('{', "&#123;")
}

/// JSON in which nothing can be markup.
fn inert(json: &str) -> String {
    json.replace('<', "\\u003c").replace('>', "\\u003e").replace('&', "\\u0026")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_in_the_data_is_markup() {
        let json = serde_json::to_string("</script><script>alert(1)</script>&amp;").unwrap();
        let inert = inert(&json);
        assert!(!inert.contains(['<', '>', '&']), "{inert}");
        let back: String = serde_json::from_str(&inert).unwrap();
        assert_eq!(back, "</script><script>alert(1)</script>&amp;");
        assert_eq!(escaped("<b>&{{data}}"), "&lt;b&gt;&amp;&#123;&#123;data}}");
    }

    #[test]
    fn the_page_asks_for_nothing() {
        let page = [PAGE, STYLE].into_iter().chain(SCRIPTS).collect::<String>();
        for word in
            ["src=", "href=", "url(", "@import", "fetch(", "XMLHttp", "import(", "http:", "https:"]
        {
            assert!(!page.contains(word), "{word}");
        }
        for word in ["innerHTML", "outerHTML", "insertAdjacent", "document.write", "eval("] {
            assert!(!page.contains(word), "{word} makes markup of data");
        }
        assert_eq!(page.matches("</script").count(), 2, "scripts hold no end of a script");
    }
}
