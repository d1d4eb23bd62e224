//! A running trace: an instance with events switched on, and its ring buffers, read and merged by
//! time.
//!
//! A kdamond that moves to another CPU continues in another buffer. Buffers are read one after the
//! other, so an event can be read before an earlier one of a CPU that was read before. Therefore
//! events that came after the start of a reading wait for the next reading. So all events are given
//! out in order.

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use isotherm_core::Time;
use isotherm_host::proc::Proc;
use isotherm_sys::clock;

use super::error::{self, TraceError, TraceKind};
use super::event::{EventKind, Layout, Record};
use super::format::{Format, PageHeader};
use super::instance::{Instance, Leftovers, remove_leftovers};
use super::page::Page;
use super::place::Place;
use super::stats::BufferStats;

/// What to trace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// The events that must be there.
    pub events: Vec<EventKind>,
    /// Events to take if the kernel has them.
    pub optional: Vec<EventKind>,
    /// Size of the buffer of each CPU, in KiB. A region takes 57 bytes per event.
    pub buffer_kib: u64,
}

impl Default for Options {
    /// `damon_aggregated` (with probe hits where there are any), 512 KiB per CPU: 9,000 regions
    /// between two readings.
    fn default() -> Self {
        Self {
            events: vec![EventKind::Aggregated],
            optional: vec![EventKind::RegionAggregated],
            buffer_kib: 512,
        }
    }
}

/// Events that were overwritten before they were read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Loss {
    /// The CPU.
    pub cpu: u32,
    /// How many, if the kernel tells.
    pub events: Option<u64>,
    /// The lost events came after this time: that of the last event read from this CPU, or of the
    /// last reading that found no more.
    pub since: Time,
    /// They came before this: the next event that was read.
    pub until: Time,
}

/// What a trace gives, in the order of time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Item {
    /// An event.
    Event(Record),
    /// A hole.
    Lost(Loss),
}

impl Item {
    /// Where it stands: a hole stands where it begins.
    #[must_use]
    pub const fn at(&self) -> Time {
        match self {
            Self::Event(record) => record.at,
            Self::Lost(loss) => loss.since,
        }
    }
}

#[derive(Debug)]
struct CpuBuffer {
    cpu: u32,
    file: File,
    /// The time of the last event read from this buffer, or the start of the last reading that
    /// emptied it.
    last: Time,
}

/// A trace instance with events of kernel DAMON. Dropping it removes the instance.
#[derive(Debug)]
pub struct Trace {
    // Fields are dropped in this order: the instance can be removed only after its files are
    // closed.
    buffers: Vec<CpuBuffer>,
    instance: Instance,
    place: Place,
    header: PageHeader,
    kinds: Vec<(EventKind, Layout)>,
    page: Vec<u8>,
    /// Events that came after the start of the last reading. They are sorted at the next one.
    waiting: Vec<Item>,
    leftovers: Leftovers,
}

impl Trace {
    /// Makes an instance in the machine's tracefs and switches the events on. Removes the instances
    /// of dead owners first.
    ///
    /// # Errors
    ///
    /// No tracefs, no permission, or an event is missing. Nothing is left behind.
    pub fn open(options: &Options) -> Result<Self, TraceError> {
        let place = Place::find()?;
        let mut kinds = Vec::new();
        for (list, needed) in [(&options.events, true), (&options.optional, false)] {
            for &kind in list {
                if kinds.iter().any(|(k, _)| *k == kind) {
                    continue;
                }
                match layout(&place, kind) {
                    Ok(layout) => kinds.push((kind, layout)),
                    Err(e) if e.kind() == TraceKind::NoEvent && !needed => {}
                    Err(e) => return Err(e),
                }
            }
        }
        let path = place.root().join("events/header_page");
        let header =
            PageHeader::parse(&read(&path)?).map_err(|wrong| error::format(&path, &wrong))?;
        let leftovers = remove_leftovers(&place, &Proc::default())?;
        let instance = Instance::create(&place)?;
        // Setting the clock empties the buffer and setting the size replaces it, so both come
        // first.
        instance.write("trace_clock", "mono")?;
        instance.write("buffer_size_kb", &options.buffer_kib.max(1).to_string())?;
        let mut trace = Self {
            buffers: open_buffers(instance.path())?,
            page: vec![0; header.page_len()],
            instance,
            place,
            header,
            kinds: Vec::new(),
            waiting: Vec::new(),
            leftovers,
        };
        for (kind, layout) in kinds {
            trace.instance.write(&switch(kind, "enable"), "1")?;
            trace.kinds.push((kind, layout));
        }
        Ok(trace)
    }

    /// The events that are switched on.
    pub fn kinds(&self) -> impl Iterator<Item = EventKind> {
        self.kinds.iter().map(|(kind, _)| *kind)
    }

    /// The instance's directory.
    #[must_use]
    pub fn path(&self) -> &Path {
        self.instance.path()
    }

    /// The tracefs that it is in.
    #[must_use]
    pub const fn place(&self) -> &Place {
        &self.place
    }

    /// What dead owners had left when this was opened.
    #[must_use]
    pub const fn leftovers(&self) -> &Leftovers {
        &self.leftovers
    }

    /// From now on takes events of these threads only, or of all threads if `pids` is empty. The
    /// kernel filters before it writes, so the kdamonds of others do not fill the buffer.
    ///
    /// # Errors
    ///
    /// What the kernel says.
    pub fn only_threads(&mut self, pids: &[u32]) -> Result<(), TraceError> {
        let terms: Vec<String> = pids.iter().map(|pid| format!("common_pid == {pid}")).collect();
        // `0` takes a filter away.
        let filter = if terms.is_empty() { "0".to_owned() } else { terms.join(" || ") };
        self.kinds
            .iter()
            .try_for_each(|(kind, _)| self.instance.write(&switch(*kind, "filter"), &filter))
    }

    /// Sets a filter of the kernel's filter language on one event, replacing the one of
    /// [`Trace::only_threads`].
    ///
    /// # Errors
    ///
    /// What the kernel says about a mistake in the filter. The event then has no filter.
    pub fn filter(&mut self, kind: EventKind, filter: &str) -> Result<(), TraceError> {
        self.instance.write(&switch(kind, "filter"), filter)
    }

    /// Adds all events up to now to `items`, in order of time. Does not wait.
    ///
    /// # Errors
    ///
    /// If a buffer cannot be read or is not understood. Nothing that was read before is lost.
    pub fn read(&mut self, items: &mut Vec<Item>) -> Result<(), TraceError> {
        let now = clock::now();
        let mut result = Ok(());
        for buffer in &mut self.buffers {
            result = buffer.read(&mut self.page, &self.header, &self.kinds, &mut self.waiting);
            if result.is_err() {
                break;
            }
            buffer.last = buffer.last.max(now);
        }
        // The sort is stable: events of one CPU keep their order, and a hole stays before what
        // follows it.
        self.waiting.sort_by_key(Item::at);
        let ready = self.waiting.partition_point(|item| item.at() < now);
        items.extend(self.waiting.drain(..ready));
        result
    }

    /// The counters of all CPUs, summed.
    ///
    /// # Errors
    ///
    /// If they cannot be read.
    pub fn stats(&self) -> Result<BufferStats, TraceError> {
        let mut sum = BufferStats::default();
        for buffer in &self.buffers {
            let path = self.instance.path().join(format!("per_cpu/cpu{}/stats", buffer.cpu));
            sum.add(&BufferStats::parse(&read(&path)?));
        }
        Ok(sum)
    }
}

impl CpuBuffer {
    fn read(
        &mut self,
        page: &mut [u8],
        header: &PageHeader,
        kinds: &[(EventKind, Layout)],
        items: &mut Vec<Item>,
    ) -> Result<(), TraceError> {
        loop {
            let len = match self.file.read(page) {
                Ok(0) => return Ok(()),
                Ok(len) => len,
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
                Err(e) => {
                    let file = format!("trace_pipe_raw of CPU {}", self.cpu);
                    return Err(error::io("read", Path::new(&file), e));
                }
            };
            let cpu = self.cpu;
            let broken = |at: usize| {
                let why = format!("{len} bytes were read; what is at offset {at} is no event");
                error::page(cpu, why)
            };
            let mut whole = Page::new(&page[..len], header).map_err(|b| broken(b.at))?;
            if let Some(events) = whole.missed() {
                let (since, until) = (self.last, Time(whole.start_ns()));
                items.push(Item::Lost(Loss { cpu: self.cpu, events, since, until }));
            }
            for payload in &mut whole {
                let payload = payload.map_err(|b| broken(b.at))?;
                self.last = Time(payload.ns);
                let id = payload.bytes.first_chunk().map(|id| u16::from_ne_bytes(*id));
                let Some((_, layout)) = kinds.iter().find(|(_, l)| Some(l.id) == id) else {
                    continue;
                };
                let (pid, event) = layout.decode(payload.bytes).ok_or_else(|| broken(0))?;
                items.push(Item::Event(Record { at: self.last, cpu: self.cpu, pid, event }));
            }
        }
    }
}

fn switch(kind: EventKind, file: &str) -> String {
    format!("events/damon/{}/{file}", kind.name())
}

fn layout(place: &Place, kind: EventKind) -> Result<Layout, TraceError> {
    let path = place.event(kind.name()).join("format");
    if !path.exists() {
        return Err(error::no_event(kind));
    }
    let text = read(&path)?;
    let layout = Format::parse(&text).and_then(|format| Layout::new(kind, &format));
    layout.map_err(|wrong| error::format(&path, &wrong))
}

fn open_buffers(instance: &Path) -> Result<Vec<CpuBuffer>, TraceError> {
    let dir = instance.join("per_cpu");
    let mut buffers = Vec::new();
    for entry in std::fs::read_dir(&dir).map_err(|e| error::io("list", &dir, e))? {
        let entry = entry.map_err(|e| error::io("list", &dir, e))?;
        let name = entry.file_name();
        let cpu = name.to_str().and_then(|n| n.strip_prefix("cpu")?.parse().ok());
        let Some(cpu) = cpu else { continue };
        let path = entry.path().join("trace_pipe_raw");
        let flags = rustix::fs::OFlags::NONBLOCK.bits().cast_signed();
        let file = File::options().read(true).custom_flags(flags).open(&path);
        let file = file.map_err(|e| error::io("open", &path, e))?;
        buffers.push(CpuBuffer { cpu, file, last: Time::default() });
    }
    buffers.sort_by_key(|b| b.cpu);
    Ok(buffers)
}

/// Reads a small file. `header_page` gives text to the first read only, as much as has room
/// (`show_header_file()`), so the buffer must be large from the start.
fn read(path: &Path) -> Result<String, TraceError> {
    let read = || {
        let mut text = Vec::with_capacity(16 << 10);
        File::open(path)?.read_to_end(&mut text)?;
        Ok(String::from_utf8_lossy(&text).into_owned())
    };
    read().map_err(|e| error::io("read", path, e))
}
