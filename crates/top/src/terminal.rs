//! The loop over a real terminal: keys in, screens out.
//!
//! Invariants. The terminal is given back as it was found, also if something fails. A screen is
//! drawn when something has changed, not more often: over a slow line, and on our own CPU budget,
//! each one costs. A terminal that has gone ends the view. That is seen here, because crossterm
//! reads the end of such a terminal again and again, and never returns.

use std::fs::File;
use std::io::{IsTerminal, Write, stdin};
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use isotherm::raw::sys::signals::stop_requested;
use ratatui::Terminal;
use ratatui::backend::CrosstermBackend;
use ratatui::crossterm::event::{self, Event, KeyEventKind};
use ratatui::crossterm::terminal::{
    EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode,
};
use ratatui::crossterm::{cursor, execute};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use crate::Error;
use crate::app::{Act, App, Start};
use crate::feed::Feed;
use crate::screen;

/// How long the loop waits for a key before it looks for a new world. Each look costs a wake-up.
const KEYS: Duration = Duration::from_millis(200);

/// How long the first screen waits for the first world.
const FIRST: Duration = Duration::from_millis(500);

/// Gives the terminal back when it is dropped.
struct Screen<W: Write>(Terminal<CrosstermBackend<W>>);

impl<W: Write> Screen<W> {
    fn open(mut out: W) -> std::io::Result<Self> {
        enable_raw_mode()?;
        let entered = execute!(out, EnterAlternateScreen, cursor::Hide);
        let opened = entered.and_then(|()| Terminal::new(CrosstermBackend::new(out)));
        if opened.is_err() {
            disable_raw_mode()?;
        }
        opened.map(Self)
    }
}

impl<W: Write> Drop for Screen<W> {
    fn drop(&mut self) {
        // There is nobody to tell if the terminal has gone.
        execute!(self.0.backend_mut(), LeaveAlternateScreen, cursor::Show).ok();
        disable_raw_mode().ok();
    }
}

/// The terminal that keys come from: the same that crossterm takes.
fn keyboard() -> std::io::Result<OwnedFd> {
    let stdin = stdin();
    if stdin.is_terminal() {
        stdin.as_fd().try_clone_to_owned()
    } else {
        Ok(File::open("/dev/tty")?.into())
    }
}

/// Waits for a key, or for a while. Returns whether the terminal is still there.
fn wait(keyboard: &OwnedFd) -> std::io::Result<bool> {
    let mut fds = [PollFd::new(keyboard, PollFlags::IN)];
    let timeout = Timespec::try_from(KEYS).ok();
    match poll(&mut fds, timeout.as_ref()) {
        // A signal: the size has changed, or we are to stop.
        Err(Errno::INTR) => Ok(true),
        Err(err) => Err(err.into()),
        Ok(_) => {
            let gone = PollFlags::HUP | PollFlags::ERR | PollFlags::NVAL;
            Ok(!fds[0].revents().intersects(gone))
        }
    }
}

/// Shows what `feed` makes on the terminal behind `out` until the user quits, a signal asks us to
/// end, or the terminal has gone.
///
/// # Errors
///
/// [`Error::Terminal`] if the terminal fails, and what the feed says if it cannot go on.
pub fn run(feed: &mut dyn Feed, start: Start, out: impl Write) -> Result<(), Error> {
    let mut app = App::new(start);
    let mut screen = Screen::open(out).map_err(Error::Terminal)?;
    let keyboard = keyboard().map_err(Error::Terminal)?;
    // The first world comes at once, so no empty screen is drawn before it.
    if let Some(world) = feed.next(FIRST)? {
        app.take(world);
    }
    let mut is_new = true;
    loop {
        if stop_requested().is_some() {
            return Ok(());
        }
        while let Some(world) = feed.next(Duration::ZERO)? {
            app.take(world);
            is_new = true;
        }
        if is_new {
            let drawn =
                screen.0.draw(|frame| screen::draw(&mut app, frame.area(), frame.buffer_mut()));
            drawn.map_err(Error::Terminal)?;
            is_new = false;
        }
        if !wait(&keyboard).map_err(Error::Terminal)? {
            return Ok(());
        }
        while event::poll(Duration::ZERO).map_err(Error::Terminal)? {
            is_new = true;
            let Event::Key(key) = event::read().map_err(Error::Terminal)? else { continue };
            if key.kind == KeyEventKind::Release {
                continue;
            }
            match app.key(key) {
                Act::None => {}
                Act::Quit => return Ok(()),
                Act::Open(pid) => feed.open(pid),
                Act::Travel(travel) => feed.travel(travel),
            }
        }
    }
}
