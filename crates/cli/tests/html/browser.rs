//! A headless browser, if one is installed here.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;

/// How a page is looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Theme {
    Light,
    Dark,
}

pub(crate) struct Browser(PathBuf);

/// What a page did.
#[derive(Debug)]
pub(crate) struct Seen {
    /// What the test's script has returned.
    pub(crate) result: Value,
    /// The lines that the browser's console would show.
    pub(crate) console: Vec<String>,
}

impl Browser {
    /// The browser; without one, the reason to skip is printed.
    pub(crate) fn find() -> Option<Self> {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let names = ["chromium", "chromium-browser", "google-chrome"];
        let all = std::env::split_paths(&path);
        let found = all.flat_map(|dir| names.map(|name| dir.join(name))).find(|p| p.is_file());
        if found.is_none() {
            eprintln!("skipped: no {} is installed here; ./ci/test installs one", names.join(", "));
        }
        found.map(Self)
    }

    fn run(&self, dir: &Path, theme: Theme, page: &Path, args: &[&str]) -> Output {
        let profile = dir.join("profile");
        let mut command = Command::new("timeout");
        command.args(["--kill-after=5", "150"]).arg(&self.0);
        // The sandbox needs rights that a test may not have; the page is ours.
        command.args(["--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"]);
        command.args(["--window-size=1200,1600", "--virtual-time-budget=60000"]);
        command.args(["--enable-logging=stderr", "--v=0"]);
        command.arg(format!("--user-data-dir={}", profile.display()));
        // 0 is dark and 1 light.
        let scheme = if theme == Theme::Dark { "0" } else { "1" };
        command.arg(format!("--blink-settings=preferredColorScheme={scheme}"));
        command.args(args).arg(format!("file://{}", page.display()));
        let output = command.output().unwrap();
        assert!(output.status.success(), "{output:?}");
        output
    }

    /// Opens a page, runs the body of an asynchronous function in it once it is complete, and
    /// returns what that returns.
    pub(crate) fn act(&self, dir: &Path, theme: Theme, page: &Path, body: &str) -> Seen {
        let text = std::fs::read_to_string(page).unwrap();
        let script = format!(
            "<script>(async () => {{
              const pause = () => new Promise((go) => setTimeout(go, 200));
              for (let n = 0; n < 100 && !document.documentElement.dataset.ready; n += 1) await pause();
              const act = async () => {{ {body} }};
              const result = JSON.stringify(await act());
              document.body.dataset.result = btoa(unescape(encodeURIComponent(result)));
            }})();</script></body>"
        );
        let acted = dir.join("acted.html");
        std::fs::write(&acted, text.replace("</body>", &script)).unwrap();
        let output = self.run(dir, theme, &acted, &["--dump-dom"]);
        let dom = String::from_utf8_lossy(&output.stdout);
        let log = String::from_utf8_lossy(&output.stderr);
        let console = log.lines().filter(|line| line.contains("CONSOLE")).map(str::to_owned);
        Seen { result: result_in(&dom), console: console.collect() }
    }

    /// The page as a picture.
    pub(crate) fn picture(&self, dir: &Path, theme: Theme, page: &Path) -> Vec<u8> {
        let png = dir.join("page.png");
        let argument = format!("--screenshot={}", png.display());
        self.run(dir, theme, page, &[&argument]);
        std::fs::read(&png).unwrap()
    }
}

/// What the script has left in the page.
fn result_in(dom: &str) -> Value {
    let Some((_, rest)) = dom.split_once("data-result=\"") else { return Value::Null };
    let (text, _) = rest.split_once('"').unwrap();
    let digits = |c: u8| match c {
        b'A'..=b'Z' => c - b'A',
        b'a'..=b'z' => c - b'a' + 26,
        b'0'..=b'9' => c - b'0' + 52,
        b'+' => 62,
        _ => 63,
    };
    let mut bytes = Vec::new();
    for four in text.trim_end_matches('=').as_bytes().chunks(4) {
        let all = four.iter().fold(0_u32, |sum, c| sum << 6 | u32::from(digits(*c)));
        let all = (all << (6 * (4 - four.len()))).to_be_bytes();
        bytes.extend_from_slice(&all[1..four.len()]);
    }
    serde_json::from_slice(&bytes).unwrap()
}
