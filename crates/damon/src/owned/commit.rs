//! Changing a kdamond while it runs: the whole change, or none of it.
//!
//! On `commit` the kernel reads all files again. Newer kernels (7.2) try the change on a copy of
//! the context first. Older ones (6.12) apply what they can, end the kdamond at the first thing
//! that they cannot apply, and report success. Therefore this module refuses what is known to be
//! refused before it writes, and after a commit checks that the kdamond still runs.
//!
//! If a file or the commit is refused, the old values are written back. Values that the kernel
//! tuned or found by itself are kept: the files still show the first values, and must not undo
//! them.

use isotherm_host::Version;

use crate::config::check::{missing_cgroups, problems};
use crate::config::entries::{FilterDirs, entries};
use crate::config::model::{Config, Target};
use crate::error::{self, DamonError, DamonKind};
use crate::kdamond::Command;
use crate::kdamond::write::Written;
use crate::owned::claim::Claim;
use crate::owned::note::{Phase, file_list};

impl Claim {
    /// Tells the running kdamond to do `config` instead. What stays keeps its regions, counters and
    /// quota windows. A target that is not in `config` is removed, wherever it stood. Targets are
    /// told apart by pid, and new ones must come last. Before 6.19, the targets behind a removed
    /// one begin anew.
    ///
    /// Tuned intervals stay as tuned unless `config` changes them.
    ///
    /// # Errors
    ///
    /// What the kernel refused. The files hold their old values again, and the kdamond goes on as
    /// before. If the kdamond ended instead, the error is [`DamonKind::NotRunning`].
    pub fn commit(&mut self, config: &Config) -> Result<(), DamonError> {
        if !self.is_running()? {
            return Err(self.kdamond.died("change"));
        }
        let mut config = config.clone();
        for target in &mut config.context.targets {
            target.obsolete = false;
        }
        self.check(&config)?;
        self.keep_tuned()?;
        let old = &self.config.context.targets;
        let steps = steps(old, &config.context.targets, self.can_mark_obsolete());
        let stops = |step: &Step| step.targets.is_empty() && !old.is_empty();
        if steps.iter().rev().skip(1).any(stops) {
            return Err(error::cannot(
                DamonKind::NotInTheKernel,
                format!("remove the first target of kdamond {}", self.kdamond.index()),
                "this kernel can only do that by removing all, and a kdamond without targets ends",
                "turn it off and on again with the new targets",
            ));
        }
        for Step { targets, committed } in steps {
            let mut step = config.clone();
            step.context.targets = targets;
            let step = self.as_written(step);
            self.change(&step, committed.then_some(Command::Commit))?;
        }
        self.config = config;
        Ok(())
    }

    /// Commits only the goals of `config`'s schemes: for a target value or a user's value that
    /// changes often. Does nothing if the goals did not change. Kernels before 6.8 have neither
    /// this command nor goals.
    ///
    /// # Errors
    ///
    /// As [`Self::commit`].
    pub fn commit_goals(&mut self, config: &Config) -> Result<(), DamonError> {
        if !self.is_running()? {
            return Err(self.kdamond.died("change"));
        }
        let mut wanted = self.config.clone();
        let new = &config.context.schemes;
        for (scheme, new) in wanted.context.schemes.iter_mut().zip(new) {
            scheme.quota.goals.clone_from(&new.quota.goals);
        }
        if wanted == self.config {
            return Ok(());
        }
        let step = self.as_written(wanted.clone());
        self.change(&step, Some(Command::CommitGoals))?;
        self.config = wanted;
        Ok(())
    }

    /// `config` with the intervals and regions that the files must hold, so that the commit does
    /// not undo what the kernel found by itself.
    fn as_written(&self, mut step: Config) -> Config {
        let (new, old) = (&mut step.context, &self.config.context);
        if new.intervals.goal.aggrs != 0
            && new.intervals == old.intervals
            && let Some(now) = self.written.intervals()
        {
            new.intervals.sample_us = now.sample_us;
            new.intervals.aggr_us = now.aggr_us;
        }
        for target in &mut new.targets {
            // Writing the same ranges again would cut the regions back to them. Writing none keeps
            // the regions.
            if old.targets.iter().any(|old| old.pid == target.pid && old.regions == target.regions)
            {
                target.regions.clear();
            }
        }
        step
    }

    /// Refuses what the kernel is known to refuse. Kernels before 6.15 do not report how a commit
    /// went, and end the kdamond if they refuse it, so this check is the only protection.
    fn check(&self, config: &Config) -> Result<(), DamonError> {
        let proc = self.kdamond.root().proc();
        let mut found = problems(config, |pid| proc.stat(pid, &mut Vec::new()).is_ok());
        found.extend(missing_cgroups(config, proc));
        if found.is_empty() {
            return Ok(());
        }
        let tried = format!("change kdamond {}", self.kdamond.index());
        Err(error::cannot(DamonKind::Refused, tried, found.join("; "), ""))
    }

    /// Gives a command that changes what runs, and checks that the kdamond still runs afterwards.
    fn carry_out(&self, command: Command) -> Result<(), DamonError> {
        self.kdamond.command(command)?;
        let root = self.kdamond.root();
        let tells = Version::parse(&root.release()).is_some_and(|v| v >= Version::new(6, 15));
        if !tells {
            // `update_schemes_stats` waits for the worker's next turn, and fails if the worker has
            // ended.
            self.kdamond.command(Command::UpdateStats)?;
        }
        if self.kdamond.pid()?.is_some() { Ok(()) } else { Err(self.kdamond.died("change")) }
    }

    fn keep_tuned(&mut self) -> Result<(), DamonError> {
        if self.config.context.intervals.goal.aggrs != 0 {
            let now = self.kdamond.tuned_intervals()?;
            self.written.set_intervals(now);
        }
        Ok(())
    }

    fn can_mark_obsolete(&self) -> bool {
        let file = self.kdamond.path("contexts/0/targets/0/obsolete_target");
        self.kdamond.root().exists(&file)
    }

    /// Writes the files and gives the command. On an error the files are as before.
    fn change(&mut self, config: &Config, command: Option<Command>) -> Result<(), DamonError> {
        let ledger = self.ledger()?;
        self.note.phase = Phase::Changing;
        // The note holds both ways of saying filters, because only writing shows which one the
        // kernel has.
        self.note.next = file_list(&entries(config, FilterDirs::Layers));
        self.note.next.extend(file_list(&entries(config, FilterDirs::One)));
        self.save_note(&ledger)?;
        let before = self.written.clone();
        let done = self.kdamond.write(config, Some(&before)).and_then(|written| {
            self.written = written;
            command.map_or(Ok(()), |command| self.carry_out(command))
        });
        let done = done.map_err(|err| self.take_back(err, &before, command));
        self.note.files = file_list(self.written.entries());
        self.note.next.clear();
        self.note.phase = Phase::Running;
        self.save_note(&ledger)?;
        done
    }

    fn take_back(
        &mut self,
        err: DamonError,
        before: &Written,
        command: Option<Command>,
    ) -> DamonError {
        let refused_files = self.written == *before;
        if !refused_files {
            match self.kdamond.rewrite(before, &self.written) {
                Ok(()) => self.written = before.clone(),
                Err(more) => {
                    return err
                        .because(&format!("and the old files could not be put back: {more}"));
                }
            }
        }
        match self.kdamond.pid() {
            Ok(None) => ended(err),
            // Before 6.18 half of it may have been taken over.
            Ok(Some(_)) if !refused_files && command.is_some() => {
                match self.kdamond.command(Command::Commit) {
                    Ok(()) => err,
                    Err(_) if matches!(self.kdamond.pid(), Ok(None)) => ended(err),
                    Err(more) => err.because(&format!("and going back failed: {more}")),
                }
            }
            _ => err,
        }
    }
}

fn ended(err: DamonError) -> DamonError {
    err.map_kind(|_| DamonKind::NotRunning).because("and the kdamond ended by that")
}

/// Targets to write, and whether to commit them.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Step {
    targets: Vec<Target>,
    committed: bool,
}

/// A process that never ends. The kernel wants a live process even for a target that is marked as
/// obsolete, and refuses the whole commit if that process has ended (`damon_sysfs_add_target()`,
/// 6.19 to 7.2). But an ended process is the usual reason to remove a target. The kernel does not
/// use this pid further: it destroys the target at that place (`damon_commit_targets()`).
const ALWAYS_THERE: i32 = 1;

/// The steps from the targets `old` to `new` in which no target gets the regions of another.
/// `marks` says that targets can be marked for removal. Then the last step only changes the files,
/// to hold what the kernel has carried out by then.
fn steps(old: &[Target], new: &[Target], marks: bool) -> Vec<Step> {
    let step = |targets: Vec<Target>| Step { targets, committed: true };
    let same_front = old.iter().zip(new).take_while(|(a, b)| a.pid == b.pid).count();
    if same_front == old.len() || same_front == new.len() {
        // Only the end of the list changes. The kernel itself removes and appends there.
        return vec![step(new.to_vec())];
    }
    let of_new = |pid: i32| new.iter().find(|target| target.pid == pid);
    let kept: Vec<i32> =
        old.iter().map(|target| target.pid).filter(|&pid| of_new(pid).is_some()).collect();
    let in_order = new.iter().map(|target| target.pid).take(kept.len()).eq(kept.iter().copied());
    let unique = |list: &[Target]| {
        list.iter().enumerate().all(|(i, t)| list[..i].iter().all(|other| other.pid != t.pid))
    };
    if marks && in_order && unique(old) && unique(new) {
        let gone = || Target { pid: ALWAYS_THERE, obsolete: true, ..Target::default() };
        let mut marked: Vec<Target> =
            old.iter().map(|target| of_new(target.pid).cloned().unwrap_or_else(gone)).collect();
        marked.extend_from_slice(&new[kept.len()..]);
        return vec![step(marked), Step { targets: new.to_vec(), committed: false }];
    }
    // A target behind the first difference would take over the regions of the one that stood at its
    // place. So all of these begin anew.
    vec![step(new[..same_front].to_vec()), step(new.to_vec())]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn targets(pids: &[i32]) -> Vec<Target> {
        let one = |&pid: &i32| Target { pid: pid.abs(), obsolete: pid < 0, ..Target::default() };
        pids.iter().map(one).collect()
    }

    #[test]
    fn steps_never_give_a_target_the_regions_of_another() {
        let check = |old: &[i32], new: &[i32], marks: bool, want: &[(&[i32], bool)]| {
            let got = steps(&targets(old), &targets(new), marks);
            let want: Vec<_> = want
                .iter()
                .map(|(pids, committed)| Step { targets: targets(pids), committed: *committed })
                .collect();
            assert_eq!(got, want, "{old:?} to {new:?}, marks: {marks}");
        };
        for marks in [false, true] {
            check(&[1, 2], &[1, 2], marks, &[(&[1, 2], true)]);
            check(&[1], &[1, 2], marks, &[(&[1, 2], true)]);
            check(&[1, 2, 3], &[1], marks, &[(&[1], true)]);
            check(&[], &[1], marks, &[(&[1], true)]);
        }
        check(&[1, 2, 3], &[1, 3], true, &[(&[1, -1, 3], true), (&[1, 3], false)]);
        check(&[1, 2, 3], &[3, 4], true, &[(&[-1, -1, 3, 4], true), (&[3, 4], false)]);
        check(&[1, 2], &[3], true, &[(&[-1, -1, 3], true), (&[3], false)]);
        check(&[1, 2, 3], &[1, 3], false, &[(&[1], true), (&[1, 3], true)]);
        check(&[1, 2], &[2, 1], true, &[(&[], true), (&[2, 1], true)]);
        check(&[7, 8, 7], &[8, 7], true, &[(&[], true), (&[8, 7], true)]);
    }
}
