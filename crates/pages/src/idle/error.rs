//! Errors of idle page tracking.

use std::io;

use isotherm_host::error::{SetError, SetKind};

/// The set's name in its errors.
pub const SET: &str = "idle";

/// What the kernel said about a file that only root may open and only some kernels have.
pub(super) fn of_file(path: &str, option: &str, said: io::Error) -> SetError {
    let (kind, why, hint) = match said.kind() {
        io::ErrorKind::NotFound => (
            SetKind::NotSupported,
            format!("this kernel was built without {option}"),
            format!("boot a kernel with {option}=y; `--ops pagewalk` needs none of it"),
        ),
        io::ErrorKind::PermissionDenied => (
            SetKind::Permission,
            "page frames are for root only (CAP_SYS_ADMIN, and no read-only /sys)".to_owned(),
            "run as root of the machine, not of a container".to_owned(),
        ),
        _ => (SetKind::Io, String::new(), String::new()),
    };
    SetError::of_set(SET, kind, format!("open {path}"), why, hint).with(said)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn says_what_was_tried_why_and_what_to_do() {
        let err = |kind: io::ErrorKind| of_file("/x", "CONFIG_X", kind.into());
        let expected = expect_test::expect![[r"
            operations set `idle` is not available
              tried: open /x: entity not found
              why:   this kernel was built without CONFIG_X
              hint:  boot a kernel with CONFIG_X=y; `--ops pagewalk` needs none of it"]];
        expected.assert_eq(&err(io::ErrorKind::NotFound).to_string());
        let expected = expect_test::expect![[r"
            operations set `idle` cannot watch process 7
              tried: open /x: permission denied
              why:   page frames are for root only (CAP_SYS_ADMIN, and no read-only /sys)
              hint:  run as root of the machine, not of a container"]];
        expected.assert_eq(&err(io::ErrorKind::PermissionDenied).of_process(SET, 7).to_string());
        assert_eq!(err(io::ErrorKind::Other).kind(), SetKind::Io);
    }
}
