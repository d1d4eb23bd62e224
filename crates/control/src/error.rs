//! What goes wrong: as the agent says it, and as a caller hears it.

use std::fmt;
use std::io;
use std::path::Path;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::NAME;
use crate::message::{Reply, object};

/// The kind of a refusal. Each is an error of the interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// The caller may not do this.
    NotAllowed,
    /// There is no policy of this name.
    NoSuchPolicy,
    /// A policy cannot be in force.
    Refused,
    /// It makes no sense in the policy's present state.
    WrongState,
    /// The agent serves as many clients as it can.
    Busy,
    /// A message that is no call, or too large.
    BadMessage,
    /// The agent could not do it.
    Failed,
}

impl Kind {
    const ALL: [Self; 7] = [
        Self::NotAllowed,
        Self::NoSuchPolicy,
        Self::Refused,
        Self::WrongState,
        Self::Busy,
        Self::BadMessage,
        Self::Failed,
    ];

    const fn name(self) -> &'static str {
        match self {
            Self::NotAllowed => "NotAllowed",
            Self::NoSuchPolicy => "NoSuchPolicy",
            Self::Refused => "Refused",
            Self::WrongState => "WrongState",
            Self::Busy => "Busy",
            Self::BadMessage => "BadMessage",
            Self::Failed => "Failed",
        }
    }

    /// The exit code of a program that ends for it; see docs/SPEC.md.
    const fn code(self) -> u8 {
        match self {
            Self::NotAllowed => 4,
            Self::NoSuchPolicy | Self::WrongState | Self::Refused | Self::BadMessage => 2,
            Self::Busy | Self::Failed => 1,
        }
    }
}

/// A refusal of the agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// Its kind.
    pub kind: Kind,
    /// What was tried.
    pub what: String,
    /// Why it is not done.
    pub why: String,
    /// What to do about it.
    pub hint: String,
    /// The exit code that a program should end with.
    pub code: u8,
}

#[derive(Debug, Default, Serialize, Deserialize)]
struct Said {
    #[serde(default)]
    what: String,
    #[serde(default)]
    why: String,
    #[serde(default)]
    hint: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    code: Option<u8>,
}

impl Refusal {
    /// A refusal of this kind.
    #[must_use]
    pub fn new(
        kind: Kind,
        what: impl Into<String>,
        why: impl Into<String>,
        hint: impl Into<String>,
    ) -> Self {
        let (what, why, hint) = (what.into(), why.into(), hint.into());
        Self { kind, what, why, hint, code: kind.code() }
    }

    /// The refusal of a policy, from a text for people whose further lines may begin with `why:`
    /// and `hint:`. Lines that begin with neither belong to what was tried.
    #[must_use]
    pub fn of_policy(code: u8, text: &str) -> Self {
        let mut this = Self { code, ..Self::new(Kind::Refused, "", "", "") };
        let mut into = &mut this.what;
        for line in text.lines() {
            let begins = |word: &str| line.trim_start().strip_prefix(word).map(str::trim_start);
            let rest = match (begins("why:"), begins("hint:")) {
                (Some(rest), _) => {
                    into = &mut this.why;
                    rest
                }
                (_, Some(rest)) => {
                    into = &mut this.hint;
                    rest
                }
                _ => line,
            };
            if !into.is_empty() {
                into.push('\n');
            }
            into.push_str(rest);
        }
        this
    }

    /// The reply that says it.
    #[must_use]
    pub fn reply(&self) -> Reply {
        let Self { kind, what, why, hint, code } = self.clone();
        let code = (kind == Kind::Refused).then_some(code);
        Reply {
            parameters: object(&Said { what, why, hint, code }),
            continues: false,
            error: Some(format!("{NAME}.{}", kind.name())),
        }
    }

    /// What an error reply says. An error of varlink itself becomes [`Kind::BadMessage`].
    #[must_use]
    pub fn of_reply(error: &str, reply: &Reply) -> Self {
        let own = error.strip_prefix(NAME).and_then(|rest| rest.strip_prefix('.'));
        let kind = own.and_then(|name| Kind::ALL.into_iter().find(|kind| kind.name() == name));
        let Some(kind) = kind else {
            let about = Value::Object(reply.parameters.clone());
            let why = format!("it said {error} {about}");
            let hint = "is the agent of another version? `isotherm ctl status` tells its version";
            return Self::new(Kind::BadMessage, "the agent does not know this call", why, hint);
        };
        let said = serde_json::from_value(Value::Object(reply.parameters.clone()));
        let Said { what, why, hint, code }: Said = said.unwrap_or_default();
        Self { kind, what, why, hint, code: code.unwrap_or(kind.code()) }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)?;
        for (name, text) in [("why:  ", &self.why), ("hint: ", &self.hint)] {
            if !text.is_empty() {
                write!(f, "\n  {name} {text}")?;
            }
        }
        Ok(())
    }
}

impl std::error::Error for Refusal {}

/// Why a call has no answer.
#[derive(Debug)]
#[non_exhaustive]
pub enum CallError {
    /// The agent cannot be reached.
    Connect(Refusal),
    /// The agent refuses.
    Refused(Refusal),
    /// The agent hung up, or said something that is no reply.
    Lost(Refusal),
}

impl CallError {
    /// The agent cannot be reached at this path.
    #[must_use]
    pub fn connect(path: &Path, err: &io::Error) -> Self {
        let what = format!("cannot reach the agent at {}", path.display());
        let hint = match err.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => {
                "no agent runs there: `systemctl start isotherm`, or `isotherm agent`; --socket \
                 PATH for one that listens elsewhere"
            }
            io::ErrorKind::PermissionDenied => {
                "whoever is in the group `isotherm` may read: `usermod -aG isotherm USER`, then \
                 log in again"
            }
            _ => "--socket PATH for an agent that listens elsewhere",
        };
        let kind = match err.kind() {
            io::ErrorKind::PermissionDenied => Kind::NotAllowed,
            _ => Kind::Failed,
        };
        let mut refusal = Refusal::new(kind, what, err.to_string(), hint);
        if matches!(err.kind(), io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused) {
            refusal.code = 3;
        }
        Self::Connect(refusal)
    }

    pub(crate) fn lost(why: impl fmt::Display) -> Self {
        let hint = "its log says more: `journalctl -u isotherm`";
        Self::Lost(Refusal::new(Kind::Failed, "the agent gave no answer", why.to_string(), hint))
    }

    /// What it says.
    #[must_use]
    pub const fn refusal(&self) -> &Refusal {
        match self {
            Self::Connect(refusal) | Self::Refused(refusal) | Self::Lost(refusal) => refusal,
        }
    }
}

impl fmt::Display for CallError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.refusal().fmt(f)
    }
}

impl std::error::Error for CallError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_is_the_same_on_both_sides() {
        for kind in Kind::ALL {
            let refusal = Refusal::new(kind, "to stop `a`", "because", "do this");
            let reply = refusal.reply();
            let error = reply.error.clone().unwrap();
            assert_eq!(Refusal::of_reply(&error, &reply), refusal);
        }
        let code = Refusal::of_policy(3, "x");
        assert_eq!(Refusal::of_reply("io.isotherm.Control.Refused", &code.reply()).code, 3);
    }

    #[test]
    fn a_text_for_people_is_taken_apart() {
        let text =
            "context `a`: no\n  more of it\n  why:   it is so\n  hint:  change\n         that";
        let refusal = Refusal::of_policy(2, text);
        assert_eq!(refusal.what, "context `a`: no\n  more of it");
        assert_eq!(
            (refusal.why.as_str(), refusal.hint.as_str()),
            ("it is so", "change\n         that")
        );
        let other = Refusal::of_reply("org.varlink.service.MethodNotFound", &Reply::default());
        assert_eq!(other.kind, Kind::BadMessage);
    }
}
