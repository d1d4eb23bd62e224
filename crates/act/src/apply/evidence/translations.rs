//! Makes processors drop their TLB entries, so that marks of idle pages can be believed.
//!
//! A mark is set without a flush (`mm/page_idle.c`), so a page in constant use sets no accessed bit
//! for as long as its translation stays in a TLB: a small hot set can look idle for seconds. An
//! actor that relies on marks therefore flushes after marking, once for all marked pages, and only
//! then begins to wait.

use std::path::Path;

use isotherm_host::nodes::Nodes;
use isotherm_sys::flush::flush_translations;

/// What is known of the machine's processors.
#[derive(Debug, Default)]
pub(in crate::apply) struct Translations {
    /// Why they cannot be made to forget, once it was found out.
    cannot: Option<Option<String>>,
}

impl Translations {
    /// Makes all processors forget.
    ///
    /// # Errors
    ///
    /// Why not, in words for people; marks prove nothing then.
    pub(in crate::apply) fn flush(&mut self) -> Result<(), String> {
        let root = Path::new("/");
        if let Some(why) = self.cannot.get_or_insert_with(|| cannot(root)) {
            return Err(why.clone());
        }
        let cpus = Nodes::list(&root.join("sys/devices/system/cpu/online")).unwrap_or_default();
        let cpus: Vec<usize> = cpus.into_iter().filter_map(|n| n.try_into().ok()).collect();
        flush_translations(&cpus).map_err(|e| {
            format!(
                "marks of idle pages cannot be believed, so nothing is done\n  tried: drop the translations of all CPUs: \
                 {e}\n  why:   a CPU is not allowed to Isotherm (cpuset), or real-time tasks keep it\n  hint:  let Isotherm \
                 run on all CPUs"
            )
        })
    }
}

/// Why this machine's processors cannot be made to forget.
fn cannot(root: &Path) -> Option<String> {
    if !cfg!(target_arch = "x86_64") {
        return Some(refusal("only on x86 it is known how to make processors forget translations"));
    }
    let cpuinfo = std::fs::read_to_string(root.join("proc/cpuinfo")).unwrap_or_default();
    let flags = cpuinfo.lines().find(|line| line.starts_with("flags")).unwrap_or_default();
    let broadcasts = flags.split_whitespace().any(|flag| flag == "invlpgb");
    broadcasts.then(|| {
        refusal(
            "this processor keeps translations of large programs for good (INVLPGB, Linux 6.15)",
        )
    })
}

fn refusal(why: &str) -> String {
    format!(
        "marks of idle pages cannot be believed here, so nothing is done\n  why:   {why}\n  hint:  use operations set \
         `pagewalk` for processes, `kdamond` for physical memory"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processors_that_do_not_forget_are_refused() {
        for (flags, refused) in [("fpu invlpg pcid", false), ("fpu invlpgb", true), ("", false)] {
            let root = tempfile::tempdir().unwrap();
            std::fs::create_dir(root.path().join("proc")).unwrap();
            let text = format!("processor : 0\nflags\t\t: {flags}\nbugs : x\n");
            std::fs::write(root.path().join("proc/cpuinfo"), text).unwrap();
            let why = cannot(root.path());
            assert_eq!(why.is_some(), refused || !cfg!(target_arch = "x86_64"), "{why:?}");
        }
    }
}
