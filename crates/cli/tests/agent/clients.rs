//! Clients that behave badly: many, silent, and ones that talk nonsense.

use std::io::{ErrorKind, Write};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use serde_json::{Value, json};

use crate::world::{World, frame, policy, sleeper, watch};

fn call(stream: &mut UnixStream, method: &str, more: bool) {
    let call = json!({ "method": format!("io.isotherm.Control.{method}"), "more": more });
    // An agent that is full says so and hangs up, maybe before it is asked.
    stream.write_all(format!("{call}\0").as_bytes()).ok();
}

fn ask(stream: &mut UnixStream, method: &str) -> Value {
    call(stream, method, false);
    frame(stream).unwrap_or_else(|| panic!("no answer to {method}"))
}

#[test]
fn two_hundred_clients_are_served_and_silent_ones_cost_nothing() {
    let target = sleeper();
    let mut world = World::new(&[("a", &watch(target.0.id()))]);
    world.start();
    world.until("it watches", |world| world.targets("a") == 1);
    // They ask for everything and never read.
    let mut silent: Vec<UnixStream> = (0..200).map(|_| world.connect()).collect();
    for stream in &mut silent {
        let follow = json!({
            "method": "io.isotherm.Control.Follow", "more": true, "parameters": { "every_ms": 100 },
        });
        stream.write_all(format!("{follow}\0").as_bytes()).unwrap();
    }
    world.until("they are served", |world| world.json("status")["clients"].as_u64() >= Some(200));
    let before = world.rss_kib();
    // The agent goes on, and answers others.
    let windows = || world.json("account a")["schemes"][0]["windows"].as_u64().unwrap();
    let then = windows();
    world.until("windows end", |_| windows() > then + 30);
    let grown = world.rss_kib().saturating_sub(before);
    assert!(grown < 40 << 10, "the agent has grown by {grown} KiB");

    // More than there is room for are told so. Root may take the last places.
    let mut more: Vec<UnixStream> = (0..100).map(|_| world.connect()).collect();
    let answers: Vec<Value> = more.iter_mut().map(|stream| ask(stream, "List")).collect();
    let is_busy = |answer: &Value| answer["error"] == "io.isotherm.Control.Busy";
    assert_eq!(answers.iter().filter(|answer| is_busy(answer)).count(), 44, "{:?}", answers.last());
    drop(more);
    drop(silent);
    world.until("their places are free", |world| world.json("status")["clients"] == 1);
    // A thread gives its place back just before it ends.
    let threads = format!("/proc/{}/task", world.pid());
    world.until("their threads end", |_| std::fs::read_dir(&threads).unwrap().count() < 20);
}

#[test]
fn a_follower_hears_what_happens() {
    let target = sleeper();
    let mut world = World::new(&[("a", &watch(target.0.id()))]);
    world.start();
    let mut stream = world.connect();
    call(&mut stream, "Follow", true);
    std::thread::sleep(Duration::from_millis(200));
    assert_eq!(world.ctl("stop a").code, Some(0));
    assert_eq!(world.ctl("start a").code, Some(0));
    let mut seen = [false; 3];
    let mut events = Vec::new();
    while seen != [true; 3] || !events.contains(&"started".to_owned()) {
        let reply = frame(&mut stream).expect("a message");
        assert_eq!(reply["continues"], true);
        let said = &reply["parameters"];
        seen[0] |= said["snapshot"]["policy"] == "a";
        seen[1] |= said["accounts"][0]["name"] == "idle";
        if let Some(event) = said["event"]["event"].as_str() {
            seen[2] = true;
            events.push(event.to_owned());
        }
    }
    // Without `more` there would be no place for the second message.
    let mut stream = world.connect();
    assert_eq!(ask(&mut stream, "Follow")["error"], "io.isotherm.Control.WrongState");
    assert!(ask(&mut stream, "List")["error"].is_null(), "the connection is still good");
}

#[test]
fn varlink_works_as_its_tools_expect() {
    let mut world = World::new(&[]);
    world.start();
    let mut stream = world.connect();
    let mut say = |text: &str| {
        stream.write_all(text.as_bytes()).unwrap();
        stream.write_all(&[0]).unwrap();
        frame(&mut stream).expect("an answer")
    };
    let info = say(r#"{"method":"org.varlink.service.GetInfo"}"#);
    assert_eq!(info["parameters"]["interfaces"][1], "io.isotherm.Control");
    let described = say(
        r#"{"method":"org.varlink.service.GetInterfaceDescription","parameters":{"interface":"io.isotherm.Control"}}"#,
    );
    let text = described["parameters"]["description"].as_str().unwrap();
    assert!(text.contains("interface io.isotherm.Control"));
    for (text, error) in [
        (r#"{"method":"io.isotherm.Control.Nothing"}"#, "org.varlink.service.MethodNotFound"),
        (r#"{"method":"io.other.X"}"#, "org.varlink.service.InterfaceNotFound"),
        (r#"{"method":"io.isotherm.Control.Start"}"#, "org.varlink.service.InvalidParameter"),
        (
            r#"{"method":"io.isotherm.Control.Start","parameters":{"policy":"a"}}"#,
            "io.isotherm.Control.NoSuchPolicy",
        ),
        (
            r#"{"method":"io.isotherm.Control.Commit","parameters":{"policy":"../x","text":""}}"#,
            "io.isotherm.Control.Refused",
        ),
    ] {
        assert_eq!(say(text)["error"], error, "{text}");
    }
    if std::process::Command::new("varlinkctl").arg("--version").output().is_err() {
        eprintln!("skipped: this systemd has no varlinkctl (it comes with 255)");
        return;
    }
    let output = std::process::Command::new("varlinkctl")
        .arg("call")
        .arg(format!("unix:{}", world.path("s.sock").display()))
        .args(["io.isotherm.Control.Status", "{}"])
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    assert!(String::from_utf8_lossy(&output.stdout).contains("may_act"));
}

/// Whether the other end has hung up on us, whatever it said before.
fn hangs_up(stream: &mut UnixStream) -> bool {
    let mut last = None;
    while let Some(reply) = frame(stream) {
        last = Some(reply);
    }
    last.is_none_or(|reply| reply["error"].is_string())
}

#[test]
fn a_message_of_a_hundred_megabytes_is_refused_and_needs_no_memory() {
    let mut world = World::new(&[]);
    world.start();
    let before = world.rss_kib();
    let mut stream = world.connect();
    let chunk = vec![b'x'; 1 << 20];
    let mut sent = 0_u64;
    for _ in 0..100 {
        match stream.write_all(&chunk) {
            Ok(()) => sent += 1,
            Err(err) => {
                let kinds = [ErrorKind::BrokenPipe, ErrorKind::ConnectionReset];
                assert!(kinds.contains(&err.kind()), "{err}");
                break;
            }
        }
    }
    assert!(sent < 100, "the agent took all of it");
    let grown = world.rss_kib().saturating_sub(before);
    assert!(grown < 8 << 10, "the agent has grown by {grown} KiB");
    assert_eq!(world.ctl("status").code, Some(0));
}

/// Random numbers from a seed (xorshift).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, n: usize) -> usize {
        usize::try_from(self.next() % n as u64).unwrap()
    }
}

/// A message that is damaged somehow, or a call with arguments that make no sense.
fn nonsense(random: &mut Random) -> Vec<u8> {
    let methods =
        ["Status", "List", "Stop", "Commit", "Snapshot", "Account", "Cgroups", "Show", "Follow"];
    let method = methods[random.below(methods.len())];
    let odd = [
        json!(null),
        json!(-1),
        json!(1e300),
        json!("\u{0}\u{feff}"),
        json!([[[[]]]]),
        json!({ "policy": { "policy": "a" } }),
        json!({ "policy": "../../etc/passwd" }),
        json!({ "policy": "a", "text": "x = [[[[[", "check": true }),
        json!({ "policy": "x".repeat(5000) }),
        json!({ "pid": -4 }),
        json!({ "pattern": "*".repeat(3000) }),
        json!({ "every_ms": u64::MAX }),
    ];
    let parameters = &odd[random.below(odd.len())];
    let call =
        json!({ "method": format!("io.isotherm.Control.{method}"), "parameters": parameters });
    let mut bytes = call.to_string().into_bytes();
    for _ in 0..random.below(4) {
        let at = random.below(bytes.len());
        match random.below(4) {
            0 => bytes[at] = u8::try_from(random.below(256)).unwrap(),
            1 => bytes.truncate(at.max(1)),
            2 => bytes.insert(at, b"{}[]\",:\\\0"[random.below(9)]),
            _ => drop(bytes.remove(at.min(bytes.len() - 1))),
        }
        if bytes.is_empty() {
            bytes.push(b'{');
        }
    }
    bytes.push(0);
    bytes
}

#[test]
fn nonsense_neither_ends_the_agent_nor_makes_it_grow() {
    let seed = 0x5eed_1507;
    // More of them: ISOTHERM_MESSAGES=1000000.
    let messages = std::env::var("ISOTHERM_MESSAGES").map_or(100_000, |n| n.parse().unwrap());
    eprintln!("seed {seed:#x}, {messages} messages");
    let text = policy("{ name = \"isotherm-none\" }", "1s");
    let mut world = World::new(&[("a", &text)]).env("ISOTHERM_LOG", "error");
    // It says nothing at this level, so it is ready when it answers.
    world.agent = Some(world.command().spawn().unwrap());
    world.until("it answers", |world| world.ctl("status").code == Some(0));
    let mut random = Random(seed);
    let mut before = 0;
    for nr in 0..messages / 10 {
        if nr == 1000 {
            before = world.rss_kib();
        }
        let mut stream = world.connect();
        for _ in 0..10 {
            // The agent hangs up after a message that it cannot understand.
            if stream.write_all(&nonsense(&mut random)).is_err() {
                break;
            }
        }
        stream.shutdown(std::net::Shutdown::Write).ok();
        if nr % 100 == 0 {
            hangs_up(&mut stream);
        }
    }
    assert_eq!(world.ctl("status").code, Some(0));
    world.until("all places are free", |world| world.json("status")["clients"] == 1);
    assert!(["running", "stopped"].contains(&&*world.state("a")));
    let grown = world.rss_kib().saturating_sub(before);
    assert!(grown < 16 << 10, "the agent has grown by {grown} KiB");
}

#[test]
fn what_cgroups_use_is_told_if_the_agent_adds_it_up() {
    let target = sleeper();
    let text = watch(target.0.id());
    let mut world = World::new(&[("a", &text)]);
    world.start();
    let said = world.ctl("cgroups");
    assert_eq!(said.code, Some(2), "{said:?}");
    assert!(said.err.contains("--cgroups"), "it says what to do: {said:?}");
    // Two agents do not watch the same process.
    drop(world);

    let mut world = World::new(&[("a", &text)]).arg("--cgroups");
    world.start();
    let cgroups = |world: &World, words: &str| -> Vec<Value> {
        let said = world.ctl(&format!("cgroups --json {words}"));
        assert_eq!(said.code, Some(0), "{said:?}");
        let all: Value = serde_json::from_str(&said.out).unwrap();
        all["cgroups"].as_array().unwrap().clone()
    };
    let memory = |group: &Value| -> u64 {
        let tiers = ["hot_bytes", "warm_bytes", "cold_bytes", "unresolved_bytes"];
        tiers.iter().map(|tier| group[tier].as_u64().unwrap()).sum()
    };
    world.until("there is memory of a cgroup", |world| {
        cgroups(world, "").iter().any(|group| memory(group) > 0)
    });
    let all = cgroups(&world, "");
    assert_eq!(all.len(), 1, "{all:?}");
    assert_eq!((&all[0]["policy"], &all[0]["processes"]), (&"a".into(), &1.into()), "{all:?}");
    let path = all[0]["cgroup"].as_str().unwrap();
    assert_eq!(cgroups(&world, path).len(), 1, "its own path");
    assert_eq!(cgroups(&world, "/*").len(), 1, "a pattern");
    assert_eq!(cgroups(&world, "/no/such").len(), 0);
    let said = world.ctl("cgroups");
    assert!(said.out.starts_with("CGROUP") && said.out.contains(path), "{said:?}");
    let said = world.ctl("cgroups --policy other");
    assert_eq!(said.code, Some(2), "there is no such policy: {said:?}");
}
