//! A file: what it holds, and what it takes.

use isotherm_damon::modules::Module;
use rustix::io::Errno;

use super::number::{boolean, c_string, int, is_word, line, unsigned, unsigned_int};

/// Which directories a `nr_` file makes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Child {
    Kdamond,
    Context,
    Probe,
    ProbeFilter,
    Target,
    Region,
    Scheme,
    Goal,
    /// A filter by address or target.
    CoreFilter,
    /// A filter by page.
    OpsFilter,
    /// A filter of either kind, in the old common directory.
    AnyFilter,
    Dest,
}

impl Child {
    /// The largest number of them; none if memory is the limit.
    const fn most(self) -> Option<i32> {
        match self {
            Self::Context => Some(1),
            Self::Probe => Some(4),
            _ => None,
        }
    }

    /// The number of them that a text asks for.
    ///
    /// # Errors
    ///
    /// EINVAL or ERANGE if it is no number that the file takes.
    pub(crate) fn wanted(self, text: &[u8]) -> Result<i32, Errno> {
        let wanted = int(text)?;
        if wanted < 0 || self.most().is_some_and(|most| wanted > most) {
            return Err(Errno::INVAL);
        }
        Ok(wanted)
    }
}

/// The most directories that one `nr_` file makes. The kernel has no such limit and answers ENOMEM
/// when it runs out of memory, which a program in user space must not wait for.
const MOST_CHILDREN: i32 = 100_000;

/// What a file holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Value {
    /// `unsigned long`. The flag says that every bad value is EINVAL, also one that is too large.
    Ulong(u64, bool),
    /// `unsigned int`, with the same flag.
    Uint(u32, bool),
    /// `int`, with the same flag.
    Int(i32, bool),
    /// `bool`.
    Flag(bool),
    /// A keyword, and the keywords that the file takes. What the kernel puts there at first need
    /// not be one of them.
    Word(&'static str, &'static [&'static str]),
    /// A path. The kernel keeps it as it was written, with its newline.
    Path(Vec<u8>),
    /// The number of a context's address unit: not 0.
    AddrUnit(u64),
    /// How many child directories there are.
    Nr(i32, Child),
    /// A statistic.
    Shown(u64),
    /// The operations sets that can be used.
    AvailableOperations,
    /// Whether the kdamond runs; takes commands.
    State,
    /// The kdamond's pid.
    Pid,
    /// Whether a module runs; switches it.
    Enabled(Module),
    /// Makes a module read its parameters again.
    CommitInputs(Module),
    /// Something that a module says, by name.
    Said(Module, &'static str),
}

/// What became of a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stored {
    /// The value is stored.
    Done,
    /// The directory now has to have this many children.
    Children(u32, Child),
}

impl Value {
    /// The permission bits. sysfs has no other modes here.
    pub(crate) const fn mode(&self) -> u16 {
        match self {
            Self::Shown(_) | Self::AvailableOperations | Self::Pid | Self::Said(..) => 0o400,
            _ => 0o600,
        }
    }

    /// Whether reading the file takes DAMON's one lock (`damon_sysfs_lock`).
    pub(crate) const fn takes_lock_to_read(&self) -> bool {
        matches!(self, Self::State | Self::Pid | Self::Path(_))
    }

    /// Whether writing the file takes that lock.
    pub(crate) const fn takes_lock_to_write(&self) -> bool {
        self.takes_lock_to_read() || matches!(self, Self::Nr(..))
    }

    /// The text of a value that the tree holds itself; none for the others.
    pub(crate) fn show(&self) -> Option<Vec<u8>> {
        let text = match self {
            Self::Ulong(value, _) | Self::AddrUnit(value) | Self::Shown(value) => value.to_string(),
            Self::Uint(value, _) => value.to_string(),
            Self::Int(value, _) | Self::Nr(value, _) => value.to_string(),
            Self::Flag(value) => if *value { "Y" } else { "N" }.to_owned(),
            Self::Word(word, _) => (*word).to_owned(),
            Self::Path(path) => {
                let mut text = path.clone();
                text.push(b'\n');
                return Some(text);
            }
            Self::AvailableOperations | Self::State | Self::Pid => return None,
            Self::Enabled(_) | Self::CommitInputs(_) | Self::Said(..) => return None,
        };
        Some(format!("{text}\n").into_bytes())
    }

    /// Takes a written text.
    ///
    /// # Errors
    ///
    /// The kernel's: EINVAL or ERANGE for a bad value, EACCES for a file that is not written.
    pub(crate) fn store(&mut self, text: &[u8]) -> Result<Stored, Errno> {
        let strictly = |strict: bool| move |err| if strict { Errno::INVAL } else { err };
        match self {
            Self::Ulong(value, strict) => *value = unsigned(text).map_err(strictly(*strict))?,
            Self::Uint(value, strict) => *value = unsigned_int(text).map_err(strictly(*strict))?,
            Self::Int(value, strict) => *value = int(text).map_err(strictly(*strict))?,
            Self::Flag(value) => *value = boolean(text)?,
            Self::Word(word, words) => {
                let found = words.iter().find(|known| is_word(text, known));
                *word = found.ok_or(Errno::INVAL)?;
            }
            Self::Path(path) => *path = c_string(text).to_vec(),
            Self::AddrUnit(value) => match unsigned(text)? {
                0 => return Err(Errno::INVAL),
                unit => *value = unit,
            },
            Self::Nr(nr, child) => {
                let wanted = child.wanted(text)?;
                let count = u32::try_from(wanted).map_err(|_err| Errno::INVAL)?;
                if wanted > MOST_CHILDREN {
                    return Err(Errno::NOMEM);
                }
                *nr = wanted;
                return Ok(Stored::Children(count, *child));
            }
            // Files that are not written, and those whose writes are commands.
            Self::Shown(_) | Self::AvailableOperations | Self::State | Self::Pid => {
                return Err(Errno::ACCESS);
            }
            Self::Enabled(_) | Self::CommitInputs(_) | Self::Said(..) => {
                return Err(Errno::ACCESS);
            }
        }
        Ok(Stored::Done)
    }
}

/// A path as it is used: without the newline that writing it with `echo` leaves.
pub(crate) fn path_of(stored: &[u8]) -> String {
    String::from_utf8_lossy(line(stored)).into_owned()
}

/// The word that was written, for `state`.
pub(crate) fn word_of(text: &[u8]) -> &[u8] {
    line(text)
}
