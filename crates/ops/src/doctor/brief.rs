//! The report on one screen of 80 columns and 24 rows: what to do first, then what works.

use isotherm_host::Machine;
use isotherm_pages::tables::SETCAP;

use super::render::{cannot_clear_others, capabilities, swap};
use super::{Report, SetReport};
use crate::support::Support;

/// Columns and rows of the screen. The last row belongs to the shell's prompt.
const COLUMNS: usize = 80;
const ROWS: usize = 23;

/// Something that could be better, and how.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Advice {
    what: String,
    /// The first line is filled. Those after it are commands, and stay as they are.
    fix: String,
}

impl Advice {
    fn lines(&self) -> Vec<String> {
        let mut lines = wrapped(&self.what, "* ", "  ");
        let mut fix = self.fix.lines();
        lines.extend(wrapped(fix.next().unwrap_or_default(), "  fix: ", "       "));
        lines.extend(fix.map(|line| format!("    {line}")));
        lines
    }
}

impl Report {
    /// The report in at most 23 lines of at most 80 characters: what to do first, then what works.
    /// The `Display` form has all that was found.
    #[must_use]
    pub fn brief(&self) -> String {
        let mut tail = vec![String::new()];
        for set in self.sets.iter().filter(|set| set.built) {
            tail.push(set_line(set));
        }
        tail.push(String::new());
        tail.extend(machine(&self.machine));
        tail.push(cut("more        isotherm doctor --long"));
        let mut lines = vec![cut(&self.verdict())];
        let advices = self.advices();
        let mut left = advices.len();
        for advice in &advices {
            let text = advice.lines();
            // A line is kept for what does not fit.
            if lines.len() + text.len() + tail.len() + usize::from(left > 1) > ROWS {
                break;
            }
            lines.extend(text);
            left -= 1;
        }
        if left > 0 {
            lines.push(format!("* and {left} more: isotherm doctor --long"));
        }
        lines.extend(tail);
        lines.join("\n")
    }

    fn verdict(&self) -> String {
        match self.best {
            Some(best) if self.advices().is_empty() => {
                format!("all is well: `{}` works; it sees {}", best.name(), best.sees())
            }
            Some(best) => format!("`{}` works; it sees {}", best.name(), best.sees()),
            None => "nothing works here yet".to_owned(),
        }
    }

    /// What could be better, the most important first.
    fn advices(&self) -> Vec<Advice> {
        let mut advices = Vec::new();
        let missing = missing(&self.machine);
        if !missing.is_empty() {
            let program = std::env::current_exe().map(|path| path.display().to_string());
            let program = program.unwrap_or_else(|_| "isotherm".to_owned());
            advices.push(Advice {
                what: format!("{} missing: only a part can be seen", missing.join(", ")),
                fix: format!("sudo {} \\\n{program}", SETCAP.replace(' ', " \\\n")),
            });
        }
        let better = self.sets.iter().take_while(|set| Some(set.name) != self.best);
        for set in better.filter(|set| set.name.is_automatic() && !set.usable) {
            let fix = match &set.support {
                // The capabilities are told above.
                Support::No { denied: true, .. } if !missing.is_empty() => continue,
                Support::No { fix, .. } if !fix.is_empty() => fix.clone(),
                _ => "isotherm doctor --long shows the test; please report it".to_owned(),
            };
            let what = format!("`{}` cannot be used: {}", set.name.name(), set.reason);
            advices.push(Advice { what, fix });
        }
        if !self.raises_priority && missing.is_empty() {
            advices.push(Advice {
                what: "calls that hold a target's lock have ordinary priority, so the target may \
                       wait for tens of ms on a busy machine"
                    .to_owned(),
                fix: "allow real-time priority (a container may lack CPU shares for it)".to_owned(),
            });
        }
        if cannot_clear_others(&self.machine) {
            advices.push(Advice {
                what: "CAP_DAC_OVERRIDE missing: what processes of other users share is not seen"
                    .to_owned(),
                fix: "run as root, or as the service (packaging/isotherm.service)".to_owned(),
            });
        }
        if self.machine.swap_bytes == 0 {
            advices.push(Advice {
                what: "there is no swap: `reclaim` cannot page out anonymous memory".to_owned(),
                fix: "add a swap file or zram, or page out file pages only (--skip-anon)"
                    .to_owned(),
            });
        }
        advices
    }
}

/// The capabilities of the line that grants all of them, as far as this process lacks them.
fn missing(machine: &Machine) -> Vec<String> {
    let names = SETCAP.split_whitespace().last().unwrap_or_default();
    let names = names.trim_end_matches("=ep").split(',').map(str::to_uppercase);
    // What may write every file may read it.
    let has = |name: &str| {
        machine.has_capability(name)
            || name == "CAP_DAC_READ_SEARCH" && machine.has_capability("CAP_DAC_OVERRIDE")
    };
    names.filter(|name| !has(name)).collect()
}

fn set_line(set: &SetReport) -> String {
    let answer = match &set.support {
        _ if set.usable => "yes",
        Support::Unknown { .. } => "?",
        _ => "no",
    };
    let what = match &set.support {
        _ if set.usable => set.sees.as_str(),
        Support::Unknown { .. } => "not tested; isotherm doctor --kdamond does",
        _ => set.reason.as_str(),
    };
    cut(&format!("{:<11} {answer:<4} {what}", set.name.name()))
}

fn machine(m: &Machine) -> Vec<String> {
    let thp = m.thp.as_deref().unwrap_or("not in this kernel");
    let memory = m.memory_bytes >> 20;
    let lines = [
        format!("kernel      {} {}, huge pages: {thp}", m.kernel, m.arch),
        format!("machine     {} CPUs, {memory} MiB, {}", m.cpus, swap(m)),
        format!("privileges  uid {}, {}", m.uid, capabilities(m)),
        format!("others      {}", others(m)),
    ];
    lines.iter().map(|line| cut(line)).collect()
}

fn others(m: &Machine) -> String {
    match m.clearers.as_slice() {
        [] => "nobody else clears accessed bits".to_owned(),
        [one] => format!("clear accessed bits, too: {one}"),
        [one, rest @ ..] => format!("clear accessed bits, too: {one} and {} more", rest.len()),
    }
}

/// At most as long as the screen is wide.
fn cut(line: &str) -> String {
    if line.chars().count() <= COLUMNS {
        return line.to_owned();
    }
    line.chars().take(COLUMNS - 3).chain("...".chars()).collect()
}

/// Lines that fit, with `first` before the first and `next` before the others.
fn wrapped(text: &str, first: &str, next: &str) -> Vec<String> {
    let (mut lines, mut line, mut is_begun) = (Vec::new(), first.to_owned(), false);
    for word in text.split_whitespace() {
        if is_begun && line.chars().count() + 1 + word.chars().count() > COLUMNS {
            lines.push(std::mem::replace(&mut line, next.to_owned()));
            is_begun = false;
        }
        if is_begun {
            line.push(' ');
        }
        line.push_str(word);
        is_begun = true;
    }
    lines.push(line);
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::support::SetName;

    /// A report of a made-up machine.
    fn report(capabilities: &[&str], swap_bytes: u64, usable: &[SetName]) -> Report {
        let machine = Machine {
            kernel: "6.1.0-37-amd64-with-a-vendor-suffix-that-is-rather-long.x86_64.debug".into(),
            arch: "x86_64".into(),
            cpus: 2,
            memory_bytes: 4 << 30,
            swap_bytes,
            capabilities: capabilities.iter().map(|&name| name.to_owned()).collect(),
            clearers: (0..40).map(|nr| format!("isotherm (process {nr})")).collect(),
            ..Machine::default()
        };
        let set = |name: SetName| {
            let is_usable = usable.contains(&name);
            let no = Support::no(
                "a reason that needs some words ".repeat(6),
                None,
                "do this ".repeat(30),
            );
            SetReport {
                name,
                sees: name.sees().to_owned(),
                built: name.is_built(),
                support: if is_usable { Support::Yes } else { no },
                self_test: None,
                usable: is_usable,
                reason: if is_usable { String::new() } else { "some words ".repeat(20) },
            }
        };
        let sets: Vec<_> = SetName::ALL.into_iter().map(set).collect();
        let best = sets.iter().find(|s| s.usable && s.name.is_automatic()).map(|s| s.name);
        Report { schema: 1, machine, sets, best, raises_priority: false, elapsed_ms: 1 }
    }

    const ALL: [&str; 5] =
        ["CAP_BPF", "CAP_PERFMON", "CAP_SYS_PTRACE", "CAP_SYS_NICE", "CAP_DAC_OVERRIDE"];

    #[test]
    fn it_fits_on_a_screen_whatever_is_wrong() {
        for capabilities in [&ALL[..], &ALL[..2], &[]] {
            for swap in [0, 1 << 30] {
                for usable in [&[SetName::PageWalk][..], &[SetName::Smaps], &[]] {
                    let text = report(capabilities, swap, usable).brief();
                    assert!(text.lines().count() <= ROWS, "{text}");
                    for line in text.lines() {
                        assert!(line.chars().count() <= COLUMNS, "{line:?} in {text}");
                    }
                    for part in ["pagewalk", "smaps", "kernel", "privileges", "--long"] {
                        assert!(text.contains(part), "no {part} in {text}");
                    }
                }
            }
        }
    }

    #[test]
    fn the_fix_comes_first() {
        let text = report(&ALL[..2], 1 << 30, &[SetName::Smaps]).brief();
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines[0].contains("`smaps` works"), "{text}");
        assert!(lines[1].starts_with("* CAP_SYS_PTRACE, CAP_SYS_NICE"), "{text}");
        let at = |part: &str| lines.iter().position(|line| line.contains(part)).unwrap();
        assert!(at("sudo setcap") < at("yes"), "{text}");
        assert!(lines[at("cap_bpf,cap_perfmon")].ends_with("=ep \\"), "it can be copied: {text}");
        let well = Report { raises_priority: true, ..report(&ALL, 1 << 30, &[SetName::PageWalk]) };
        assert!(well.brief().starts_with("all is well: `pagewalk` works"), "{}", well.brief());
        assert!(!well.brief().contains("fix:"), "{}", well.brief());
        let read = [&ALL[..4], &["CAP_DAC_READ_SEARCH"]].concat();
        let set = [SetName::PageWalk];
        let less = Report { raises_priority: true, ..report(&read, 1 << 30, &set) }.brief();
        assert!(less.contains("* CAP_DAC_OVERRIDE missing"), "{less}");
        let none = report(&ALL, 0, &[]).brief();
        assert!(none.starts_with("nothing works here yet") && none.contains("fix:"), "{none}");
    }
}
