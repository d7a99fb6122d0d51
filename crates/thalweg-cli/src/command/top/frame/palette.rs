//! How what is shown is painted; without colours, marks and weight must do.

use ratatui::style::{Color, Modifier, Style};

/// What a piece of text is, for the eye.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Tone {
    /// A figure like others.
    #[default]
    Plain,
    /// What matters less: units, what is not known.
    Dim,
    /// A name to find again.
    Strong,
    /// The heading of a table.
    Head,
    /// A bar.
    Bar,
    /// What needs a look.
    Warn,
    /// What is wrong.
    Bad,
}

/// Turns tones into styles.
#[derive(Clone, Copy, Debug)]
pub struct Palette {
    /// Whether there are colours.
    pub has_colours: bool,
}

impl Palette {
    /// Returns how a tone looks.
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
