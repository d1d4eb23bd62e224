//! Config files and the environment: what they may say, and which of them wins.

use std::fs;
use std::path::Path;

use crate::program::{ISOTHERM, Said, command, scratch};

/// Runs the program with `dir/system.toml` and `dir/isotherm/config.toml` as its config files.
fn isotherm(dir: &Path, args: &str, environment: &[(&str, &str)]) -> Said {
    let args: Vec<&str> = args.split_whitespace().collect();
    let mut command = command(ISOTHERM, dir, &args);
    command.env_remove("ISOTHERM_NO_CONFIG").env("XDG_CONFIG_HOME", dir);
    command.env("ISOTHERM_SYSTEM_CONFIG", dir.join("system.toml"));
    Said::of(command.envs(environment.iter().copied()).output().unwrap())
}

fn write(dir: &Path, system: &str, user: &str) {
    fs::write(dir.join("system.toml"), system).unwrap();
    fs::create_dir_all(dir.join("isotherm")).unwrap();
    fs::write(dir.join("isotherm/config.toml"), user).unwrap();
}

/// The value of an option of a command, and where it is from.
#[track_caller]
fn value(dir: &Path, command: &str, key: &str, environment: &[(&str, &str)]) -> (String, String) {
    let said = isotherm(dir, &format!("config {command}"), environment);
    let line = said.expect(0, &[]).out.lines().find(|l| l.starts_with(&format!("--{key} ")));
    let mut words = line.unwrap_or_else(|| panic!("no {key} in {said:?}")).splitn(2, ' ');
    let rest = words.nth(1).unwrap().trim();
    let (value, origin) = rest.split_once(' ').unwrap();
    (value.to_owned(), origin.trim().to_owned())
}

#[test]
fn the_nearest_source_wins() {
    let dir = scratch();
    let dir = dir.path();
    let is = |command: &str, environment: &[(&str, &str)], want: &str, origin: &str| {
        let (value, from) = value(dir, command, "sample", environment);
        assert_eq!(value, want, "{command}");
        assert!(from.ends_with(origin), "{command}: {from}");
    };
    is("record", &[], "5ms", "built in");
    write(dir, "[record]\nsample = \"7ms\"\n[wss]\nsample = \"8ms\"\n", "");
    is("record", &[], "7ms", "system.toml:2");
    write(
        dir,
        "[record]\nsample = \"7ms\"\n[wss]\nsample = \"8ms\"\n",
        "# for all\nsample = \"9ms\"\n\n[record]\nsample = \"10ms\"\n",
    );
    is("record", &[], "10ms", "config.toml:5");
    // The user's file is stronger, though its setting is for all commands.
    is("wss", &[], "9ms", "config.toml:2");
    let environment = [("ISOTHERM_RECORD_SAMPLE", "11ms"), ("ISOTHERM_SAMPLE", "12ms")];
    is("record", &environment, "11ms", "environment, ISOTHERM_RECORD_SAMPLE");
    is("wss", &environment, "12ms", "environment, ISOTHERM_SAMPLE");
    is("record --sample 13ms", &environment, "13ms", "command line");
    is("record", &[("ISOTHERM_NO_CONFIG", "1")], "5ms", "built in");
    let said = isotherm(dir, "config", &environment);
    let out = &said.expect(0, &[]).out;
    for part in ["record --sample", "overridden: environment, ISOTHERM_RECORD_SAMPLE", "9ms"] {
        assert!(out.contains(part), "no {part} in {out}");
    }
}

#[test]
fn a_setting_does_what_the_option_does() {
    let dir = scratch();
    let dir = dir.path();
    isotherm(dir, "sim stairs --scale 4s -q -o r.data", &[]).expect(0, &[]);
    let plain = isotherm(dir, "report heatmap r.data", &[]).expect(0, &[]).out.clone();
    write(dir, "color = \"always\"\n", "[report]\njson = true\n[sim]\nquiet = true\n");
    let said = isotherm(dir, "report wss r.data", &[]);
    assert!(serde_json::from_str::<serde_json::Value>(&said.expect(0, &[]).out).is_ok());
    // A flag can be taken back.
    let environment = [("ISOTHERM_REPORT_JSON", "false")];
    let said = isotherm(dir, "report heatmap r.data", &environment);
    assert!(said.expect(0, &[]).out.contains("\x1b["), "coloured by the machine's file");
    let said = isotherm(dir, "report heatmap r.data --color never", &environment);
    assert_eq!(said.expect(0, &[]).out, plain);
    let said = isotherm(dir, "sim stairs --scale 4s -o s.data", &[]);
    assert_eq!(said.expect(0, &[]).err, "", "quiet");
    // The help shows the defaults that hold.
    write(dir, "", "[record]\nsample = \"6ms\"\n");
    assert!(isotherm(dir, "record --help", &[]).expect(0, &[]).out.contains("[default: 6ms]"));
}

#[test]
fn the_command_line_contradicts_a_setting() {
    let dir = scratch();
    write(dir.path(), "", "[record]\npaddr = \"node:999\"\nops = \"smaps\"\nquiet = true\n");
    // Without `-p` or a command the setting is taken, and fails.
    let said = isotherm(dir.path(), "record", &[]);
    assert_ne!(said.code, Some(0), "{said:?}");
    isotherm(dir.path(), "record --duration 2s -- sh -c true", &[]).expect(0, &[]);
}

#[test]
fn a_bad_file_is_refused_and_nothing_runs() {
    let dir = scratch();
    let dir = dir.path();
    for (text, parts) in [
        ("colour = \"never\"\n", &["config.toml:1:1", "unknown key `colour`", "`color`"][..]),
        ("\n[record]\nsampel = \"5ms\"\n", &["config.toml:3:1", "`sampel`", "`sample`"]),
        ("[recrod]\nsample = \"5ms\"\n", &["config.toml:1:2", "command `recrod`", "`record`"]),
        ("[record]\nsample = \"fast\"\n", &["config.toml:2:10", "fast", "--sample"]),
        ("[record]\nquiet = \"yes\"\n", &["config.toml:2:9", "true or false"]),
        ("[record]\nmethod = \"cencus\"\n", &["config.toml:2:10", "census, resample"]),
        ("[record]\nsample = [\"1ms\", \"2ms\"]\n", &["config.toml:2:10", "one value"]),
        ("[record]\nhelp = true\n", &["unknown key `help`"]),
        ("[record\n", &["config.toml:1"]),
        ("color = \"red\"\n[wss]\nx = 1\n", &["config.toml:1:9", "config.toml:3:1"]),
    ] {
        write(dir, "", text);
        let said = isotherm(dir, "record --ops smaps --duration 1s -- touch ran", &[]);
        said.expect(2, parts);
        assert!(!dir.join("ran").exists() && !dir.join("isotherm.data").exists(), "{text}");
        isotherm(dir, "config", &[]).expect(2, parts);
        // What helps to mend the file works all the same.
        isotherm(dir, "record --help", &[]).expect(0, &[]);
        isotherm(dir, "--version", &[]).expect(0, &[]);
        isotherm(dir, "config", &[("ISOTHERM_NO_CONFIG", "1")]).expect(0, &[]);
    }
    write(dir, "[wss]\nsampel = 1\n", "");
    isotherm(dir, "config", &[]).expect(2, &["system.toml:2:1"]);
    fs::write(dir.join("system.toml"), b"color = \"\xff\"\n").unwrap();
    isotherm(dir, "config", &[]).expect(2, &["system.toml", "UTF-8"]);
}

#[test]
fn the_environment_is_checked_too() {
    let dir = scratch();
    let bad = [("ISOTHERM_RECORD_SAMPLE", "fast")];
    isotherm(dir.path(), "config", &bad).expect(2, &["ISOTHERM_RECORD_SAMPLE=fast", "--sample"]);
    let stray = [("ISOTHERM_RECORD_SAMPEL", "5ms")];
    isotherm(dir.path(), "config", &stray)
        .expect(0, &["ISOTHERM_RECORD_SAMPEL", "ISOTHERM_RECORD_SAMPLE?"]);
}
