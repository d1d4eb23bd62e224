//! The agent: brings its parts up, waits for signals, and brings them down.

use std::fmt;
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, OnceLock, PoisonError, RwLock};
use std::time::{Duration, Instant};

use isotherm_act::apply::{Notes, Undone};
use isotherm_agent::policy::parse;
use isotherm_agent::run::{Options, check};
use isotherm_fleet::Fleet;
use isotherm_host::proc::{own_cost, raise_file_limit};
use isotherm_host::{Machine, Roots};
use isotherm_metrics::{Build, Exporter};
use isotherm_sys::{heap, signals};
use tracing::{info, warn};

use crate::access::Access;
use crate::advice::AdviceLog;
use crate::budget::Balance;
use crate::history::History;
use crate::hub::Hub;
use crate::memory::{Step, Thrift};
use crate::notify::Notify;
use crate::policy::{Policies, With, files, tuning};
use crate::rollout::{Switch, Trips, Trust};
use crate::server::Server;
use crate::settings::Settings;
use crate::shared::Shared;
use crate::state::{StateError, Store};

mod fleet;

use fleet::Watch;

/// How often signals are looked at.
const TICK: Duration = Duration::from_millis(100);
/// How long the first tries of policies may take before the agent says that it is ready.
const READY_PATIENCE: Duration = Duration::from_secs(20);
/// How often the budget is shared anew.
const BALANCE_EVERY: Duration = Duration::from_secs(5);
/// How often old records are dropped.
const PRUNE_EVERY: Duration = Duration::from_secs(10);
/// What the agent is installed with (`packaging/isotherm.service`, docs/KUBERNETES.md).
const CAPABILITIES: [&str; 5] =
    ["CAP_BPF", "CAP_PERFMON", "CAP_SYS_PTRACE", "CAP_SYS_NICE", "CAP_DAC_OVERRIDE"];
/// Where the machine's groups are.
const GROUPS: &str = "/etc/group";

/// Why the agent cannot run.
#[derive(Debug)]
pub struct Failed {
    /// The exit code that a program should end with.
    pub code: u8,
    /// What, why, and what to do; for people.
    pub text: String,
}

impl fmt::Display for Failed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl std::error::Error for Failed {}

impl From<StateError> for Failed {
    fn from(err: StateError) -> Self {
        Self { code: err.exit_code(), text: err.to_string() }
    }
}

/// What is to be said of one file, by `--check`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Checked {
    /// The policy, or the file if it has no name.
    pub name: String,
    /// What is wrong, and the exit code for it; none if it can run.
    pub problem: Option<(u8, String)>,
}

/// The agent.
#[derive(Debug)]
pub struct Agent {
    shared: Arc<Shared>,
    access: Arc<RwLock<Access>>,
    notify: Notify,
    server: Option<Server>,
    switch: Arc<Switch>,
}

impl Agent {
    /// Reads all policies and says of each whether it could run. Nothing is started.
    #[must_use]
    pub fn check(settings: &Settings) -> Vec<Checked> {
        let mut found = files::find(settings.policies_dir.as_deref(), &settings.policies);
        found.refuse_unvouched(&Trust::new(&settings.rollout));
        let problems = found.problems.into_iter();
        let mut all: Vec<Checked> = problems
            .map(|text| Checked { name: "files".to_owned(), problem: Some((2, text)) })
            .collect();
        for (name, file) in found.files {
            let path = file.path.display().to_string();
            let parsed = file.text.and_then(|text| parse(&text, &path).map_err(|e| e.to_string()));
            let problem = match parsed {
                Err(text) => Some((2, text)),
                Ok(policy) => tuning::refuse(&policy, &name)
                    .err()
                    .map(|refused| (refused.code, refused.text))
                    .or_else(|| {
                        let fatal = check(&policy).into_iter().find(|problem| problem.fatal);
                        fatal.map(|problem| (problem.code, problem.text))
                    }),
            };
            all.push(Checked { name, problem });
        }
        all
    }

    /// Starts the agent: its state, its socket, and all policies.
    ///
    /// # Errors
    ///
    /// If the state or the socket cannot be used. A policy that cannot run is no error.
    pub fn start(settings: Settings) -> Result<Self, Failed> {
        raise_file_limit();
        heap::give_back_large_blocks();
        spare_from_oom();
        let notify = Notify::of_environment().map_err(|err| Failed {
            code: 1,
            text: format!("cannot talk to systemd (NOTIFY_SOCKET): {err}"),
        })?;
        let store = Store::open(&settings.state_dir.join("state"), &settings.version)?;
        let hub = Arc::new(Hub::default());
        let metrics = metrics(&settings)?;
        let options = Options {
            dry_run: settings.dry_run,
            undo_on_exit: true,
            by_cgroup: settings.adds_up_cgroups(),
            by_age: settings.fleet.is_some(),
            undo_huge: false,
            seed: None,
        };
        let fleet = fleet(settings.fleet.clone())?;
        let switch = Switch::start(&settings.rollout.stop_file).map_err(|err| Failed {
            code: 1,
            text: format!("cannot look for stop files\n  tried: start a thread: {err}"),
        })?;
        let switch = Arc::new(switch);
        let notes = begin_notes(&settings)?;
        let of_history = |retention| History::new(settings.state_dir.join("history"), retention);
        let history = settings.history.map(of_history).map(Arc::new);
        let with = With {
            options,
            notes,
            hub: Arc::clone(&hub),
            history: history.clone(),
            metrics: metrics.clone(),
            fleet: fleet.clone(),
            trust: Trust::new(&settings.rollout),
            switch: Arc::clone(&switch),
            trips: Trips::new(&settings.state_dir),
            host: settings.rollout.host.clone().into(),
            thrift: Arc::default(),
            tuned_dir: settings.state_dir.join("tuned").into(),
            act_in: settings.act_in.clone().map(Into::into),
        };
        let policies = Policies::new(store, with);
        let access = Arc::new(RwLock::new(access(&settings)));
        let shared = Arc::new(Shared {
            policies,
            metrics,
            hub,
            history,
            fleet,
            clients: Arc::default(),
            short: Mutex::default(),
            started: Instant::now(),
            settings,
        });
        let path = &shared.settings.socket;
        let server = Server::start(path, Arc::clone(&access), Arc::clone(&shared));
        let server = server.map_err(|err| no_socket(path, &err))?;
        info!("listens at {}", path.display());
        let this = Self { shared, access, notify, server: Some(server), switch };
        this.read();
        Ok(this)
    }

    /// Runs until a signal asks to stop. SIGHUP makes it read its files again.
    pub fn run(mut self) {
        let deadline = Instant::now() + READY_PATIENCE;
        let mut ready = false;
        let mut alive_at = Instant::now();
        let mut told = String::new();
        let mut prune_at = Instant::now();
        let (mut balance, mut balance_at) = (Balance::default(), Instant::now());
        let (mut thrift, mut fleet) = (Thrift::default(), Watch::default());
        while signals::stop_requested().is_none() {
            let now = Instant::now();
            if !ready && (self.shared.policies.all_tried() || now >= deadline) {
                ready = true;
                self.notify.ready();
                info!("ready");
            }
            if signals::take_reload() {
                self.reload();
            }
            if let Some(every) = self.notify.every()
                && now >= alive_at
            {
                self.notify.alive();
                alive_at = now + every;
            }
            if let Some(history) = &self.shared.history
                && now >= prune_at
            {
                history.prune();
                prune_at = now + PRUNE_EVERY;
            }
            if now >= balance_at {
                self.shared.policies.balance(&mut balance, self.shared.settings.budget_bp);
                self.keep_memory(&mut thrift);
                balance_at = now + BALANCE_EVERY;
            }
            self.tell_readiness();
            self.look_at_fleet(&mut fleet);
            let status = self.status();
            if status != told {
                self.notify.status(&status);
                told = status;
            }
            std::thread::sleep(TICK);
        }
        self.notify.stopping();
        info!("stops");
        // Clients first: nothing is started any more then.
        self.server = None;
        self.shared.policies.quit();
        self.switch.end();
    }

    /// Tells whoever asks `/readyz` what is lacking.
    fn tell_readiness(&self) {
        if let Some(metrics) = &self.shared.metrics {
            let lacking = self.shared.policies.lacking().map(|text| match missing() {
                [] => text,
                names => format!("{text}\n  lacks: {}", names.join(", ")),
            });
            metrics.lock().unwrap_or_else(PoisonError::into_inner).lacks(lacking);
        }
    }

    /// Tells how the writing of fleet data goes.
    fn look_at_fleet(&self, watch: &mut Watch) {
        let Some(fleet) = &self.shared.fleet else { return };
        let reading = watch.look(fleet);
        let Some(metrics) = &self.shared.metrics else { return };
        let trouble = metrics.lock().unwrap_or_else(PoisonError::into_inner).fleet(reading);
        if let Some(trouble) = trouble {
            warn!("{trouble}");
        }
    }

    /// Keeps the agent's own memory below its cap.
    fn keep_memory(&self, thrift: &mut Thrift) {
        let cap = self.shared.settings.most_memory;
        let used = own_cost(&mut Vec::new()).rss_bytes;
        let before = thrift.level();
        let text = match thrift.round(used, cap) {
            Step::Keep => return,
            Step::Thrift(level) => {
                self.shared.policies.set_thrift(level);
                let regions = 1 << level;
                if level < before {
                    info!(
                        used,
                        cap, "there is memory again: 1/{regions} of the regions per context"
                    );
                } else {
                    warn!(used, cap, "memory is short: 1/{regions} of the regions per context");
                }
                (level > 0).then(|| {
                    format!(
                        "memory is short, so contexts have 1/{regions} of their regions at most"
                    )
                })
            }
            Step::Shed => {
                let name = self.shared.policies.shed();
                let name = name.unwrap_or_else(|| "none".to_owned());
                warn!(used, cap, "memory is short: the policy that watches most waits: {name}");
                Some(format!("memory is short, so the policy that watches most waits: {name}"))
            }
        };
        *self.shared.short.lock().unwrap_or_else(PoisonError::into_inner) = text;
    }

    fn reload(&self) {
        self.notify.reloading();
        let fresh = access(&self.shared.settings);
        *self.access.write().unwrap_or_else(PoisonError::into_inner) = fresh;
        match self.read() {
            0 => info!("the files were read again"),
            n => warn!("the files were read again; not in force: {n}"),
        }
        self.notify.ready();
    }

    fn read(&self) -> usize {
        let settings = &self.shared.settings;
        self.shared.policies.read(files::find(settings.policies_dir.as_deref(), &settings.policies))
    }

    /// A line for `systemctl status`.
    fn status(&self) -> String {
        let policies = self.shared.policies.list();
        let mut text = String::new();
        for policy in &policies {
            if !text.is_empty() {
                text.push_str(", ");
            }
            text.push_str(&format!("{} {}", policy.name, policy.state.name()));
        }
        if policies.is_empty() {
            text.push_str("no policy");
        }
        let problems = self.shared.policies.problems().len();
        if problems > 0 {
            text.push_str(&format!("; files with problems: {problems}"));
        }
        text
    }
}

/// Asks the kernel to end others first when memory is short: an agent that is ended takes nothing
/// back until the next one starts. A unit file can say another value; then this changes nothing.
fn spare_from_oom() {
    const PATH: &str = "/proc/self/oom_score_adj";
    if std::fs::read_to_string(PATH).is_ok_and(|text| text.trim() == "0")
        && let Err(err) = std::fs::write(PATH, "-500")
    {
        info!("the kernel may end this agent like any other when memory is short: {err}");
    }
}

/// Which of the capabilities that the agent uses it does not have. That does not change.
fn missing() -> &'static [String] {
    static MISSING: OnceLock<Vec<String>> = OnceLock::new();
    MISSING.get_or_init(|| {
        let machine = Machine::read(&Roots::default());
        let names = CAPABILITIES.iter().filter(|name| !machine.has_capability(name));
        names.map(|&name| name.to_owned()).collect()
    })
}

/// Takes back what a former agent left behind, and begins to note what this one gives.
fn begin_notes(settings: &Settings) -> Result<Arc<dyn Notes>, Failed> {
    let path = settings.state_dir.join("state/advice.jsonl");
    let (log, undone) = AdviceLog::begin(&path).map_err(|err| Failed {
        code: 1,
        text: format!(
            "cannot note what is done to processes\n  tried: open {}: {err}\n  hint:  --state DIR for \
             another directory",
            path.display()
        ),
    })?;
    let Undone { restored_bytes, replaced_bytes, left_bytes, errors, .. } = undone;
    for err in &errors {
        warn!("advice of a former agent could not be taken back: {err}");
    }
    if restored_bytes + replaced_bytes + left_bytes > 0 {
        info!(
            restored_bytes,
            replaced_bytes, left_bytes, "a former agent left advice, which was taken back"
        );
    }
    Ok(Arc::new(log))
}

/// Starts what puts metrics where they are read, if they are wanted.
fn metrics(settings: &Settings) -> Result<Option<Arc<Mutex<Exporter>>>, Failed> {
    if !settings.metrics.is_any() {
        return Ok(None);
    }
    let build = Build { version: settings.version.clone(), commit: settings.commit.clone() };
    let exporter = Exporter::start(settings.metrics.clone(), build)
        .map_err(|err| Failed { code: err.exit_code(), text: err.to_string() })?;
    if let Some(address) = exporter.address() {
        info!("metrics at {address}");
    }
    Ok(Some(Arc::new(Mutex::new(exporter))))
}

/// Starts what writes fleet data, if that is wanted.
fn fleet(settings: Option<isotherm_fleet::Settings>) -> Result<Option<Arc<Fleet>>, Failed> {
    let Some(settings) = settings else { return Ok(None) };
    let fleet = Fleet::start(settings)
        .map_err(|err| Failed { code: err.exit_code(), text: err.to_string() })?;
    info!("writes fleet data below {}", fleet.shown().dir.display());
    Ok(Some(Arc::new(fleet)))
}

fn access(settings: &Settings) -> Access {
    let access = Access::read(Path::new(GROUPS), &settings.readers, settings.actors.as_deref());
    if access.readers().is_none() {
        let group = &settings.readers;
        info!("there is no group `{group}`, so only root may read (`groupadd --system {group}`)");
    }
    access
}

fn no_socket(path: &Path, err: &io::Error) -> Failed {
    let code = if err.kind() == io::ErrorKind::PermissionDenied { 4 } else { 1 };
    let shown = path.display();
    let text = format!(
        "cannot listen on the control socket\n  tried: bind {shown}: {err}\n  hint:  --socket PATH \
         for another path"
    );
    Failed { code, text }
}
