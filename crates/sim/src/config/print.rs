//! A config as text that reads back to the same config.

use std::fmt::{Display, Formatter, Result};

use super::{Config, Mode, Pattern, Rate, Region, Settings, Thp};

impl Display for Mode {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        f.write_str(match self {
            Self::ReadOnly => "ro",
            Self::WriteOnly => "wo",
            Self::ReadWrite => "rw",
        })
    }
}

impl Display for Settings {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        let Self { seed, threads, processes, fork_ms, gap } = self;
        writeln!(f, "@seed={seed}\n@threads={threads}\n@processes={processes}")?;
        writeln!(f, "@fork_ms={fork_ms}\n@gap={gap}")
    }
}

impl Display for Region {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        let data = self.data.as_deref().unwrap_or("none");
        let thp = match self.thp {
            Thp::On => "on",
            Thp::Off => "off",
            Thp::Default => "default",
        };
        let populate = if self.populate { "yes" } else { "no" };
        let (name, size, mapped) = (&self.name, self.size, self.mapped);
        write!(f, "{name}, {size}, {data}, thp={thp}, populate={populate}, mapped={mapped}")?;
        if let Some(at) = self.at {
            write!(f, ", at={at:#x}")?;
        }
        writeln!(f)
    }
}

/// A pattern needs its region's name.
struct Named<'a>(&'a Pattern, &'a str);

impl Display for Named<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        let Self(p, name) = self;
        write!(f, "{name}, {}, {}, {}, {}", u8::from(p.random), p.stride, p.weight, p.mode)?;
        match p.rate {
            Some(Rate::Total(x)) => write!(f, ", rate={x}")?,
            Some(Rate::PerPage(x)) => write!(f, ", hz={x}")?,
            None => {}
        }
        if p.offset != 0 {
            write!(f, ", offset={}", p.offset)?;
        }
        if let Some(length) = p.length {
            write!(f, ", length={length}")?;
        }
        if let Some(z) = p.zipf {
            let scatter = if z.scatter { "yes" } else { "no" };
            write!(f, ", zipf={}, block={}, scatter={scatter}", z.exponent, z.block)?;
        }
        if let Some(pieces) = p.pieces {
            write!(f, ", pieces={}, share={}", pieces.size, pieces.share)?;
            if let Some(every) = pieces.every_ms {
                write!(f, ", every={every}")?;
            }
        }
        if let Some(distance) = p.sparse {
            write!(f, ", sparse={distance}")?;
        }
        if let Some(d) = p.drift {
            write!(f, ", step={}, every={}", d.step, d.every_ms)?;
        }
        if let Some(n) = p.process {
            write!(f, ", process={n}")?;
        }
        writeln!(f)
    }
}

impl Display for Config {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        write!(f, "{}", self.settings)?;
        for region in &self.regions {
            write!(f, "{region}")?;
        }
        for phase in &self.phases {
            write!(f, "\n{}\n{}", phase.name, phase.time_ms)?;
            for (region, size) in &phase.resize {
                let name = self.regions.get(*region).map_or("?", |r| r.name.as_str());
                write!(f, ", resize={name}:{size}")?;
            }
            writeln!(f)?;
            for p in &phase.patterns {
                let name = self.regions.get(p.region).map_or("?", |r| r.name.as_str());
                write!(f, "{}", Named(p, name))?;
            }
        }
        Ok(())
    }
}
