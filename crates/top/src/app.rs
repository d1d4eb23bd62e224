//! What the user sees and does: a pure state machine of keys and worlds.
//!
//! [`App::key`] takes a key and returns what the loop has to do about it; [`App::take`] takes the
//! next world. While the view is frozen the newest world waits, and shows when it is let go.

use std::time::Duration;

use isotherm::raw::core::units::span_ns;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use crate::feed::Travel;
use crate::look::Look;
use crate::model::World;
use crate::model::table::{Grouping, Line, Order, SortKey, arrange};

/// How the view begins.
#[derive(Debug, Clone, Default)]
pub struct Start {
    /// What the rows are sorted by.
    pub sort: SortKey,
    /// What a row is.
    pub grouping: Grouping,
    /// Only rows with this in their name.
    pub filter: String,
    /// What the terminal can show.
    pub look: Look,
}

/// What the loop has to do after a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Act {
    None,
    Quit,
    /// Look closely at this process, or at none any more.
    Open(Option<u32>),
    Travel(Travel),
}

/// What fills the screen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Page {
    #[default]
    Table,
    Detail(u32),
}

/// A line that is being typed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Prompt {
    Filter(String),
    Time(String),
}

/// The application's state.
#[derive(Debug, Default)]
pub(crate) struct App {
    pub(crate) world: World,
    /// The newest world, while another one is held.
    waiting: Option<World>,
    pub(crate) is_frozen: bool,
    pub(crate) order: Order,
    pub(crate) page: Page,
    pub(crate) help: bool,
    pub(crate) prompt: Option<Prompt>,
    /// What to tell the user until the next key.
    pub(crate) message: String,
    pub(crate) look: Look,
    /// The name of the row that is selected, and its pid; 0 for groups.
    selected: Option<(u32, String)>,
    pub(crate) scroll: usize,
}

impl App {
    pub(crate) fn new(start: Start) -> Self {
        let Start { sort, grouping, filter, look } = start;
        let order = Order { key: sort, grouping, filter, ..Order::default() };
        Self { order, look, ..Self::default() }
    }

    /// Takes in a new world.
    pub(crate) fn take(&mut self, world: World) {
        // In a record, freezing stops the time itself, and travelling must show.
        if self.is_frozen && world.position.is_none() {
            self.waiting = Some(world);
        } else {
            self.world = world;
        }
    }

    /// The lines of the table.
    pub(crate) fn lines(&self) -> Vec<Line<'_>> {
        arrange(&self.world, &self.order)
    }

    /// The index of the selected line. A row that has gone leaves the first one selected.
    pub(crate) fn selection(&self, lines: &[Line<'_>]) -> usize {
        let Some((pid, name)) = &self.selected else { return 0 };
        let is_it = |line: &Line<'_>| line.row.pid == *pid && (*pid != 0 || line.row.name == *name);
        lines.iter().position(is_it).unwrap_or(0)
    }

    fn is_replay(&self) -> bool {
        self.world.position.is_some()
    }

    /// A key was pressed.
    pub(crate) fn key(&mut self, key: KeyEvent) -> Act {
        self.message.clear();
        if key.modifiers.contains(KeyModifiers::CONTROL) && key.code == KeyCode::Char('c') {
            return Act::Quit;
        }
        if let Some(prompt) = self.prompt.take() {
            return self.typed(prompt, key.code);
        }
        if self.help {
            self.help = false;
            return if key.code == KeyCode::Char('q') { Act::Quit } else { Act::None };
        }
        match key.code {
            KeyCode::Char('q') => Act::Quit,
            KeyCode::Char('?' | 'h') | KeyCode::F(1) => {
                self.help = true;
                Act::None
            }
            KeyCode::Char(' ') => self.freeze(),
            KeyCode::Char('t') if self.is_replay() => {
                self.prompt = Some(Prompt::Time(String::new()));
                Act::None
            }
            KeyCode::Char('t') => {
                "there is no way back in time here: record first, then top -i FILE"
                    .clone_into(&mut self.message);
                Act::None
            }
            code if self.is_replay() && travel(code).is_some() => {
                travel(code).map_or(Act::None, Act::Travel)
            }
            code => match self.page {
                Page::Table => self.table_key(code),
                Page::Detail(_) => self.detail_key(code),
            },
        }
    }

    /// A key while a line is being typed.
    fn typed(&mut self, prompt: Prompt, code: KeyCode) -> Act {
        let edit = |mut text: String| match code {
            KeyCode::Char(c) => {
                text.push(c);
                Some(text)
            }
            KeyCode::Backspace => {
                text.pop();
                Some(text)
            }
            _ => None,
        };
        match (prompt, code) {
            (Prompt::Filter(_), KeyCode::Esc) => self.order.filter.clear(),
            (Prompt::Filter(_), KeyCode::Enter) | (Prompt::Time(_), KeyCode::Esc) => {}
            (Prompt::Time(text), KeyCode::Enter) => match span_ns(text.trim()) {
                Ok(ns) => return Act::Travel(Travel::To(Duration::from_nanos(ns))),
                Err(why) => self.message = format!("{text}: {why}; for example 90s or 5m"),
            },
            (Prompt::Filter(text), _) => {
                let text = edit(text.clone()).unwrap_or(text);
                // What is typed filters at once.
                self.order.filter.clone_from(&text);
                self.prompt = Some(Prompt::Filter(text));
            }
            (Prompt::Time(text), _) => {
                self.prompt = Some(Prompt::Time(edit(text.clone()).unwrap_or(text)));
            }
        }
        Act::None
    }

    fn freeze(&mut self) -> Act {
        self.is_frozen = !self.is_frozen;
        if self.is_replay() {
            return Act::Travel(if self.is_frozen { Travel::Pause } else { Travel::Play });
        }
        if let Some(world) = self.waiting.take().filter(|_| !self.is_frozen) {
            self.world = world;
        }
        Act::None
    }

    fn detail_key(&mut self, code: KeyCode) -> Act {
        match code {
            KeyCode::Esc | KeyCode::Enter | KeyCode::Backspace => {
                self.page = Page::Table;
                Act::Open(None)
            }
            _ => Act::None,
        }
    }

    fn table_key(&mut self, code: KeyCode) -> Act {
        let order = &mut self.order;
        match code {
            KeyCode::Char('s') => order.key = order.key.step(1),
            KeyCode::Char('S') => order.key = order.key.step(SortKey::ALL.len() - 1),
            KeyCode::Char('r') => order.reverse = !order.reverse,
            KeyCode::Char('v') => order.tree = !order.tree,
            KeyCode::Char('p') => order.grouping = Grouping::Processes,
            KeyCode::Char('c') => toggle(&mut order.grouping, Grouping::Cgroups),
            KeyCode::Char('u') => toggle(&mut order.grouping, Grouping::Units),
            KeyCode::Char('P') => toggle(&mut order.grouping, Grouping::Pods),
            KeyCode::Char('C') => toggle(&mut order.grouping, Grouping::Containers),
            KeyCode::Char('U') => toggle(&mut order.grouping, Grouping::Users),
            KeyCode::Char('/') => self.prompt = Some(Prompt::Filter(order.filter.clone())),
            KeyCode::Esc => order.filter.clear(),
            KeyCode::Enter => return self.open(),
            KeyCode::Down | KeyCode::Char('j') => self.move_by(1),
            KeyCode::Up | KeyCode::Char('k') => self.move_by(-1),
            KeyCode::PageDown => self.move_by(10),
            KeyCode::PageUp => self.move_by(-10),
            KeyCode::Home | KeyCode::Char('g') => self.move_by(isize::MIN),
            KeyCode::End | KeyCode::Char('G') => self.move_by(isize::MAX),
            _ => {}
        }
        Act::None
    }

    fn move_by(&mut self, by: isize) {
        let lines = arrange(&self.world, &self.order);
        let Some(last) = lines.len().checked_sub(1) else { return };
        let at = self.selection(&lines).saturating_add_signed(by).min(last);
        let chosen = lines.get(at).map(|line| (line.row.pid, line.row.name.clone()));
        self.selected = chosen;
    }

    /// Opens the selected process; of a group, shows its processes.
    fn open(&mut self) -> Act {
        let lines = arrange(&self.world, &self.order);
        let Some(line) = lines.get(self.selection(&lines)) else { return Act::None };
        let (pid, name) = (line.row.pid, line.row.name.clone());
        if self.order.grouping == Grouping::Processes {
            self.page = Page::Detail(pid);
            self.selected = Some((pid, name));
            return Act::Open(Some(pid));
        }
        self.order.grouping = Grouping::Processes;
        self.order.filter = name;
        self.selected = None;
        Act::None
    }
}

fn toggle(grouping: &mut Grouping, to: Grouping) {
    *grouping = if *grouping == to { Grouping::Processes } else { to };
}

/// Keys that travel in time. Up and down still choose rows.
const fn travel(code: KeyCode) -> Option<Travel> {
    const fn by(s: i64) -> Option<Travel> {
        Some(Travel::By { s })
    }
    match code {
        KeyCode::Left => by(-1),
        KeyCode::Right => by(1),
        KeyCode::Char('[') => by(-10),
        KeyCode::Char(']') => by(10),
        KeyCode::Char('{') => by(-60),
        KeyCode::Char('}') => by(60),
        KeyCode::Char('0') => Some(Travel::To(Duration::ZERO)),
        KeyCode::Char('$') => Some(Travel::To(Duration::MAX)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Position, Row};

    fn world(pids: &[u32]) -> World {
        let row = |pid: &u32| Row { pid: *pid, name: format!("p{pid}"), ..Row::default() };
        World { rows: pids.iter().map(row).collect(), ..World::default() }
    }

    fn press(app: &mut App, keys: &str) -> Act {
        let code = |c| match c {
            '\n' => KeyCode::Enter,
            '\x1b' => KeyCode::Esc,
            '\x08' => KeyCode::Backspace,
            c => KeyCode::Char(c),
        };
        keys.chars().fold(Act::None, |_, c| app.key(KeyEvent::new(code(c), KeyModifiers::NONE)))
    }

    fn app() -> App {
        let mut app = App::new(Start { sort: SortKey::Pid, ..Start::default() });
        app.take(world(&[1, 2, 30]));
        app
    }

    fn shown(app: &App) -> Vec<u32> {
        app.lines().iter().map(|line| line.row.pid).collect()
    }

    #[test]
    fn q_and_control_c_quit_also_while_typing() {
        assert_eq!(press(&mut app(), "q"), Act::Quit);
        let mut app = app();
        assert_eq!(press(&mut app, "/q"), Act::None);
        let key = KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL);
        assert_eq!(app.key(key), Act::Quit);
    }

    #[test]
    fn a_filter_works_while_it_is_typed_and_goes_with_escape() {
        let mut app = app();
        press(&mut app, "/p3");
        assert_eq!(shown(&app), [30]);
        press(&mut app, "\x08\n");
        assert_eq!((shown(&app).len(), app.prompt.is_none()), (3, true));
        press(&mut app, "/p2\n\x1b");
        assert_eq!(shown(&app).len(), 3);
    }

    #[test]
    fn the_selection_stays_with_its_row_when_rows_come_and_go() {
        let mut app = app();
        press(&mut app, "jj");
        app.take(world(&[1, 2, 7, 30]));
        assert_eq!(app.selection(&app.lines()), 3);
        assert_eq!(press(&mut app, "\n"), Act::Open(Some(30)));
        assert_eq!(app.page, Page::Detail(30));
        assert_eq!(press(&mut app, "\x1b"), Act::Open(None));
        press(&mut app, "jjjjjkkkkkkkk");
        assert_eq!(app.selection(&app.lines()), 0);
    }

    #[test]
    fn what_is_frozen_stays_and_what_came_meanwhile_shows_afterwards() {
        let mut app = app();
        press(&mut app, " ");
        app.take(world(&[5]));
        assert_eq!(shown(&app), [1, 2, 30]);
        press(&mut app, " ");
        assert_eq!(shown(&app), [5]);
    }

    #[test]
    fn in_a_record_time_moves_and_live_it_is_said_why_not() {
        let mut app = app();
        assert_eq!(press(&mut app, "t"), Act::None);
        assert!(app.message.contains("record first"), "{}", app.message);
        assert_eq!(press(&mut app, "]"), Act::None);
        app.take(World { position: Some(Position::default()), ..world(&[1]) });
        assert_eq!(press(&mut app, "]"), Act::Travel(Travel::By { s: 10 }));
        assert_eq!(press(&mut app, "t1m\n"), Act::Travel(Travel::To(Duration::from_secs(60))));
        assert_eq!(press(&mut app, "tx\n"), Act::None);
        assert!(app.message.contains("for example"), "{}", app.message);
        assert_eq!(press(&mut app, " "), Act::Travel(Travel::Pause));
        // What a traveller comes to shows although the time stands still.
        app.take(World { position: Some(Position::default()), ..world(&[9]) });
        assert_eq!(shown(&app), [9]);
    }

    #[test]
    fn a_group_opens_as_its_processes() {
        let mut app = app();
        let mut rows = world(&[1, 2]);
        rows.rows[0].cgroup = "/a.slice".into();
        rows.rows[1].cgroup = "/b.slice".into();
        app.take(rows);
        press(&mut app, "c");
        assert_eq!(app.order.grouping, Grouping::Cgroups);
        press(&mut app, "j\n");
        assert_eq!((app.order.grouping, shown(&app)), (Grouping::Processes, vec![2]));
        press(&mut app, "uu");
        assert_eq!(app.order.grouping, Grouping::Processes);
    }

    #[test]
    fn any_key_leaves_the_help() {
        let mut app = app();
        press(&mut app, "?");
        assert!(app.help);
        press(&mut app, "s");
        assert!(!app.help && app.order.key == SortKey::Pid);
    }
}
