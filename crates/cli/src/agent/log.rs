//! The agent's log on standard error: for people with the time, for the journal with priorities.
//!
//! `ISOTHERM_LOG` says what is logged: `debug`, or by module as in `warn,isotherm_service=debug`.

use std::fmt;
use std::io::IsTerminal;
use std::time::{SystemTime, UNIX_EPOCH};

use tracing::field::{Field, Visit};
use tracing::{Event, Level, Metadata, Subscriber};
use tracing_subscriber::filter::Targets;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::util::SubscriberInitExt;

use crate::exit::usage;

/// The variable that says what is logged.
const VARIABLE: &str = "ISOTHERM_LOG";

/// Begins to log.
pub(super) fn start() -> anyhow::Result<()> {
    let wanted = std::env::var(VARIABLE).ok().filter(|text| !text.is_empty());
    let wanted = wanted.as_deref().unwrap_or("info");
    let targets: Targets = wanted.parse().map_err(|e| {
        usage(format!(
            "{VARIABLE}={wanted}: {e}\n  hint:  a level (error, warn, info, debug, trace), or MODULE=LEVEL, \
             separated by commas"
        ))
    })?;
    let journal = std::env::var_os("JOURNAL_STREAM").is_some() && !std::io::stderr().is_terminal();
    let layer = tracing_subscriber::fmt::layer()
        .with_writer(std::io::stderr)
        .event_format(Lines { journal });
    tracing_subscriber::registry().with(targets).with(layer).try_init()?;
    Ok(())
}

/// One line per event. In the journal a line begins with its priority, as `sd-daemon(3)` has it,
/// and the journal knows the time.
struct Lines {
    journal: bool,
}

impl<S, N> FormatEvent<S, N> for Lines
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        _: &FmtContext<'_, S, N>,
        mut out: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let prefix = self.prefix(event.metadata());
        let mut told = Told::default();
        event.record(&mut told);
        // A message of several lines would be cut apart by the journal.
        for line in told.text().lines() {
            writeln!(out, "{prefix}{line}")?;
        }
        Ok(())
    }
}

/// What an event says. Whose it is comes first: `policy / context: message key=value`.
#[derive(Default)]
struct Told {
    whose: String,
    message: String,
    rest: String,
}

impl Told {
    fn text(&self) -> String {
        let Self { whose, message, rest } = self;
        if whose.is_empty() {
            format!("{message}{rest}")
        } else {
            format!("{whose}: {message}{rest}")
        }
    }
}

impl Visit for Told {
    fn record_str(&mut self, field: &Field, value: &str) {
        match field.name() {
            "policy" | "context" | "scheme" => {
                let between = if self.whose.is_empty() || value.is_empty() { "" } else { " / " };
                self.whose += &format!("{between}{value}");
            }
            _ => self.record_debug(field, &format_args!("{value}")),
        }
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        match field.name() {
            "message" => self.message = format!("{value:?}"),
            name => self.rest += &format!(" {name}={value:?}"),
        }
    }
}

impl Lines {
    fn prefix(&self, metadata: &Metadata<'_>) -> String {
        let level = *metadata.level();
        if self.journal {
            return format!("<{}>", priority(level));
        }
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let of_day = now.as_secs() % 86_400;
        let (hours, minutes, seconds) = (of_day / 3600, of_day / 60 % 60, of_day % 60);
        let ms = now.subsec_millis();
        format!("{hours:02}:{minutes:02}:{seconds:02}.{ms:03}Z {level:<5} ")
    }
}

/// The priority in the numbers of `syslog(3)`.
const fn priority(level: Level) -> u8 {
    match level {
        Level::ERROR => 3,
        Level::WARN => 4,
        Level::INFO => 6,
        _ => 7,
    }
}
