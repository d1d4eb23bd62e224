//! Files of users: policies, historic schemes, workload configs.

use isotherm_agent::damos::parse_damos;
use isotherm_agent::policy;
use isotherm_core::Attrs;
use isotherm_sim::config::Config;

/// A policy that is taken can be printed, and means the same when it is read again. One that is
/// refused can be shown.
pub(crate) fn policy(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    match policy::parse(&text, "fuzz.toml") {
        Ok(first) => {
            let printed = policy::print(&first);
            let again = policy::parse(&printed, "printed.toml");
            let again = again.unwrap_or_else(|e| panic!("what was printed is refused: {e}"));
            assert_eq!(again, first, "{printed}");
        }
        Err(refused) => assert!(!refused.to_string().is_empty(), "a refusal says why"),
    }
}

/// Schemes in DAMON's historic formats.
pub(crate) fn damos(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    match parse_damos(&text, "fuzz.damos", &Attrs::default()) {
        Ok(schemes) => assert!(!schemes.is_empty(), "no scheme is an error"),
        Err(refused) => assert!(!refused.to_string().is_empty(), "a refusal says why"),
    }
}

/// A config that is taken can be printed, and means the same when it is read again.
pub(crate) fn workload(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    match Config::parse(&text) {
        Ok(first) => {
            let printed = first.to_string();
            let again = Config::parse(&printed);
            let again = again.unwrap_or_else(|e| panic!("what was printed is refused: {e}"));
            assert_eq!(again, first, "{printed}");
        }
        Err(refused) => assert!(!refused.to_string().is_empty(), "a refusal says why"),
    }
}
