//! Styles; without colours, marks and weight carry the meaning.

use ratatui::style::{Color, Modifier, Style};

/// The meaning of a piece of text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Tone {
    /// An ordinary figure.
    #[default]
    Plain,
    /// Secondary: units, unknown values.
    Dim,
    /// A name that the eye looks for.
    Strong,
    /// The heading of a table.
    Head,
    /// A bar.
    Bar,
    /// Needs attention.
    Warn,
    /// Wrong.
    Bad,
}

/// Maps tones to styles.
#[derive(Clone, Copy, Debug)]
pub struct Palette {
    /// Whether colours are used.
    pub has_colours: bool,
}

impl Palette {
    /// Returns the style of a tone.
    pub fn style(self, tone: Tone) -> Style {
        let style = Style::new();
        match tone {
            Tone::Plain => style,
            Tone::Dim => style.add_modifier(Modifier::DIM),
            Tone::Strong => style.add_modifier(Modifier::BOLD),
            Tone::Head => style.add_modifier(Modifier::BOLD | Modifier::UNDERLINED),
            Tone::Bar => self.coloured(Color::Cyan),
            Tone::Warn => self.coloured(Color::Yellow),
            Tone::Bad => self.coloured(Color::Red).add_modifier(Modifier::BOLD),
        }
    }

    fn coloured(self, colour: Color) -> Style {
        if self.has_colours {
            Style::new().fg(colour)
        } else {
            Style::new()
        }
    }
}
