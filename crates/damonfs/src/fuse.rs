//! The tree as a file system, by `fuser`. Nothing else names that crate.
//!
//! It behaves as sysfs and debugfs do to those who read and write them: one write is one
//! transaction, and truncation is accepted and does nothing. The kernel
//! caches no text, since files change by themselves.
//!
//! What a name stands for, and the attributes of files and directories, are cached by the kernel,
//! since programs walk the same long paths thousands of times: at each directory of a path the
//! kernel needs its attributes to see who may pass. A listing hands out both with the names, since
//! who lists a directory looks at what is in it. A write that makes or removes directories has what
//! it changed forgotten before it returns. That waits for whoever looks into the same directory,
//! who waits for us, so it is done by a thread of its own.
//!
//! Requests are answered one after the other by one thread. A command that waits for what runs has
//! a thread of its own, so it keeps nobody else waiting. When this process ends, however it does,
//! the kernel aborts the connection, and clients get ENOTCONN instead of hanging.

use std::ffi::OsStr;
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use fuser::{
    BackgroundSession, BsdFileFlags, Config, Errno, FileAttr, FileHandle, FileType, Filesystem,
    FopenFlags, Generation, INodeNo, InitFlags, KernelConfig, LockOwner, MountOption, Notifier,
    OpenAccMode, OpenFlags, ReplyAttr, ReplyCreate, ReplyData, ReplyDirectory, ReplyDirectoryPlus,
    ReplyEmpty, ReplyEntry, ReplyOpen, ReplyWrite, Request, TimeOrNow, WriteFlags,
};
use rustix::io::Errno as Kernel;

use crate::served::Served;
use crate::tree::{Changed, Ino, Kind};

/// What may change without our telling may not be cached: some names.
const TTL: Duration = Duration::ZERO;

/// For how long the rest may be cached: what a name stands for, and the modes, sizes and times of
/// files and directories. What changes of these is told. A directory that is made anew has another
/// number, so nothing of the old one is found in it.
const STAYS: Duration = Duration::from_secs(3600);

/// A mounted tree. It is unmounted when this is dropped.
#[derive(Debug)]
pub struct Mounted(Option<BackgroundSession>);

impl Mounted {
    /// Waits until somebody has unmounted it.
    ///
    /// # Errors
    ///
    /// If serving it failed.
    pub fn wait(mut self) -> io::Result<()> {
        self.0.take().map_or(Ok(()), BackgroundSession::join)
    }

    /// Whether it is still being served: not after somebody has unmounted it.
    #[must_use]
    pub fn is_served(&self) -> bool {
        self.0.as_ref().is_some_and(|session| !session.guard.is_finished())
    }

    /// Unmounts it.
    ///
    /// # Errors
    ///
    /// What the kernel says.
    pub fn unmount(mut self) -> io::Result<()> {
        self.0.take().map_or(Ok(()), BackgroundSession::umount_and_join)
    }
}

/// Mounts a tree in the calling thread's mount namespace, and serves it until it is unmounted. Its
/// root is the directory `root` of the tree.
///
/// # Errors
///
/// If the kernel refuses the mount.
pub fn mount(tree: Arc<dyn Served>, root: Ino, at: &Path) -> io::Result<Mounted> {
    let mut config = Config::default();
    config.mount_options = vec![
        MountOption::FSName("isotherm-damonfs".into()),
        MountOption::Subtype("damon".into()),
        MountOption::DefaultPermissions,
        MountOption::NoDev,
        MountOption::NoSuid,
        MountOption::NoExec,
        MountOption::NoAtime,
    ];
    // So that the modes decide who may use it, not who has mounted it.
    config.acl = fuser::SessionACL::All;
    let notifier = Arc::new(Mutex::new(None));
    let files = Files { tree, root, made: SystemTime::now(), notifier: Arc::clone(&notifier) };
    let session = fuser::spawn_mount(files, at, &config)?;
    *notifier.lock().unwrap_or_else(PoisonError::into_inner) = Some(session.notifier());
    Ok(Mounted(Some(session)))
}

#[derive(Debug)]
struct Files {
    tree: Arc<dyn Served>,
    root: Ino,
    made: SystemTime,
    /// Tells the kernel what to forget; there as soon as the tree is mounted.
    notifier: Arc<Mutex<Option<Notifier>>>,
}

/// Has the kernel forget directories that were removed, and how many directories there were in
/// those that have others now. Also what another writer has changed is forgotten when this returns:
/// it waits for who forgets it.
fn forget(tree: &dyn Served, root: Ino, notifier: &Mutex<Option<Notifier>>) {
    let notifier = notifier.lock().unwrap_or_else(PoisonError::into_inner);
    let Some(notifier) = &*notifier else { return };
    let Changed { removed, dirs } = tree.take_changed();
    // What the kernel does not know it need not forget.
    for (dir, name) in removed {
        notifier.inval_entry(shown(root, dir), OsStr::new(&*name)).ok();
    }
    for dir in dirs {
        // A negative offset stands for the attributes alone.
        notifier.inval_inode(shown(root, dir), -1, 0).ok();
    }
}

/// The number of a directory or file in the file system. FUSE's root has always the same.
fn shown(root: Ino, ino: Ino) -> INodeNo {
    if ino == root { INodeNo::ROOT } else { INodeNo(ino) }
}

fn errno(kernel: Kernel) -> Errno {
    Errno::from_i32(kernel.raw_os_error())
}

impl Files {
    /// The number in the tree. FUSE's root has always the same.
    fn ino(&self, ino: INodeNo) -> Ino {
        if ino.0 == INodeNo::ROOT.0 { self.root } else { ino.0 }
    }

    fn shown(&self, ino: Ino) -> INodeNo {
        shown(self.root, ino)
    }

    fn attr(&self, ino: Ino, kind: Kind) -> FileAttr {
        FileAttr {
            ino: self.shown(ino),
            size: if kind.is_dir { 0 } else { self.tree.size() },
            blocks: 0,
            atime: self.made,
            mtime: self.made,
            ctime: self.made,
            crtime: self.made,
            kind: if kind.is_dir { FileType::Directory } else { FileType::RegularFile },
            perm: kind.mode,
            nlink: if kind.is_dir { 2 + kind.nr_dirs } else { 1 },
            uid: 0,
            gid: 0,
            rdev: 0,
            blksize: 4096,
            flags: 0,
        }
    }

    /// For how long may be cached what this name stands for.
    fn ttl_of(&self, name: &str) -> Duration {
        if self.tree.is_stable(name) { STAYS } else { TTL }
    }

    fn attr_of(&self, ino: INodeNo) -> Result<FileAttr, Kernel> {
        let ino = self.ino(ino);
        Ok(self.attr(ino, self.tree.kind(ino)?))
    }
}

impl Filesystem for Files {
    fn init(&mut self, _req: &Request, config: &mut KernelConfig) -> io::Result<()> {
        // A kernel that cannot list with attributes asks for them one by one.
        config.add_capabilities(InitFlags::FUSE_DO_READDIRPLUS).ok();
        Ok(())
    }

    fn lookup(&self, _req: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let found = name.to_str().ok_or(Kernel::NOENT).and_then(|name| {
            let ino = self.tree.lookup(self.ino(parent), name)?;
            Ok(self.attr(ino, self.tree.kind(ino)?))
        });
        match found {
            Ok(attr) => {
                let entry = name.to_str().map_or(TTL, |name| self.ttl_of(name));
                reply.entry_with_ttls(&STAYS, &entry, &attr, Generation(0));
            }
            Err(kernel) => reply.error(errno(kernel)),
        }
    }

    fn getattr(&self, _: &Request, ino: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        match self.attr_of(ino) {
            // Who opens a file asks for this of every directory that is passed.
            Ok(attr) => reply.attr(&STAYS, &attr),
            Err(kernel) => reply.error(errno(kernel)),
        }
    }

    fn setattr(
        &self,
        _req: &Request,
        ino: INodeNo,
        mode: Option<u32>,
        uid: Option<u32>,
        gid: Option<u32>,
        _size: Option<u64>,
        _atime: Option<TimeOrNow>,
        _mtime: Option<TimeOrNow>,
        _ctime: Option<SystemTime>,
        _fh: Option<FileHandle>,
        _crtime: Option<SystemTime>,
        _chgtime: Option<SystemTime>,
        _bkuptime: Option<SystemTime>,
        _flags: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        match self.attr_of(ino) {
            // Modes and owners are the tree's. A new size and new times are what every program that
            // opens a file with O_TRUNC sets, and sysfs ignores them.
            Ok(_) if mode.is_some() || uid.is_some() || gid.is_some() => {
                reply.error(Errno::EPERM);
            }
            Ok(attr) => reply.attr(&STAYS, &attr),
            Err(kernel) => reply.error(errno(kernel)),
        }
    }

    fn open(&self, _req: &Request, ino: INodeNo, flags: OpenFlags, reply: ReplyOpen) {
        let writes = flags.acc_mode() != OpenAccMode::O_RDONLY;
        match self.tree.kind(self.ino(ino)) {
            // sysfs refuses this to root, too.
            Ok(kind) if writes && kind.mode & 0o222 == 0 => reply.error(Errno::EACCES),
            Ok(_) => reply.opened(FileHandle(0), FopenFlags::FOPEN_DIRECT_IO),
            Err(kernel) => reply.error(errno(kernel)),
        }
    }

    fn read(
        &self,
        _req: &Request,
        ino: INodeNo,
        _fh: FileHandle,
        offset: u64,
        size: u32,
        _flags: OpenFlags,
        _lock_owner: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let ino = self.ino(ino);
        if !self.tree.may_wait(ino) {
            return show(self.tree.read(ino), offset, size, reply);
        }
        let tree = Arc::clone(&self.tree);
        let thread = std::thread::Builder::new().name("read".into());
        // If there can be no thread, the reply is dropped with the closure, which answers EIO.
        thread.spawn(move || show(tree.read(ino), offset, size, reply)).ok();
    }

    fn write(
        &self,
        _req: &Request,
        ino: INodeNo,
        _fh: FileHandle,
        offset: u64,
        data: &[u8],
        _write_flags: WriteFlags,
        _flags: OpenFlags,
        _lock_owner: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        let ino = self.ino(ino);
        let changes_dirs = self.tree.changes_dirs(ino);
        if !self.tree.may_wait(ino) && !changes_dirs {
            return answer(self.tree.write(ino, offset, data), reply);
        }
        let (tree, data) = (Arc::clone(&self.tree), data.to_vec());
        let (root, notifier) = (self.root, Arc::clone(&self.notifier));
        let thread = std::thread::Builder::new().name("command".into());
        // If there can be no thread, the reply is dropped with the closure, which answers EIO.
        let run = move || {
            let done = tree.write(ino, offset, &data);
            if changes_dirs {
                forget(&*tree, root, &notifier);
            }
            answer(done, reply);
        };
        thread.spawn(run).ok();
    }

    fn readdir(
        &self,
        _req: &Request,
        ino: INodeNo,
        _fh: FileHandle,
        offset: u64,
        mut reply: ReplyDirectory,
    ) {
        let entries = match self.tree.entries(self.ino(ino)) {
            Ok(entries) => entries,
            Err(kernel) => return reply.error(errno(kernel)),
        };
        let skipped = usize::try_from(offset).unwrap_or(usize::MAX);
        for (next, (ino, name, is_dir)) in (1..).zip(entries).skip(skipped) {
            let kind = if is_dir { FileType::Directory } else { FileType::RegularFile };
            if reply.add(self.shown(ino), next, kind, name) {
                break;
            }
        }
        reply.ok();
    }

    fn readdirplus(
        &self,
        _req: &Request,
        ino: INodeNo,
        _fh: FileHandle,
        offset: u64,
        mut reply: ReplyDirectoryPlus,
    ) {
        let entries = match self.tree.entries(self.ino(ino)) {
            Ok(entries) => entries,
            Err(kernel) => return reply.error(errno(kernel)),
        };
        let skipped = usize::try_from(offset).unwrap_or(usize::MAX);
        for (next, (ino, name, _)) in (1..).zip(entries).skip(skipped) {
            // What was removed since is left out.
            let Ok(kind) = self.tree.kind(ino) else { continue };
            let attr = self.attr(ino, kind);
            let ttl = self.ttl_of(&name);
            if reply.add(attr.ino, next, name, &ttl, &attr, Generation(0)) {
                break;
            }
        }
        reply.ok();
    }

    fn create(
        &self,
        _req: &Request,
        _parent: INodeNo,
        _name: &OsStr,
        _mode: u32,
        _umask: u32,
        _flags: i32,
        reply: ReplyCreate,
    ) {
        reply.error(Errno::EACCES);
    }

    fn mkdir(&self, _: &Request, _: INodeNo, _: &OsStr, _: u32, _: u32, reply: ReplyEntry) {
        reply.error(Errno::EPERM);
    }

    fn unlink(&self, _: &Request, _: INodeNo, _: &OsStr, reply: ReplyEmpty) {
        reply.error(Errno::EPERM);
    }

    fn rmdir(&self, _: &Request, _: INodeNo, _: &OsStr, reply: ReplyEmpty) {
        reply.error(Errno::EPERM);
    }
}

fn show(text: Result<Vec<u8>, Kernel>, offset: u64, size: u32, reply: ReplyData) {
    match text {
        Ok(text) => {
            let from = usize::try_from(offset).unwrap_or(usize::MAX).min(text.len());
            let len = usize::try_from(size).unwrap_or(usize::MAX).min(text.len() - from);
            reply.data(&text[from..from + len]);
        }
        Err(kernel) => reply.error(errno(kernel)),
    }
}

fn answer(done: Result<usize, Kernel>, reply: ReplyWrite) {
    match done {
        // One write has at most a page, so this cannot fail.
        Ok(len) => reply.written(u32::try_from(len).unwrap_or(u32::MAX)),
        Err(kernel) => reply.error(errno(kernel)),
    }
}
