//! Bare pids: `isotherm wss 4711 -i 10s` means `isotherm wss -p 4711 -i 10s`.
//!
//! All words behind a command are its arguments, so whatever stands behind a bare pid would be
//! taken for arguments as well. The parser says where the bare words begin. If the first of them is
//! a number, it is written as an option, and the words behind it are read anew.

use std::ffi::{OsStr, OsString};

use clap::Command;

/// The arguments of the program with bare pids written as `-p PID`. What cannot be parsed stays as
/// it is, for the parser to tell.
pub(crate) fn with_pids(program: &Command, mut args: Vec<OsString>) -> Vec<OsString> {
    while let Some(at) = bare_pid(program, &args) {
        args.insert(at, OsString::from("-p"));
    }
    args
}

/// Where the command to start is only a number, or several with commas between them, that does not
/// stand behind `--`.
fn bare_pid(program: &Command, args: &[OsString]) -> Option<usize> {
    let matches = program.clone().try_get_matches_from(args).ok()?;
    let (_, matches) = matches.subcommand()?;
    let words: Vec<&OsStr> = matches.try_get_raw("command").ok()??.collect();
    let at = args.len().checked_sub(words.len())?;
    let is_here = args.get(at..)?.iter().map(OsString::as_os_str).eq(words.iter().copied());
    let is_number = |word: &OsStr| {
        let bytes = word.as_encoded_bytes();
        let is_pid = |part: &[u8]| !part.is_empty() && part.iter().all(u8::is_ascii_digit);
        bytes.split(|byte| *byte == b',').all(is_pid)
    };
    let is_spelled_out = args.get(at.checked_sub(1)?)? == "--";
    (is_here && !is_spelled_out && is_number(words.first()?)).then_some(at)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn program() -> Command {
        let command = clap::Arg::new("command").num_args(0..).trailing_var_arg(true);
        let pids = clap::Arg::new("pids")
            .short('p')
            .value_delimiter(',')
            .num_args(1)
            .action(clap::ArgAction::Append);
        let interval = clap::Arg::new("interval").short('i');
        Command::new("isotherm").subcommand(Command::new("wss").args([command, pids, interval]))
    }

    #[test]
    fn bare_pids_become_options_and_commands_stay() {
        for (typed, read) in [
            ("isotherm wss 12", "isotherm wss -p 12"),
            ("isotherm wss 12 -i 5s", "isotherm wss -p 12 -i 5s"),
            ("isotherm wss -i 5s 12 34", "isotherm wss -i 5s -p 12 -p 34"),
            ("isotherm wss -p 12 34 -i 5s", "isotherm wss -p 12 -p 34 -i 5s"),
            ("isotherm wss 12,34 -i 5s", "isotherm wss -p 12,34 -i 5s"),
            ("isotherm wss 12, -i 5s", "isotherm wss 12, -i 5s"),
            ("isotherm wss 12 sleep 5", "isotherm wss -p 12 sleep 5"),
            ("isotherm wss sleep 5", "isotherm wss sleep 5"),
            ("isotherm wss ls -i 5", "isotherm wss ls -i 5"),
            ("isotherm wss -- 12", "isotherm wss -- 12"),
            ("isotherm wss -x 12", "isotherm wss -x 12"),
            ("isotherm", "isotherm"),
        ] {
            let words = |text: &str| text.split(' ').map(OsString::from).collect::<Vec<_>>();
            assert_eq!(with_pids(&program(), words(typed)), words(read));
        }
    }
}
