//! The tree: directories and files by number, as a file system asks for them.
//!
//! This module knows no FUSE, and nothing of what runs. A number is never used twice, so an open
//! file of a directory that was removed is told from its successor (`ENODEV`, as kernfs does).

mod file;
mod layout;
mod module;
mod number;
mod scheme;

use std::collections::{BTreeMap, BTreeSet};

use rustix::io::Errno;

pub(crate) use file::{Child, Stored, Value, path_of, word_of};
pub(crate) use number::boolean;
pub use scheme::TriedRegion;
pub(crate) use scheme::{STATS, tried_region};

/// The number of a directory or file.
pub type Ino = u64;

/// The directory that holds the others. No file system shows it.
const TOP: Ino = 1;

/// The directory that the kernel shows as `/sys/kernel/mm/damon`.
pub const DAMON: Ino = 2;

/// The directory that holds the modules' directories, as `/sys/module` does.
pub const MODULES: Ino = 3;

#[derive(Debug)]
struct Node {
    parent: Ino,
    name: Box<str>,
    body: Body,
}

#[derive(Debug)]
enum Body {
    Dir(Entries),
    File(Value),
}

/// What is in a directory.
#[derive(Debug, Default)]
struct Entries {
    by_name: BTreeMap<Box<str>, Ino>,
    /// How many of them are directories.
    nr_dirs: u32,
}

/// What a number stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Kind {
    /// Whether it is a directory.
    pub is_dir: bool,
    /// Its permission bits.
    pub mode: u16,
    /// For a directory: how many directories are in it.
    pub nr_dirs: u32,
}

/// What a file system must forget, since writes have changed it.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Changed {
    /// Stable entries that were removed: the directory they were in, and their names.
    pub removed: Vec<(Ino, Box<str>)>,
    /// The directories that have more or fewer directories now.
    pub dirs: BTreeSet<Ino>,
}

/// The tree.
#[derive(Debug)]
pub(crate) struct Tree {
    nodes: BTreeMap<Ino, Node>,
    next: Ino,
    /// What was changed and not asked about yet.
    changed: Changed,
}

impl Tree {
    /// The tree of a kernel that was just booted: no kdamond, and modules that are off.
    pub(crate) fn new() -> Self {
        let top = Node { parent: TOP, name: "".into(), body: Body::Dir(Entries::default()) };
        let nodes = BTreeMap::from([(TOP, top)]);
        let mut this = Self { nodes, next: TOP + 1, changed: Changed::default() };
        let damon = this.dir(TOP, "damon");
        debug_assert_eq!(damon, DAMON, "the first directory has this number");
        let modules = this.dir(TOP, "module");
        debug_assert_eq!(modules, MODULES, "the second directory has this number");
        layout::damon(&mut this, damon);
        module::all(&mut this, modules);
        this
    }

    fn add(&mut self, parent: Ino, name: &str, body: Body) -> Ino {
        let ino = self.next;
        self.next += 1;
        let is_dir = matches!(body, Body::Dir(_));
        self.nodes.insert(ino, Node { parent, name: name.into(), body });
        if let Some(Node { body: Body::Dir(entries), .. }) = self.nodes.get_mut(&parent) {
            entries.by_name.insert(name.into(), ino);
            entries.nr_dirs += u32::from(is_dir);
        }
        ino
    }

    /// Makes a directory.
    pub(crate) fn dir(&mut self, parent: Ino, name: &str) -> Ino {
        self.add(parent, name, Body::Dir(Entries::default()))
    }

    /// Makes a file.
    pub(crate) fn file(&mut self, parent: Ino, name: &str, value: Value) -> Ino {
        self.add(parent, name, Body::File(value))
    }

    /// Removes a directory or file, and all that is in it.
    pub(crate) fn remove(&mut self, ino: Ino) {
        let Some(node) = self.nodes.remove(&ino) else { return };
        if let Some(Node { body: Body::Dir(siblings), .. }) = self.nodes.get_mut(&node.parent) {
            siblings.by_name.remove(&node.name);
            siblings.nr_dirs -= u32::from(matches!(node.body, Body::Dir(_)));
            self.changed.removed.push((node.parent, node.name.clone()));
        }
        let mut left = vec![node];
        while let Some(node) = left.pop() {
            if let Body::Dir(entries) = node.body {
                left.extend(entries.by_name.values().filter_map(|child| self.nodes.remove(child)));
            }
        }
    }

    /// What was changed since the last call.
    pub(crate) fn take_changed(&mut self) -> Changed {
        std::mem::take(&mut self.changed)
    }

    /// Notes that a directory that could be seen already has more or fewer directories now.
    fn note_changed(&mut self, dir: Ino) {
        self.changed.dirs.insert(dir);
    }

    /// The entry of a directory with this name.
    ///
    /// # Errors
    ///
    /// ENOENT if there is none, ENOTDIR if this is a file.
    pub(crate) fn lookup(&self, dir: Ino, name: &str) -> Result<Ino, Errno> {
        self.children(dir)?.get(name).copied().ok_or(Errno::NOENT)
    }

    fn children(&self, dir: Ino) -> Result<&BTreeMap<Box<str>, Ino>, Errno> {
        match &self.nodes.get(&dir).ok_or(Errno::NOENT)?.body {
            Body::Dir(entries) => Ok(&entries.by_name),
            Body::File(_) => Err(Errno::NOTDIR),
        }
    }

    /// The entries of a directory: number, name, and whether it is a directory.
    ///
    /// # Errors
    ///
    /// As [`Tree::lookup`].
    pub(crate) fn entries(&self, dir: Ino) -> Result<Vec<(Ino, String, bool)>, Errno> {
        let is_dir = |ino| matches!(self.nodes.get(ino), Some(Node { body: Body::Dir(_), .. }));
        let children = self.children(dir)?.iter();
        Ok(children.map(|(name, ino)| (*ino, name.to_string(), is_dir(ino))).collect())
    }

    /// The directory that this is in.
    pub(crate) fn parent(&self, ino: Ino) -> Option<Ino> {
        self.nodes.get(&ino).map(|node| node.parent)
    }

    /// What this number stands for.
    ///
    /// # Errors
    ///
    /// ENOENT if it was removed.
    pub(crate) fn kind(&self, ino: Ino) -> Result<Kind, Errno> {
        match &self.nodes.get(&ino).ok_or(Errno::NOENT)?.body {
            Body::File(value) => Ok(Kind { is_dir: false, mode: value.mode(), nr_dirs: 0 }),
            Body::Dir(entries) => Ok(Kind { is_dir: true, mode: 0o755, nr_dirs: entries.nr_dirs }),
        }
    }

    /// The value of a file.
    ///
    /// # Errors
    ///
    /// ENODEV if it was removed, EISDIR if it is a directory.
    pub(crate) fn value(&self, ino: Ino) -> Result<&Value, Errno> {
        match self.nodes.get(&ino).map(|node| &node.body) {
            Some(Body::File(value)) => Ok(value),
            Some(Body::Dir(_)) => Err(Errno::ISDIR),
            None => Err(Errno::NODEV),
        }
    }

    /// The value of a file, to change it.
    ///
    /// # Errors
    ///
    /// As [`Tree::value`].
    pub(crate) fn value_mut(&mut self, ino: Ino) -> Result<&mut Value, Errno> {
        match self.nodes.get_mut(&ino).map(|node| &mut node.body) {
            Some(Body::File(value)) => Ok(value),
            Some(Body::Dir(_)) => Err(Errno::ISDIR),
            None => Err(Errno::NODEV),
        }
    }

    /// Stores a text into a file. Writing a `nr_` file makes all child directories anew.
    ///
    /// # Errors
    ///
    /// The kernel's; nothing has changed then.
    pub(crate) fn store(&mut self, ino: Ino, text: &[u8]) -> Result<(), Errno> {
        if let Stored::Children(count, child) = self.value_mut(ino)?.store(text)? {
            let dir = self.parent(ino).ok_or(Errno::NODEV)?;
            self.remake(dir, count, child);
        }
        Ok(())
    }

    /// Removes all directories with numbers from a directory, and makes new ones.
    fn remake(&mut self, dir: Ino, count: u32, child: Child) {
        self.remove_numbered(dir);
        for number in 0..count {
            let made = self.dir(dir, &number.to_string());
            layout::fill(self, made, child);
        }
    }

    /// Removes all directories with numbers from a directory.
    pub(crate) fn remove_numbered(&mut self, dir: Ino) {
        self.note_changed(dir);
        for (_, ino) in self.numbered(dir) {
            self.remove(ino);
        }
    }

    /// The directories with numbers in a directory, in order.
    pub(crate) fn numbered(&self, dir: Ino) -> Vec<(u32, Ino)> {
        let Ok(children) = self.children(dir) else { return Vec::new() };
        let mut found: Vec<(u32, Ino)> =
            children.iter().filter_map(|(name, ino)| Some((name.parse().ok()?, *ino))).collect();
        found.sort_unstable();
        found
    }

    /// What is at this path below a directory.
    pub(crate) fn at(&self, dir: Ino, path: &str) -> Option<Ino> {
        let parts = path.split('/').filter(|part| !part.is_empty());
        parts.into_iter().try_fold(dir, |dir, part| self.lookup(dir, part).ok())
    }

    /// The value at this path below a directory.
    pub(crate) fn value_at(&self, dir: Ino, path: &str) -> Option<&Value> {
        self.value(self.at(dir, path)?).ok()
    }

    /// Puts a value into the file at this path, if the file is there.
    pub(crate) fn set(&mut self, dir: Ino, path: &str, value: Value) {
        if let Some(ino) = self.at(dir, path)
            && let Ok(old) = self.value_mut(ino)
        {
            *old = value;
        }
    }
}
