//! The few numbers that jobs read from `/proc`.

use std::fs;

use anyhow::Context;

/// CPU time of all threads of a process that live now, in ns.
///
/// From `schedstat`, which has nanoseconds (`stat` has ticks of 10 ms); the kernel brings a running
/// thread's number up to date at least at every timer tick.
pub(crate) fn cpu_ns(pid: u32) -> anyhow::Result<u64> {
    let path = format!("/proc/{pid}/task");
    let mut sum = 0;
    for task in fs::read_dir(&path).with_context(|| format!("read {path}"))? {
        let path = task.with_context(|| format!("read {path}"))?.path().join("schedstat");
        // A thread that has just ended.
        let Ok(text) = fs::read_to_string(&path) else { continue };
        let first = text.split_whitespace().next().and_then(|n| n.parse::<u64>().ok());
        sum += first.with_context(|| format!("understand {}: {text:?}", path.display()))?;
    }
    Ok(sum)
}

/// A process and its descendants that live now, sorted.
fn tree(pid: u32) -> anyhow::Result<Vec<u32>> {
    let mut all = vec![pid];
    let mut next = 0;
    while let Some(pid) = all.get(next).copied() {
        next += 1;
        let path = format!("/proc/{pid}/task");
        let tasks = match fs::read_dir(&path) {
            Ok(tasks) => tasks,
            // A child that has just ended.
            Err(_) if next > 1 => continue,
            Err(e) => return Err(e).with_context(|| format!("read {path}")),
        };
        for task in tasks.flatten() {
            let text = fs::read_to_string(task.path().join("children")).unwrap_or_default();
            all.extend(text.split_whitespace().filter_map(|pid| pid.parse::<u32>().ok()));
        }
    }
    all.sort_unstable();
    Ok(all)
}

/// The same, and the CPU time of all of them, in ns. One that ends meanwhile counts nothing.
pub(crate) fn tree_cpu_ns(pid: u32) -> anyhow::Result<(Vec<u32>, u64)> {
    let processes = tree(pid)?;
    let sum = processes.iter().filter_map(|pid| cpu_ns(*pid).ok()).sum();
    Ok((processes, sum))
}

/// CPU time of a process, and of its children that it has waited for, in ns; in ticks of 10 ms.
pub(crate) fn cpu_and_childrens_ns(pid: u32) -> anyhow::Result<[u64; 2]> {
    let path = format!("/proc/{pid}/stat");
    let text = fs::read_to_string(&path).with_context(|| format!("read {path}"))?;
    let ticks = ticks(&text).with_context(|| format!("understand {path}"))?;
    Ok(ticks.map(|n| n * 10_000_000))
}

/// Major faults of a process so far: pages that had to be read from swap or a file.
pub(crate) fn major_faults(pid: u32) -> anyhow::Result<u64> {
    major_faults_and_childrens(pid).map(|[own, _]| own)
}

/// The same, and those of its children that it has waited for.
pub(crate) fn major_faults_and_childrens(pid: u32) -> anyhow::Result<[u64; 2]> {
    let path = format!("/proc/{pid}/stat");
    let text = fs::read_to_string(&path).with_context(|| format!("read {path}"))?;
    faults(&text).with_context(|| format!("understand {path}"))
}

/// Fields 12 and 13.
fn faults(stat: &str) -> Option<[u64; 2]> {
    let (_, rest) = stat.rsplit_once(')')?;
    let mut fields = rest.split_whitespace().skip(9).map_while(|f| f.parse::<u64>().ok());
    Some([fields.next()?, fields.next()?])
}

/// Fields 14 and 15, 16 and 17. The name in front of them is whatever the process likes.
fn ticks(stat: &str) -> Option<[u64; 2]> {
    let (_, rest) = stat.rsplit_once(')')?;
    let mut fields = rest.split_whitespace().skip(11).map_while(|f| f.parse::<u64>().ok());
    let mut pair = || Some(fields.next()? + fields.next()?);
    Some([pair()?, pair()?])
}

/// A size from `/proc/PID/status`, for example `VmHWM`.
pub(crate) fn status_bytes(pid: u32, key: &str) -> anyhow::Result<u64> {
    let path = format!("/proc/{pid}/status");
    let text = fs::read_to_string(&path).with_context(|| format!("read {path}"))?;
    kib(&text, key).with_context(|| format!("no {key} in {path}"))
}

/// Memory that a new program could get.
pub(crate) fn available_bytes() -> anyhow::Result<u64> {
    let text = fs::read_to_string("/proc/meminfo").context("read /proc/meminfo")?;
    kib(&text, "MemAvailable").context("no MemAvailable in /proc/meminfo")
}

/// Load average of the last minute.
pub(crate) fn load_average() -> anyhow::Result<f64> {
    let text = fs::read_to_string("/proc/loadavg").context("read /proc/loadavg")?;
    let first = text.split_whitespace().next().and_then(|n| n.parse().ok());
    first.with_context(|| format!("understand /proc/loadavg: {text:?}"))
}

/// A size in a text like that of `/proc/PID/status`, in bytes.
pub(crate) fn kib(text: &str, key: &str) -> Option<u64> {
    let line = text.lines().find_map(|l| l.strip_prefix(key)?.strip_prefix(':'))?;
    Some(line.split_whitespace().next()?.parse::<u64>().ok()? << 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_found_by_their_whole_name() {
        let text = "VmHWMx:\t 5 kB\nVmHWM:\t    1234 kB\nVmRSS:\t 7 kB\n";
        assert_eq!(kib(text, "VmHWM"), Some(1234 << 10));
        assert_eq!(kib(text, "Vm"), None);
    }

    #[test]
    fn children_count() {
        let text = "7 (a b) c) S 1 2 3 4 5 6 7 8 9 10 100 20 3 4 20 0 1";
        assert_eq!(ticks(text), Some([120, 7]));
        assert_eq!((faults(text), faults("7 (a) S 1")), (Some([9, 10]), None));
        assert_eq!(ticks("7 (a) S 1"), None);
        assert!(cpu_and_childrens_ns(std::process::id()).is_ok());
    }

    #[test]
    fn children_are_part_of_the_tree() {
        let mut child = std::process::Command::new("sleep").arg("100").spawn().unwrap();
        let all = tree(std::process::id()).unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(all.contains(&std::process::id()) && all.contains(&child.id()), "{all:?}");
        assert!(!tree(std::process::id()).unwrap().contains(&child.id()));
        assert!(tree(u32::MAX).is_err());
    }

    #[test]
    fn own_numbers_are_there() {
        let pid = std::process::id();
        assert!(cpu_ns(pid).unwrap() > 0);
        assert!(status_bytes(pid, "VmRSS").unwrap() > 0);
        assert!(cpu_ns(u32::MAX).is_err());
    }
}
