//! DAMON's modules: their files, what they run, and that each is alone (R§6).

use isotherm_core::scheme::{Action, Bounds};
use isotherm_damon::model::{FilterKind, GoalMetric, Operations};
use isotherm_damonfs::{Asker, MODULES};
use rustix::io::Errno;

use crate::fake::{PID, Tree};

impl Tree {
    fn parameter(&self, module: &str, name: &str) -> u64 {
        let dir = self.world.lookup(MODULES, &format!("damon_{module}")).unwrap();
        let parameters = self.world.lookup(dir, "parameters").unwrap();
        self.world.lookup(parameters, name).unwrap()
    }

    fn set(&self, module: &str, name: &str, text: &str) -> Result<(), Errno> {
        self.world.write(self.parameter(module, name), text.as_bytes()).map(drop)
    }

    fn get(&self, module: &str, name: &str) -> String {
        let text = self.world.read(self.parameter(module, name)).unwrap();
        String::from_utf8(text).unwrap().trim_end().to_owned()
    }
}

#[test]
fn reclaim_pages_out_what_was_idle_for_two_minutes() {
    let tree = Tree::new();
    assert_eq!(tree.get("reclaim", "enabled"), "N");
    assert_eq!(tree.get("reclaim", "kdamond_pid"), "-1");
    assert_eq!(tree.set("reclaim", "commit_inputs", "Y"), Err(Errno::INVAL), "not started");
    tree.set("reclaim", "skip_anon", "Y").unwrap();
    tree.set("reclaim", "enabled", "Y\n").unwrap();
    assert_eq!(tree.get("reclaim", "enabled"), "Y");
    assert_eq!(tree.get("reclaim", "kdamond_pid"), PID.to_string());
    assert_eq!(tree.get("reclaim", "nr_reclaim_tried_regions"), "1");
    assert_eq!(tree.get("reclaim", "bytes_reclaimed_regions"), "4");
    let by = Asker::Module(isotherm_damon::modules::Module::Reclaim);
    assert_eq!(*tree.engine.asked.lock().unwrap(), [by]);
    let context = tree.engine.told.lock().unwrap()[0].context.clone();
    assert_eq!((context.operations, context.targets.len()), (Operations::Paddr, 1));
    let scheme = &context.schemes[0];
    assert_eq!(scheme.action, Action::Pageout);
    assert_eq!(scheme.pattern.sz, Bounds::new(4096, u64::MAX));
    assert_eq!(scheme.pattern.age, Bounds::new(1200, u32::MAX));
    assert_eq!((scheme.quota.ms, scheme.quota.bytes), (10, 128 << 20));
    assert_eq!(scheme.ops_filters[0].kind, FilterKind::Anon);
    tree.set("reclaim", "min_age", "1000000").unwrap();
    assert_eq!(tree.engine.told.lock().unwrap().len(), 1, "not before a commit");
    tree.set("reclaim", "commit_inputs", "Y").unwrap();
    let told = tree.engine.told.lock().unwrap();
    assert_eq!(told[1].context.schemes[0].pattern.age, Bounds::new(10, u32::MAX));
}

#[test]
fn lru_sort_has_a_scheme_for_hot_and_one_for_cold() {
    let tree = Tree::new();
    tree.set("lru_sort", "active_mem_bp", "10001").unwrap();
    assert_eq!(tree.set("lru_sort", "enabled", "Y"), Err(Errno::INVAL));
    tree.set("lru_sort", "active_mem_bp", "4000").unwrap();
    tree.set("lru_sort", "enabled", "Y").unwrap();
    let schemes = tree.engine.told.lock().unwrap()[0].context.schemes.clone();
    assert_eq!(schemes[0].pattern.nr_accesses, Bounds::new(10, u32::MAX));
    assert_eq!(schemes[1].pattern.age, Bounds::new(1200, u32::MAX));
    assert_eq!((schemes[0].quota.ms, schemes[1].quota.ms), (5, 5));
    let goal = |index: usize| {
        let goal = &schemes[index].quota.goals[0];
        (goal.metric.clone(), goal.target_value)
    };
    assert_eq!(goal(0), (GoalMetric::ActiveMemBp, 4000));
    assert_eq!(goal(1), (GoalMetric::InactiveMemBp, 6002));
    assert_eq!(tree.get("lru_sort", "nr_lru_sort_tried_cold_regions"), "11");
    assert_eq!(tree.get("lru_sort", "nr_cold_quota_exceeds"), "16");
}

#[test]
fn stat_tunes_its_intervals_and_acts_on_nothing() {
    let tree = Tree::new();
    tree.set("stat", "enabled", "1").unwrap();
    let context = tree.engine.told.lock().unwrap()[0].context.clone();
    assert!(context.schemes.is_empty());
    assert_eq!((context.intervals.goal.access_bp, context.intervals.goal.aggrs), (400, 3));
    assert_eq!(tree.get("stat", "aggr_interval_us"), "8888");
    assert_eq!(tree.get("stat", "memory_idle_ms_percentiles").split(',').count(), 101);
}

#[test]
fn a_module_and_a_kdamond_never_run_together() {
    let tree = Tree::with_context();
    tree.set("stat", "enabled", "Y").unwrap();
    assert_eq!(tree.write("0/state", "on"), Err(Errno::BUSY));
    assert_eq!(tree.set("reclaim", "enabled", "Y"), Err(Errno::BUSY));
    tree.set("stat", "enabled", "N").unwrap();
    assert_eq!(tree.get("stat", "kdamond_pid"), "-1");
    tree.put("0/state", "on");
    assert_eq!(tree.set("stat", "enabled", "Y"), Err(Errno::BUSY));
    assert_eq!(tree.set("stat", "enabled", "maybe"), Err(Errno::INVAL));
}
