//! What a claim leaves on disk, so that another Isotherm can clean up after a killed one.
//!
//! There is one small text file per kdamond of ours, in a directory that does not outlive the boot.
//! It is written *before* the kernel's files are. It is written again, whole and by renaming,
//! before anything changes that it describes. So at any moment the note covers every value that the
//! kernel's files can have because of us:
//!
//! | phase | the kernel's files say |
//! |---|---|
//! | writing | defaults, `files`, or `next` (the same for an older kernel) |
//! | ready | `files`; the kdamond may have just been started |
//! | running | `files`, and the worker is the one named |
//! | changing | defaults, `files` or `next`, and the worker is the one named |

use std::fmt::Write;
use std::io;
use std::path::{Path, PathBuf};

use isotherm_host::proc::{Proc, TaskState};

use crate::config::entries::Entry;

const MAGIC: &str = "isotherm kdamond 1";

/// A process or a kernel thread. The start time tells it from a later one with the same pid.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Who {
    /// Its pid.
    pub(crate) pid: u32,
    /// When it started, in clock ticks since boot.
    pub(crate) start: u64,
}

impl Who {
    /// The process that has this pid now.
    pub(crate) fn is_now(proc: &Proc, pid: u32) -> Option<Self> {
        let mut buf = Vec::new();
        let stat = proc.stat(pid, &mut buf).ok()?;
        let dead = matches!(stat.state, TaskState::Zombie | TaskState::Dead);
        (!dead).then_some(Self { pid, start: stat.starttime })
    }

    /// Whether it still lives.
    pub(crate) fn lives(self, proc: &Proc) -> bool {
        Self::is_now(proc, self.pid) == Some(self)
    }
}

/// How far a claim is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    Writing,
    Ready,
    Running,
    Changing,
}

impl Phase {
    const ALL: [(Self, &str); 4] = [
        (Self::Writing, "writing"),
        (Self::Ready, "ready"),
        (Self::Running, "running"),
        (Self::Changing, "changing"),
    ];
}

/// Paths below the kdamond's directory, with their values.
pub(crate) type FileList = Vec<(String, String)>;

/// A note.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Note {
    pub(crate) boot: String,
    pub(crate) owner: Who,
    pub(crate) index: u32,
    pub(crate) phase: Phase,
    pub(crate) worker: Option<Who>,
    pub(crate) files: FileList,
    pub(crate) next: FileList,
}

/// The entries as a note keeps them.
pub(crate) fn file_list(entries: &[Entry]) -> FileList {
    entries.iter().map(|entry| (entry.path.clone(), entry.value.clone())).collect()
}

impl Note {
    pub(crate) fn path(dir: &Path, index: u32) -> PathBuf {
        dir.join(format!("kdamond-{index}"))
    }

    pub(crate) fn save(&self, dir: &Path) -> io::Result<()> {
        save_text(&Self::path(dir, self.index), &self.to_text())
    }

    pub(crate) fn remove(dir: &Path, index: u32) -> io::Result<()> {
        match std::fs::remove_file(Self::path(dir, index)) {
            Err(err) if err.kind() == io::ErrorKind::NotFound => Ok(()),
            done => done,
        }
    }

    fn to_text(&self) -> String {
        let phase = Phase::ALL.iter().find(|(phase, _)| *phase == self.phase).map_or("", |p| p.1);
        let mut text = format!(
            "{MAGIC}\nboot {}\nowner {} {}\nindex {}\nphase {phase}\n",
            self.boot, self.owner.pid, self.owner.start, self.index
        );
        let mut line = |what: std::fmt::Arguments<'_>| {
            // Writing to a string does not fail.
            text.write_fmt(what).ok();
        };
        if let Some(worker) = self.worker {
            line(format_args!("worker {} {}\n", worker.pid, worker.start));
        }
        for (name, list) in [("file", &self.files), ("next", &self.next)] {
            for (path, value) in list {
                line(format_args!("{name} {path} {}\n", value.escape_default()));
            }
        }
        text.push_str("end\n");
        text
    }

    /// Parses a note. `None` if the text is not one of our notes, or is cut off.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let mut lines = text.lines();
        if lines.next()? != MAGIC || !text.ends_with("\nend\n") {
            return None;
        }
        let mut note = Self {
            boot: String::new(),
            owner: Who { pid: 0, start: 0 },
            index: u32::MAX,
            phase: Phase::Writing,
            worker: None,
            files: Vec::new(),
            next: Vec::new(),
        };
        for line in lines {
            let (key, rest) = line.split_once(' ').unwrap_or((line, ""));
            match key {
                "boot" => note.boot = rest.into(),
                "owner" => note.owner = who(rest)?,
                "index" => note.index = rest.parse().ok()?,
                "phase" => note.phase = Phase::ALL.iter().find(|(_, name)| *name == rest)?.0,
                "worker" => note.worker = Some(who(rest)?),
                "file" | "next" => {
                    let (path, value) = rest.split_once(' ')?;
                    let list = if key == "file" { &mut note.files } else { &mut note.next };
                    list.push((path.into(), unescape(value)?));
                }
                "end" => {}
                _ => return None,
            }
        }
        (note.index != u32::MAX && note.owner.pid != 0).then_some(note)
    }
}

fn who(text: &str) -> Option<Who> {
    let (pid, start) = text.split_once(' ')?;
    Some(Who { pid: pid.parse().ok()?, start: start.parse().ok()? })
}

/// The reverse of `str::escape_default`.
fn unescape(text: &str) -> Option<String> {
    let mut out = String::with_capacity(text.len());
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        if c != '\\' {
            out.push(c);
            continue;
        }
        out.push(match chars.next()? {
            't' => '\t',
            'r' => '\r',
            'n' => '\n',
            'u' => {
                let hex: String = chars.by_ref().skip(1).take_while(|c| *c != '}').collect();
                char::from_u32(u32::from_str_radix(&hex, 16).ok()?)?
            }
            other => other,
        });
    }
    Some(out)
}

/// Replaces a file by one with this text, all or nothing.
pub(crate) fn save_text(path: &Path, text: &str) -> io::Result<()> {
    let new = path.with_extension("new");
    std::fs::write(&new, text)?;
    std::fs::rename(&new, path)
}

/// The notes in a directory, by index. A note that cannot be understood is `None`.
pub(crate) fn notes(dir: &Path) -> io::Result<Vec<(u32, Option<Note>)>> {
    let mut notes = Vec::new();
    let listed = match std::fs::read_dir(dir) {
        Err(err) if err.kind() == io::ErrorKind::NotFound => return Ok(notes),
        listed => listed?,
    };
    for entry in listed {
        let entry = entry?;
        let name = entry.file_name();
        let index = name.to_str().and_then(|name| name.strip_prefix("kdamond-"));
        let Some(index) = index.and_then(|index| index.parse().ok()) else { continue };
        let text = std::fs::read_to_string(entry.path())?;
        notes.push((index, Note::parse(&text).filter(|note| note.index == index)));
    }
    notes.sort_by_key(|(index, _)| *index);
    Ok(notes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn note() -> Note {
        Note {
            boot: "7e7b1c1e-0000-4000-8000-000000000001".into(),
            owner: Who { pid: 7, start: 99 },
            index: 2,
            phase: Phase::Changing,
            worker: Some(Who { pid: 8, start: 100 }),
            files: vec![("contexts/nr_contexts".into(), "1".into())],
            next: vec![
                ("contexts/0/schemes/0/filters/0/memcg_path".into(), String::new()),
                ("contexts/0/schemes/0/filters/1/memcg_path".into(), "/a b\n\\ü".into()),
            ],
        }
    }

    #[test]
    fn reads_back_what_it_wrote() {
        for (phase, _) in Phase::ALL {
            for worker in [None, Some(Who { pid: 1, start: 2 })] {
                let note = Note { phase, worker, ..note() };
                assert_eq!(Note::parse(&note.to_text()), Some(note));
            }
        }
    }

    #[test]
    fn a_cut_note_is_no_note() {
        let text = note().to_text();
        for len in 0..text.len() {
            if text.is_char_boundary(len) {
                assert_eq!(Note::parse(&text[..len]), None, "first {len} bytes");
            }
        }
        assert_eq!(Note::parse("isotherm kdamond 2\nend\n"), None);
    }

    #[test]
    fn saved_by_renaming() {
        let dir = tempfile::tempdir().unwrap();
        note().save(dir.path()).unwrap();
        Note { phase: Phase::Running, ..note() }.save(dir.path()).unwrap();
        std::fs::write(dir.path().join("kdamond-5"), "something else").unwrap();
        std::fs::write(dir.path().join("lock"), "").unwrap();
        let found = notes(dir.path()).unwrap();
        assert_eq!(found.len(), 2);
        assert_eq!(found[0].1.as_ref().map(|note| note.phase), Some(Phase::Running));
        assert_eq!(found[1], (5, None));
        Note::remove(dir.path(), 2).unwrap();
        Note::remove(dir.path(), 2).unwrap();
        assert_eq!(notes(dir.path()).unwrap().len(), 1);
    }
}
