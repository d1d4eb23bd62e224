//! The files from before the tree: their texts, errnos, and that they start and stop together.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use isotherm_core::scheme::Action;
use isotherm_damon::model::Operations;
use isotherm_damonfs::debugfs::{Debugfs, ROOT};
use isotherm_damonfs::{Ino, Served};
use rustix::io::Errno;

use crate::fake::{PID, Tree};

/// The files over a fake engine.
pub(crate) struct Old {
    pub(crate) files: Arc<Debugfs>,
    pub(crate) tree: Tree,
}

impl Old {
    pub(crate) fn new() -> Self {
        let tree = Tree::new();
        Self { files: Debugfs::new(Arc::clone(&tree.world)), tree }
    }

    pub(crate) fn at(&self, path: &str) -> Result<Ino, Errno> {
        path.split('/').try_fold(ROOT, |dir, name| self.files.lookup(dir, name))
    }

    pub(crate) fn write(&self, path: &str, text: &str) -> Result<(), Errno> {
        self.files.write(self.at(path)?, 0, text.as_bytes()).map(drop)
    }

    pub(crate) fn read(&self, path: &str) -> Result<String, Errno> {
        Ok(String::from_utf8(self.files.read(self.at(path)?)?).unwrap())
    }

    /// A pid that exists.
    pub(crate) fn own() -> String {
        std::process::id().to_string()
    }
}

#[test]
fn a_context_is_set_started_and_stopped_as_in_the_seeds() {
    let old = Old::new();
    assert_eq!(old.read("attrs").unwrap(), "5000 100000 1000000 10 1000\n");
    assert_eq!(old.read("kdamond_pid").unwrap(), "none\n");
    assert_eq!(old.read("monitor_on").unwrap(), "off\n");
    assert_eq!(old.write("monitor_on", "on"), Err(Errno::INVAL), "there is no target");
    assert_eq!(old.write("monitor_on", "off"), Err(Errno::PERM));
    old.write("attrs", "5 100 1000 10 20\n").unwrap();
    old.write("target_ids", &Old::own()).unwrap();
    assert_eq!(old.read("target_ids").unwrap(), format!("{}\n", Old::own()));
    old.write("init_regions", "0 4096 8192\n0 8192 12288").unwrap();
    assert_eq!(old.read("init_regions").unwrap(), "0 4096 8192\n0 8192 12288\n");
    old.write("schemes", "4096 8192 0 1 2 3 2 0 0 0 0 0 0 0 0 0 0 0\n").unwrap();
    old.write("monitor_on", "on\n").unwrap();
    assert_eq!(old.read("monitor_on").unwrap(), "on\n");
    assert_eq!(old.read("kdamond_pid").unwrap(), format!("{PID}\n"));
    let context = old.tree.engine.told.lock().unwrap()[0].context.clone();
    assert_eq!((context.intervals.sample_us, context.nr_regions.max), (5, 20));
    assert_eq!(context.targets[0].regions.len(), 2);
    assert_eq!(context.schemes[0].action, Action::Pageout);
    // What was counted is behind what was set.
    assert_eq!(
        old.read("schemes").unwrap(),
        "4096 8192 0 1 2 3 2 0 0 0 0 0 0 0 0 0 0 0 1 2 3 4 6\n"
    );
    for (file, text) in [("attrs", "5 100 1000 10 20"), ("target_ids", ""), ("schemes", "")] {
        assert_eq!(old.write(file, text), Err(Errno::BUSY), "{file}");
    }
    assert_eq!(old.read("init_regions"), Err(Errno::BUSY));
    assert_eq!(old.write("mk_contexts", "x"), Err(Errno::BUSY));
    assert_eq!(old.write("monitor_on", "on"), Err(Errno::BUSY));
    old.write("monitor_on", "off").unwrap();
    assert_eq!(old.read("target_ids").unwrap(), "\n", "the processes are let go");
    assert!(old.read("schemes").unwrap().ends_with(" 1 2 3 4 6\n"), "counts stay");
}

#[test]
fn contexts_are_made_and_removed_by_name() {
    let old = Old::new();
    old.write("mk_contexts", " foo \n").unwrap();
    assert_eq!(old.write("mk_contexts", "foo"), Err(Errno::EXIST));
    assert_eq!(old.write("mk_contexts", "attrs"), Err(Errno::EXIST));
    assert_eq!(old.write("mk_contexts", "a/b"), Err(Errno::INVAL));
    assert_eq!(old.write("mk_contexts", "\n"), Err(Errno::INVAL));
    assert_eq!(old.read("mk_contexts"), Err(Errno::INVAL));
    assert_eq!(old.read("foo/monitor_on"), Err(Errno::NOENT), "that is for all");
    let open = old.at("foo/attrs").unwrap();
    assert_eq!(old.files.kind(ROOT).unwrap().nr_dirs, 1);
    // All start together, so none starts while one has no target.
    old.write("target_ids", &Old::own()).unwrap();
    assert_eq!(old.write("monitor_on", "on"), Err(Errno::INVAL));
    old.write("foo/target_ids", "paddr\n").unwrap();
    assert_eq!(old.read("foo/target_ids").unwrap(), "42\n");
    old.write("monitor_on", "on").unwrap();
    let told = old.tree.engine.told.lock().unwrap().clone();
    assert_eq!(told[1].context.operations, Operations::Paddr);
    old.write("monitor_on", "off").unwrap();
    assert_eq!(old.write("rm_contexts", "attrs"), Err(Errno::INVAL));
    assert_eq!(old.write("rm_contexts", "bar"), Err(Errno::NOENT));
    old.write("rm_contexts", "foo").unwrap();
    assert_eq!(old.read("foo/attrs"), Err(Errno::NOENT));
    assert_eq!(old.files.read(open), Err(Errno::NODEV), "what was open is gone");
}

#[test]
fn what_the_kernel_refuses_is_refused() {
    let old = Old::new();
    for text in ["1 2 3 4", "1 2 3 5 4", "1 2 3 2 4", "20 10 3 4 5", "x"] {
        assert_eq!(old.write("attrs", text), Err(Errno::INVAL), "{text}");
    }
    assert_eq!(old.read("attrs").unwrap(), "5000 100000 1000000 10 1000\n", "nothing has changed");
    assert_eq!(old.write("target_ids", "999999999"), Err(Errno::NOMEM));
    assert_eq!(old.write("init_regions", "0 1 2"), Err(Errno::INVAL), "there is no target");
    assert_eq!(old.write("kdamond_pid", "1"), Err(Errno::INVAL));
    assert_eq!(old.write("monitor_on", "maybe"), Err(Errno::INVAL));
    assert_eq!(old.files.write(old.at("attrs").unwrap(), 1, b"1 2 3 4 5"), Err(Errno::INVAL));
}

#[test]
fn these_files_and_the_tree_exclude_each_other() {
    let old = Old::new();
    old.tree.put("nr_kdamonds", "1");
    old.tree.put("0/contexts/nr_contexts", "1");
    old.write("target_ids", &Old::own()).unwrap();
    old.tree.put("0/state", "on");
    assert_eq!(old.write("monitor_on", "on"), Err(Errno::BUSY));
    assert_eq!(old.read("monitor_on").unwrap(), "on\n");
    old.tree.put("0/state", "off");
    old.write("monitor_on", "on").unwrap();
    assert_eq!(old.tree.write("0/state", "on"), Err(Errno::BUSY));
    // A context that ends by itself lets the others go on.
    for worker in &*old.tree.engine.workers.lock().unwrap() {
        worker.runs.store(false, Ordering::SeqCst);
    }
    assert_eq!(old.read("monitor_on").unwrap(), "off\n");
    old.tree.put("0/state", "on");
}
