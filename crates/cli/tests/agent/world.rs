//! An agent of a test's own: its directory, its policies, its socket, and processes to watch.

use std::fs::{self, File};
use std::io::Read;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;

use crate::common::{Guard, isotherm};

/// How long anything may take on a machine that does other things as well.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// An agent of a test's own.
pub(crate) struct World {
    pub(crate) dir: TempDir,
    pub(crate) agent: Option<Child>,
    args: Vec<String>,
    env: Vec<(String, String)>,
    /// The words that start the agent's command, if it is not started as it is.
    through: Vec<String>,
}

/// What a command said.
#[derive(Debug)]
pub(crate) struct Said {
    pub(crate) code: Option<i32>,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl From<Output> for Said {
    fn from(output: Output) -> Self {
        Self {
            code: output.status.code(),
            out: String::from_utf8_lossy(&output.stdout).into_owned(),
            err: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }
}

impl World {
    /// A world with these policies (name, text), in which no agent runs yet.
    pub(crate) fn new(policies: &[(&str, &str)]) -> Self {
        let dir = tempfile::Builder::new().prefix("isotherm-agent").tempdir().unwrap();
        // Other users have to reach the socket.
        let open = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        fs::set_permissions(dir.path(), open).unwrap();
        fs::create_dir(dir.path().join("policies.d")).unwrap();
        let this =
            Self { dir, agent: None, args: Vec::new(), env: Vec::new(), through: Vec::new() };
        for (name, text) in policies {
            this.write(name, text);
        }
        this
    }

    pub(crate) fn arg(mut self, arg: &str) -> Self {
        self.args.push(arg.to_owned());
        self
    }

    pub(crate) fn env(mut self, key: &str, value: &str) -> Self {
        self.env.push((key.to_owned(), value.to_owned()));
        self
    }

    /// Starts the agent by these words, which the program and its arguments follow.
    pub(crate) fn through(mut self, words: &[&str]) -> Self {
        self.through = words.iter().map(|&word| word.to_owned()).collect();
        self
    }

    /// A copy of the program where every user can reach it.
    pub(crate) fn program(&self) -> PathBuf {
        // A child copies it: a file that this process has open for writing could not be run while
        // another test forks.
        let program = self.path("isotherm");
        if !program.exists() {
            let from = isotherm().get_program().to_owned();
            let copied = Command::new("cp").arg(from).arg(&program).status().unwrap();
            assert!(copied.success());
        }
        program
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Writes a policy's file.
    pub(crate) fn write(&self, name: &str, text: &str) {
        fs::write(self.path(&format!("policies.d/{name}.toml")), text).unwrap();
    }

    /// The agent's command.
    pub(crate) fn command(&self) -> Command {
        let mut command = isotherm();
        if let Some((first, words)) = self.through.split_first() {
            let mut other = Command::new(first);
            other.args(words).arg(self.program());
            other.envs(command.get_envs().filter_map(|(key, value)| Some((key, value?))));
            command = other;
        }
        command.arg("agent").arg("--policies-dir").arg(self.path("policies.d"));
        command.arg("--socket").arg(self.path("s.sock")).arg("--state").arg(self.path("state"));
        command.args(&self.args).envs(self.env.iter().map(|(k, v)| (k, v)));
        command
    }

    /// Starts the agent, and waits until every policy was tried.
    pub(crate) fn start(&mut self) {
        let log = File::options().create(true).append(true).open(self.path("log")).unwrap();
        let before = self.log().matches("ready").count();
        let child = self.command().stderr(Stdio::from(log)).spawn().unwrap();
        self.agent = Some(child);
        self.until("the agent is ready", |world| world.log().matches("ready").count() > before);
    }

    /// What the agent has logged.
    pub(crate) fn log(&self) -> String {
        fs::read_to_string(self.path("log")).unwrap_or_default()
    }

    pub(crate) fn pid(&self) -> u32 {
        self.agent.as_ref().unwrap().id()
    }

    /// Sends a signal to the agent.
    pub(crate) fn signal(&self, signal: rustix::process::Signal) {
        let pid = rustix::process::Pid::from_child(self.agent.as_ref().unwrap());
        rustix::process::kill_process(pid, signal).unwrap();
    }

    /// Asks the agent to end, and waits for that.
    pub(crate) fn stop(&mut self) -> Option<i32> {
        self.signal(rustix::process::Signal::TERM);
        self.agent.take().unwrap().wait().unwrap().code()
    }

    /// Kills the agent.
    pub(crate) fn kill(&mut self) {
        let mut agent = self.agent.take().unwrap();
        agent.kill().unwrap();
        agent.wait().unwrap();
    }

    pub(crate) fn ctl_command(&self, words: &str) -> Command {
        let mut command = isotherm();
        command.arg("ctl").args(words.split_whitespace());
        command.env("ISOTHERM_SOCKET", self.path("s.sock")).current_dir(self.dir.path());
        command
    }

    /// Runs `isotherm ctl` with these words.
    pub(crate) fn ctl(&self, words: &str) -> Said {
        self.ctl_command(words).output().unwrap().into()
    }

    /// The same, which has to succeed and print JSON.
    pub(crate) fn json(&self, words: &str) -> Value {
        let said = self.ctl(&format!("{words} --json"));
        assert_eq!(said.code, Some(0), "{words}: {said:?}");
        serde_json::from_str(&said.out).unwrap()
    }

    /// The policy of this name, as `ctl list` has it.
    pub(crate) fn policy(&self, name: &str) -> Value {
        let list = self.json("list");
        let policies = list["policies"].as_array().unwrap();
        let policy = policies.iter().find(|policy| policy["name"] == name);
        policy.cloned().unwrap_or(Value::Null)
    }

    pub(crate) fn state(&self, name: &str) -> String {
        self.policy(name)["state"].as_str().unwrap_or("none").to_owned()
    }

    /// How many targets all contexts of a policy have.
    pub(crate) fn targets(&self, name: &str) -> u64 {
        let policy = self.policy(name);
        let contexts = policy["contexts"].as_array().cloned().unwrap_or_default();
        contexts.iter().map(|context| context["targets"].as_u64().unwrap()).sum()
    }

    /// Waits until something is so.
    pub(crate) fn until(&self, what: &str, mut is_so: impl FnMut(&Self) -> bool) {
        let started = Instant::now();
        while !is_so(self) {
            assert!(started.elapsed() < PATIENCE, "{what}: never\n{}", self.log());
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    pub(crate) fn connect(&self) -> UnixStream {
        let stream = UnixStream::connect(self.path("s.sock")).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream
    }

    /// The agent's resident memory, in KiB.
    pub(crate) fn rss_kib(&self) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.pid())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
        line.trim().trim_end_matches("kB").trim().parse().unwrap()
    }
}

impl Drop for World {
    fn drop(&mut self) {
        if let Some(agent) = &mut self.agent {
            let _gone = agent.kill();
            let _status = agent.wait();
        }
    }
}

/// A process that only sleeps.
pub(crate) fn sleeper() -> Guard {
    Guard(Command::new("sleep").arg("600").spawn().unwrap())
}

/// A policy that looks at one process and only counts.
pub(crate) fn watch(pid: u32) -> String {
    policy(&format!("{{ pid = {pid} }}"), "1s")
}

/// A policy that looks at this target and counts what is idle for `age`.
pub(crate) fn policy(target: &str, age: &str) -> String {
    format!(
        "[[context]]\nname = \"c\"\ntargets = [{target}]\n[[context.scheme]]\nname = \"idle\"\n\
         action = \"stat\"\nage = \"{age}..\"\n"
    )
}

/// Reads until the NUL byte; what came before it.
pub(crate) fn frame(stream: &mut impl Read) -> Option<Value> {
    let mut bytes = Vec::new();
    let mut byte = [0];
    while stream.read(&mut byte).ok()? == 1 {
        if byte[0] == 0 {
            return serde_json::from_slice(&bytes).ok();
        }
        bytes.push(byte[0]);
    }
    None
}

/// Bytes of a process with this flag in its mappings (`VmFlags` of smaps).
pub(crate) fn flagged(pid: u32, flag: &str) -> u64 {
    let smaps = fs::read_to_string(format!("/proc/{pid}/smaps")).unwrap();
    let (mut size, mut sum) = (0, 0);
    for line in smaps.lines() {
        if let Some(kib) = line.strip_prefix("Size:") {
            size = kib.trim().trim_end_matches("kB").trim().parse::<u64>().unwrap() << 10;
        }
        if line.strip_prefix("VmFlags:").is_some_and(|f| f.split_whitespace().any(|f| f == flag)) {
            sum += size;
        }
    }
    sum
}
