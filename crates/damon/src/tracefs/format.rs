//! What the running kernel says about the layout of its events: `events/.../format` and
//! `events/header_page`.
//!
//! A line is `field:unsigned int nr_regions;\toffset:16;\tsize:4;\tsigned:0;`. Fields are looked up
//! by name, so it does not matter if a kernel moved, widened or added some. Numbers are read in the
//! size that the line gives, in the machine's byte order.

use std::fmt;
use std::ops::Range;

/// One field of an event.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Field {
    name: String,
    bytes: Range<usize>,
    /// Whether the field tells where in the event a dynamic array lies.
    is_data_loc: bool,
}

/// The layout of one event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Format {
    id: u16,
    fields: Vec<Field>,
}

/// Why a layout is not understood.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FormatError {
    /// A line that should be `field:...` is not.
    Line(String),
    /// There is no number of the event.
    NoId,
    /// A field that is needed is missing, or its size is not one of a number.
    NoField(&'static str),
}

impl fmt::Display for FormatError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Line(line) => write!(f, "not understood: `{line}`"),
            Self::NoId => write!(f, "it gives no ID"),
            Self::NoField(name) => write!(f, "it has no number called `{name}`"),
        }
    }
}

impl std::error::Error for FormatError {}

impl Format {
    /// Parses a `format` file.
    ///
    /// # Errors
    ///
    /// If it has no ID, or a field's line is not understood.
    pub fn parse(text: &str) -> Result<Self, FormatError> {
        let id = text.lines().find_map(|l| l.strip_prefix("ID:")?.trim().parse().ok());
        let id = id.ok_or(FormatError::NoId)?;
        Ok(Self { id, fields: fields(text)? })
    }

    /// The event's number: the first field of every event.
    #[must_use]
    pub const fn id(&self) -> u16 {
        self.id
    }

    /// Where the number called `name` lies.
    pub(super) fn number(&self, name: &'static str) -> Result<Number, FormatError> {
        number(&self.fields, name)
    }

    /// The dynamic array called `name`. `None` if there is no such field.
    pub(super) fn array(&self, name: &str) -> Option<Array> {
        let field = self.fields.iter().find(|f| f.name == name)?;
        field.is_data_loc.then_some(Array { at: field.bytes.start })
    }
}

/// Where in an event a number lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Number {
    at: usize,
    size: usize,
}

impl Number {
    /// The number. `None` if the event is too short for it. Signed numbers are not sign-extended.
    pub(super) fn of(self, event: &[u8]) -> Option<u64> {
        let bytes = event.get(self.at..self.at + self.size)?;
        Some(match self.size {
            1 => u64::from(*bytes.first()?),
            2 => u64::from(u16::from_ne_bytes(bytes.try_into().ok()?)),
            4 => u64::from(u32::from_ne_bytes(bytes.try_into().ok()?)),
            _ => u64::from_ne_bytes(bytes.try_into().ok()?),
        })
    }

    /// As [`Number::of`], for fields that are 32 bits everywhere; larger values are cut to the
    /// largest.
    pub(super) fn of32(self, event: &[u8]) -> Option<u32> {
        Some(u32::try_from(self.of(event)?).unwrap_or(u32::MAX))
    }
}

/// The word in an event that locates a dynamic array: length in the upper half, offset in the
/// lower.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Array {
    at: usize,
}

impl Array {
    pub(super) fn of(self, event: &[u8]) -> Option<&[u8]> {
        let told = u32::from_ne_bytes(*event.get(self.at..)?.first_chunk()?);
        let (at, len) = ((told & 0xffff) as usize, (told >> 16) as usize);
        event.get(at..at + len)
    }
}

/// The layout of a page of the ring buffer (`events/header_page`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PageHeader {
    pub(super) timestamp: Number,
    pub(super) commit: Number,
    /// Where the events begin.
    pub(super) data: usize,
    /// Size of the page, in bytes.
    pub(super) len: usize,
}

impl PageHeader {
    /// Parses a `header_page` file.
    ///
    /// # Errors
    ///
    /// If a line is not understood or something needed is missing.
    pub fn parse(text: &str) -> Result<Self, FormatError> {
        let fields = fields(text)?;
        let data = fields.iter().find(|f| f.name == "data").ok_or(FormatError::NoField("data"))?;
        Ok(Self {
            timestamp: number(&fields, "timestamp")?,
            commit: number(&fields, "commit")?,
            data: data.bytes.start,
            len: data.bytes.end,
        })
    }

    /// Size of a page, in bytes: how much to read at once.
    #[must_use]
    pub const fn page_len(&self) -> usize {
        self.len
    }
}

fn number(fields: &[Field], name: &'static str) -> Result<Number, FormatError> {
    let field = fields.iter().find(|f| f.name == name && !f.is_data_loc);
    let field = field.ok_or(FormatError::NoField(name))?;
    let number = Number { at: field.bytes.start, size: field.bytes.len() };
    match number.size {
        1 | 2 | 4 | 8 => Ok(number),
        _ => Err(FormatError::NoField(name)),
    }
}

fn fields(text: &str) -> Result<Vec<Field>, FormatError> {
    let lines = text.lines().map(str::trim).filter(|l| l.starts_with("field:"));
    lines.map(|line| field(line).ok_or_else(|| FormatError::Line(line.to_owned()))).collect()
}

fn field(line: &str) -> Option<Field> {
    let mut parts = line.split(';').map(str::trim);
    let declaration = parts.next()?.strip_prefix("field:")?.trim();
    let offset: usize = parts.next()?.strip_prefix("offset:")?.parse().ok()?;
    let size: usize = parts.next()?.strip_prefix("size:")?.parse().ok()?;
    let name = declaration.split_whitespace().next_back()?.trim_start_matches('*');
    let name = name.split('[').next()?.to_owned();
    Some(Field {
        name,
        bytes: offset..offset.checked_add(size)?,
        is_data_loc: declaration.starts_with("__data_loc"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_found_by_name() {
        let text = "name: x\nID: 734\nformat:\n\
            \tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\
            \tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\n\
            \tfield:char comm[16];\toffset:8;\tsize:16;\tsigned:0;\n\
            \tfield:__data_loc unsigned char[] probe_hits;\toffset:44;\tsize:4;\tsigned:0;\n\n\
            print fmt: \"x=%d field: 7\", REC->x\n";
        let format = Format::parse(text).unwrap();
        assert_eq!(format.id(), 734);
        assert_eq!(format.number("common_pid"), Ok(Number { at: 4, size: 4 }));
        assert_eq!(format.number("comm"), Err(FormatError::NoField("comm")));
        assert_eq!(format.number("probe_hits"), Err(FormatError::NoField("probe_hits")));
        assert_eq!(format.array("probe_hits"), Some(Array { at: 44 }));
        assert_eq!(format.array("common_pid"), None);
    }

    #[test]
    fn refuses_what_is_no_layout() {
        assert_eq!(Format::parse("name: x\n"), Err(FormatError::NoId));
        for line in ["field:int x;", "field:int x; offset:a; size:4;", "field:; offset:0; size:4;"]
        {
            let text = format!("ID: 1\n{line}\n");
            assert!(matches!(Format::parse(&text), Err(FormatError::Line(_))), "{line}");
        }
        assert_eq!(PageHeader::parse(""), Err(FormatError::NoField("data")));
    }

    #[test]
    fn short_events_give_nothing() {
        let number = Number { at: 4, size: 8 };
        assert_eq!(number.of(&[0; 11]), None);
        assert_eq!(number.of(&[1; 12]), Some(0x0101_0101_0101_0101));
        let mut event = [0_u8; 12];
        event[..4].copy_from_slice(&(3_u32 << 16 | 4).to_ne_bytes());
        event[4..7].copy_from_slice(&[7, 8, 9]);
        assert_eq!(Array { at: 0 }.of(&event), Some(&[7, 8, 9][..]));
        event[..4].copy_from_slice(&(3_u32 << 16 | 11).to_ne_bytes());
        assert_eq!(Array { at: 0 }.of(&event), None);
        assert_eq!(Array { at: usize::MAX }.of(&event), None);
    }
}
