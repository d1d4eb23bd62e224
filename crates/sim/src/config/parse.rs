//! The parser: paragraphs of lines of comma-separated fields.

use isotherm_core::{AddrRange, units};

use super::field::Field;
use super::keys::Keys;
use super::{ALIGNED, Config, HIGHEST, Mode, ParseError, Pattern, Phase, Region, Thp};

/// Regions may lie above what 32-bit programs use.
const LOWEST: u64 = 1 << 32;

#[derive(Debug, Clone, Copy)]
struct Line<'a> {
    no: usize,
    text: &'a str,
}

impl<'a> Line<'a> {
    fn field(self) -> Field<'a> {
        Field { line: self.no, text: self.text }
    }

    fn fields(self) -> impl Iterator<Item = Field<'a>> {
        self.text.split(',').map(move |f| Field { line: self.no, text: f.trim() })
    }
}

/// Lines without comments, in paragraphs. Several blank lines count as one.
fn paragraphs(text: &str) -> Vec<Vec<Line<'_>>> {
    let mut all = vec![Vec::new()];
    for (i, raw) in text.lines().enumerate() {
        let line = Line { no: i + 1, text: raw.trim() };
        if raw.starts_with('#') {
            continue;
        }
        match all.last_mut() {
            Some(last) if !line.text.is_empty() => last.push(line),
            Some(last) if !last.is_empty() => all.push(Vec::new()),
            _ => {}
        }
    }
    all.retain(|p| !p.is_empty());
    all
}

pub(super) fn parse(text: &str) -> Result<Config, ParseError> {
    let end = text.lines().count().max(1);
    let mut config = Config::default();
    let mut paragraphs = paragraphs(text).into_iter().peekable();
    // Settings may stand in paragraphs of their own.
    while let Some(lines) = paragraphs.next_if(|_| config.regions.is_empty()) {
        for line in lines {
            match line.text.strip_prefix('@') {
                Some(rest) => setting(&mut config, Field { line: line.no, text: rest.trim() })?,
                None => region(&mut config, line)?,
            }
        }
    }
    if config.regions.is_empty() {
        return Err(ParseError::new(end, "a region (`name, size`)", "the end of the file"));
    }
    let mut mapped: Vec<u64> = config.regions.iter().map(|r| r.mapped).collect();
    for lines in paragraphs {
        let phase = phase(&config, &mut mapped, &lines)?;
        config.phases.push(phase);
    }
    if config.phases.is_empty() {
        let what = "a phase (name, length in ms, patterns), after a blank line";
        return Err(ParseError::new(end, what, "the end of the file"));
    }
    Ok(config)
}

fn setting(config: &mut Config, field: Field<'_>) -> Result<(), ParseError> {
    let settings = &mut config.settings;
    let Some((key, value)) = field.key() else {
        return Err(field.wrong("a setting (`@key=value`)"));
    };
    let count = |most: u32| -> Result<u32, ParseError> {
        let n = value.number("a whole number")?;
        if (1..=most).contains(&n) {
            Ok(n)
        } else {
            Err(value.wrong(format!("a number from 1 to {most}")))
        }
    };
    match key {
        "seed" => settings.seed = value.number("a seed (a whole number)")?,
        "threads" => settings.threads = count(64)?,
        "processes" => settings.processes = count(64)?,
        "fork_ms" => settings.fork_ms = value.millis()?,
        "gap" => settings.gap = value.pages("a gap")?,
        _ => return Err(field.wrong("one of seed, threads, processes, fork_ms, gap")),
    }
    Ok(())
}

fn region(config: &mut Config, line: Line<'_>) -> Result<(), ParseError> {
    let mut fields = line.fields().peekable();
    let name = fields.next().filter(|f| !f.text.is_empty() && f.key().is_none());
    let name = name.ok_or_else(|| line.field().wrong("a region (`name, size`)"))?;
    if config.regions.iter().any(|r| r.name == name.text) {
        return Err(name.wrong("a region name that is not taken"));
    }
    let size_field = fields.next().ok_or_else(|| line.field().wrong("a size after the name"))?;
    let size = size_field.size("the region's size")?;
    if size == 0 || size > 1 << 45 {
        return Err(size_field.wrong("a region size from 1 byte to 32 TiB"));
    }
    let mut region = Region {
        name: name.text.to_owned(),
        size,
        populate: true,
        mapped: size,
        ..Region::default()
    };
    if let Some(data) = fields.next_if(|f| f.key().is_none()) {
        region.data = match data.text {
            "" => return Err(data.wrong("a data file or `none`")),
            "none" => None,
            path => Some(path.to_owned()),
        };
    }
    for field in fields {
        match field.key() {
            Some(("thp", v)) => {
                region.thp = match v.text {
                    "on" => Thp::On,
                    "off" => Thp::Off,
                    "default" => Thp::Default,
                    _ => return Err(v.wrong("`on`, `off` or `default`")),
                }
            }
            Some(("populate", v)) => region.populate = v.yes_no("populate")?,
            Some(("mapped", v)) => {
                region.mapped = v.size("the mapped part")?;
                if region.mapped > size {
                    return Err(v.wrong("a mapped part that is not larger than the region"));
                }
            }
            Some(("at", v)) => region.at = Some(place(v)?),
            _ => {
                return Err(field.wrong("the line's end, or one of thp=, populate=, mapped=, at="));
            }
        }
    }
    config.regions.push(region);
    let bases = config.bases();
    let extent = |i: usize| AddrRange::new(bases[i], bases[i] + config.regions[i].size);
    let last = bases.len() - 1;
    if (0..last).any(|i| extent(i).intersects(&extent(last))) || extent(last).end > HIGHEST {
        return Err(line.field().wrong("a region that ends below 2^56 and overlaps no other"));
    }
    Ok(())
}

/// Where a region begins.
fn place(field: Field<'_>) -> Result<u64, ParseError> {
    let at = units::address(field.text).ok().filter(|at| LOWEST <= *at && *at < HIGHEST);
    let at = at.filter(|at| at.is_multiple_of(ALIGNED));
    at.ok_or_else(|| field.wrong("an address from 4G on, below 2^56, a multiple of 2M"))
}

fn find_region(config: &Config, field: Field<'_>) -> Result<usize, ParseError> {
    let at = config.regions.iter().position(|r| r.name == field.text);
    at.ok_or_else(|| field.wrong("the name of a region of the first paragraph"))
}

fn phase(config: &Config, mapped: &mut [u64], lines: &[Line<'_>]) -> Result<Phase, ParseError> {
    let (Some(name), Some(time)) = (lines.first(), lines.get(1)) else {
        let line = lines.first().map_or(0, |l| l.no);
        return Err(ParseError::new(line + 1, "the phase's length in ms", "the paragraph's end"));
    };
    let mut fields = time.fields();
    let first = fields.next().unwrap_or_else(|| time.field());
    let time_ms: u64 = first.number("the phase's length in ms")?;
    if time_ms > 1 << 40 {
        return Err(first.wrong("a phase shorter than 30 years"));
    }
    let mut phase = Phase { name: name.text.to_owned(), time_ms, ..Phase::default() };
    for field in fields {
        let Some(("resize", value)) = field.key() else {
            return Err(field.wrong("the line's end, or resize=NAME:SIZE"));
        };
        let Some((name, size)) = value.text.rsplit_once(':') else {
            return Err(value.wrong("NAME:SIZE"));
        };
        let region = find_region(config, Field { line: time.no, text: name.trim() })?;
        let size = Field { line: time.no, text: size.trim() }.size("the region's new size")?;
        if config.regions[region].size < size {
            return Err(value.wrong("a size that is not larger than the region's"));
        }
        mapped[region] = size;
        phase.resize.push((region, size));
    }
    for line in &lines[2..] {
        phase.patterns.push(pattern(config, mapped, *line)?);
    }
    Ok(phase)
}

fn pattern(config: &Config, mapped: &[u64], line: Line<'_>) -> Result<Pattern, ParseError> {
    let mut fields = line.fields().peekable();
    let mut next = |what: &str| {
        let field = fields.next_if(|f| f.key().is_none());
        field
            .ok_or_else(|| line.field().wrong(format!("{what} (region, 0|1, stride, probability)")))
    };
    let region = find_region(config, next("a region's name")?)?;
    let random: i64 = next("randomness")?.number("randomness as 0 or 1")?;
    let stride_field = next("the stride")?;
    let stride = stride_field.size("the stride")?;
    let weight = next("the probability")?.number("the probability (a whole number)")?;
    if random == 0 && stride == 0 {
        return Err(stride_field.wrong("a stride above 0 for sequential access"));
    }
    let mut p = Pattern::new(region, random != 0, stride, weight, Mode::default());
    if let Some(mode) = fields.next_if(|f| f.key().is_none()) {
        p.mode = match mode.text {
            "ro" => Mode::ReadOnly,
            "wo" => Mode::WriteOnly,
            "rw" => Mode::ReadWrite,
            _ => return Err(mode.wrong("`ro`, `wo` or `rw`")),
        };
    }
    let mut keys = Keys::default();
    for field in fields {
        keys.read(&mut p, field)?;
    }
    keys.finish(config.settings.processes, mapped[region], line.field(), &mut p)?;
    Ok(p)
}
