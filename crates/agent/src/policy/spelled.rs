//! A target as one word: `KIND:WHICH`, the same on the command line, in policies and in settings.
//!
//! | word | means |
//! |---|---|
//! | `pid:4711` | a process |
//! | `name:postgres*`, `command:postgres*` | processes by their command's name |
//! | `cgroup:/system.slice/*` | cgroups, and those below them |
//! | `unit:redis.service` | a systemd unit |
//! | `pod:shop/web-*` | Kubernetes pods |
//! | `container:nginx` | containers |
//! | `user:postgres` | a user's processes |
//! | `rss:64M` | processes that are, or were, so large |
//! | `paddr:node:1` | physical memory |

use isotherm_core::units;
use isotherm_ops::targets::Memory;

use super::TargetSpec;
use super::parse::cgroup_path;

/// What a user can write, for hints.
pub(crate) const HINT: &str = "KIND:WHICH, with one of the kinds pid, name, cgroup, unit, pod, container, user, rss \
                               and paddr, as unit:redis.service or cgroup:/app";

impl TargetSpec {
    /// Reads a target as one word.
    ///
    /// # Errors
    ///
    /// Why the word is none, for people.
    pub fn parse(word: &str) -> Result<Self, String> {
        let Some((kind, which)) = word.split_once(':') else {
            return Err("it does not say of which kind".to_owned());
        };
        if which.is_empty() || which.chars().any(char::is_control) {
            return Err(format!("`{kind}:` is followed by nothing that can be meant"));
        }
        let text = || which.to_owned();
        Ok(match kind {
            "pid" => match which.parse() {
                Ok(pid @ 1..) if i32::try_from(pid).is_ok() => Self::Pid(pid),
                _ => return Err(format!("`{which}` is no pid")),
            },
            "name" | "command" => Self::Name(text()),
            "cgroup" => {
                Self::Cgroup(cgroup_path(&format!("/{}", which.trim_matches('/')))?.to_owned())
            }
            "unit" => Self::Unit(text()),
            "pod" => Self::Pod(text()),
            "container" => Self::Container(text()),
            "user" => Self::User(text()),
            "rss" => match units::size(which) {
                Ok(bytes @ 1..) => Self::Rss(bytes),
                _ => return Err(format!("`{which}` is no size")),
            },
            "paddr" => Self::Memory(Memory::parse(which).map_err(|err| err.why().to_owned())?),
            kind => return Err(format!("there is no kind `{kind}`")),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_name_targets() {
        for (word, target) in [
            ("pid:7", TargetSpec::Pid(7)),
            ("name:pg*", TargetSpec::Name("pg*".into())),
            ("command:redis", TargetSpec::Name("redis".into())),
            ("cgroup:system.slice/x/", TargetSpec::Cgroup("/system.slice/x".into())),
            ("cgroup:/", TargetSpec::Cgroup("/".into())),
            ("unit:foo.service", TargetSpec::Unit("foo.service".into())),
            ("pod:shop/web-*", TargetSpec::Pod("shop/web-*".into())),
            ("container:nginx", TargetSpec::Container("nginx".into())),
            ("user:33", TargetSpec::User("33".into())),
            ("rss:64M", TargetSpec::Rss(64 << 20)),
            ("paddr:node:1", TargetSpec::Memory(Memory::Node(1))),
        ] {
            assert_eq!(TargetSpec::parse(word), Ok(target), "{word}");
        }
    }

    #[test]
    fn other_words_are_refused_with_a_reason() {
        for (word, part) in [
            ("redis", "of which kind"),
            ("unit:", "nothing"),
            ("pid:0", "no pid"),
            ("pid:x", "no pid"),
            ("cgroup:/a/../b", "not the path"),
            ("rss:0", "no size"),
            ("image:nginx", "no kind `image`"),
        ] {
            let why = TargetSpec::parse(word).unwrap_err();
            assert!(why.contains(part), "{word}: {why}");
        }
    }
}
