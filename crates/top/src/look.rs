//! Colours and signs, by what the terminal can show. Without colours every sign still says what the
//! colour said.

use ratatui::style::{Color, Modifier, Style};

/// What the terminal can show.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Look {
    /// Whether to use colours (`NO_COLOR`).
    pub color: bool,
    /// Whether the locale has more signs than ASCII.
    pub unicode: bool,
}

impl Look {
    fn with(self, color: Color, plain: Modifier) -> Style {
        if self.color { Style::new().fg(color) } else { Style::new().add_modifier(plain) }
    }

    pub(crate) fn title(self) -> Style {
        Style::new().add_modifier(Modifier::BOLD)
    }

    pub(crate) fn heading(self) -> Style {
        Style::new().add_modifier(Modifier::REVERSED)
    }

    pub(crate) fn selected(self) -> Style {
        if self.color {
            Style::new().bg(Color::DarkGray).fg(Color::White)
        } else {
            Style::new().add_modifier(Modifier::BOLD | Modifier::UNDERLINED)
        }
    }

    pub(crate) fn quiet(self) -> Style {
        self.with(Color::DarkGray, Modifier::empty())
    }

    pub(crate) fn warning(self) -> Style {
        self.with(Color::Yellow, Modifier::BOLD)
    }

    /// Hot, warm, cold, unresolved.
    pub(crate) fn tiers(self) -> [(&'static str, Style); 4] {
        let plain = Modifier::empty();
        let signs = ["#", "+", ".", "?"];
        let colors = [Color::Red, Color::Yellow, Color::Blue, Color::DarkGray];
        std::array::from_fn(|at| (signs[at], self.with(colors[at], plain)))
    }

    /// The sign of a share of 255 that was touched: the ramp of `report heatmap`.
    pub(crate) fn heat(self, level: u8) -> (char, Style) {
        const RAMP: [char; 9] = [':', '-', '=', '+', '*', '#', '%', '@', '@'];
        const COLORS: [Color; 4] = [Color::Magenta, Color::Red, Color::Yellow, Color::White];
        let sign = if level == 0 { '.' } else { RAMP[usize::from(level - 1) * 8 / 254] };
        let color = if level == 0 { Color::Blue } else { COLORS[usize::from(level - 1) * 3 / 254] };
        (sign, self.with(color, Modifier::empty()))
    }

    /// The signs of a trend, the lowest first.
    pub(crate) const fn steps(self) -> &'static [char] {
        if self.unicode {
            &['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█']
        } else {
            &['_', '.', '-', '=', '*', '#']
        }
    }
}
