//! Makes one report of a record, and prints its time and memory.
//!
//! ```text
//! cargo run --release -p isotherm-report --example measure -- heatmap FILE [OUT.svg|OUT.png]
//! cargo run --release -p isotherm-report --example measure -- html FILE OUT.html
//! ```
use std::time::Instant;

use isotherm_record::Record;
use isotherm_report::heatmap::{Color, Heatmap, Options, Style};
use isotherm_report::{Filter, ages, html, mappings, wss};

#[expect(clippy::print_stdout, reason = "an example")]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1);
    let what = args.next().ok_or("which report?")?;
    let path = args.next().ok_or("which file?")?;
    let out = args.next();
    let filter = Filter::default();
    let began = Instant::now();
    let record = Record::open(&path)?;
    let text = match (what.as_str(), out.as_deref()) {
        ("wss", _) => wss::Report::build(&record, &filter)?.to_text(wss::Order::Size),
        ("color", _) => Heatmap::build(&record, &filter, &Options::for_text(120))?
            .to_text(&Style { color: Color::True }),
        ("mappings", _) => mappings::Report::build(&record, &filter)?.to_text(),
        ("ages", _) => ages::Report::build(&record, &filter)?.to_text(),
        ("html", Some(file)) => {
            let events = None::<std::io::Empty>;
            let page = html::Report::build(&record, &filter, events)?.to_html();
            std::fs::write(file, &page)?;
            format!("{} bytes", page.len())
        }
        (_, Some(file)) => {
            let map = Heatmap::build(&record, &filter, &Options::for_picture())?;
            let svg = file.ends_with(".svg");
            let bytes = if svg { map.to_svg().into_bytes() } else { map.to_png()? };
            std::fs::write(file, &bytes)?;
            format!("{} bytes", bytes.len())
        }
        (_, _) => {
            Heatmap::build(&record, &filter, &Options::for_text(100))?.to_text(&Style::default())
        }
    };
    println!("{text}");
    println!("{:.3} s, {}", began.elapsed().as_secs_f64(), peak());
    Ok(())
}

/// The process's largest resident size, as the kernel tells it.
fn peak() -> String {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    status.lines().find(|l| l.starts_with("VmHWM")).unwrap_or("VmHWM unknown").to_owned()
}
