//! The colours of heat, in pictures and on terminals.

mod scale;

pub use scale::Scale;

/// What a terminal can do; the caller decides (and honours `NO_COLOR`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Color {
    /// No escape codes at all.
    #[default]
    None,
    /// The 16 named colours.
    Ansi16,
    /// The 256-colour cube.
    Ansi256,
    /// 24 bits.
    True,
}

/// How text is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Style {
    /// Colours.
    pub color: Color,
}

/// Colour of "not mapped" in pictures.
pub(super) const ABSENT: [u8; 3] = [255, 255, 255];
/// Colour of "unresolved" in pictures.
pub(super) const UNRESOLVED: [u8; 3] = [176, 190, 200];

/// Colours from dark to bright, evenly spaced. People who cannot tell red from green can read them.
const STOPS: [[u8; 3]; 7] = [
    [22, 11, 57],
    [66, 10, 104],
    [125, 30, 109],
    [186, 54, 85],
    [229, 92, 48],
    [249, 158, 20],
    [252, 244, 150],
];

/// Number of steps that pictures and terminals distinguish.
pub(super) const LEVELS: u8 = 64;

/// The step of a rate: 0 for never, at least 1 for any access.
pub(super) fn level(rate: f32) -> u8 {
    if rate <= 0.0 {
        return 0;
    }
    let x = (f64::from(rate) * f64::from(LEVELS - 1)).round();
    u8::try_from(crate::numbers::to_usize(x)).unwrap_or(LEVELS).clamp(1, LEVELS - 1)
}

/// Colour of a step.
pub(super) fn rgb(level: u8) -> [u8; 3] {
    let x = f64::from(level) / f64::from(LEVELS - 1) * f64::from(6u8);
    let below = crate::numbers::to_usize(x.floor()).min(STOPS.len() - 2);
    #[expect(clippy::cast_precision_loss, reason = "below 7")]
    let part = x - below as f64;
    std::array::from_fn(|i| {
        let (a, b) = (f64::from(STOPS[below][i]), f64::from(STOPS[below + 1][i]));
        u8::try_from(crate::numbers::to_usize(a + (b - a) * part)).unwrap_or(u8::MAX)
    })
}

impl Color {
    /// The escape sequence that sets the background to a step; empty without colours.
    pub(super) fn background(self, level: u8) -> String {
        let [r, g, b] = rgb(level);
        match self {
            Self::None => String::new(),
            Self::True => format!("\x1b[48;2;{r};{g};{b}m"),
            Self::Ansi256 => {
                let cube = |x: u8| u32::from(x).saturating_sub(35).div_ceil(40).min(5);
                format!("\x1b[48;5;{}m", 16 + 36 * cube(r) + 6 * cube(g) + cube(b))
            }
            Self::Ansi16 => {
                // Black, blue, magenta, red, yellow, white.
                const NAMED: [u8; 6] = [40, 44, 45, 41, 43, 47];
                let step = usize::from(level) * NAMED.len() / usize::from(LEVELS);
                let step = if level > 0 { step.max(1) } else { 0 };
                format!("\x1b[{}m", NAMED[step.min(NAMED.len() - 1)])
            }
        }
    }

    /// The escape sequence that ends it.
    pub(super) fn reset(self) -> &'static str {
        if self == Self::None { "" } else { "\x1b[0m" }
    }
}
