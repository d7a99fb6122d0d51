//! The choices of the person at the terminal, and the keys.

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use super::view::{StreamView, View};

/// How far a page key moves.
const PAGE: usize = 5;

/// What is shown.
#[derive(Clone, Debug, Default)]
pub struct State {
    /// The key of the peer whose queue is shown.
    selected: Option<String>,
    /// The order of the streams.
    pub sort: Sort,
    /// The first stream that is shown.
    pub first_stream: usize,
    /// Whether the help is shown.
    pub has_help: bool,
}

/// The order of the streams.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sort {
    /// By name: rows stay in place.
    #[default]
    Name,
    /// The busiest first.
    Rate,
    /// The most drops first.
    Drops,
}

/// What a key asks for besides a change of the state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Nothing.
    None,
    /// Redraw the whole screen.
    Redraw,
    /// End.
    Quit,
}

impl Sort {
    const fn next(self) -> Self {
        match self {
            Self::Name => Self::Rate,
            Self::Rate => Self::Drops,
            Self::Drops => Self::Name,
        }
    }
}

impl State {
    /// Updates the choices for a new view; without a choice the fullest queue is selected.
    pub fn handle_view(&mut self, view: &View) {
        self.first_stream = self.first_stream.min(view.streams.len().saturating_sub(1));
        let exists = |key: &String| view.links.iter().any(|link| link.key == *key);
        if self.selected.as_ref().is_some_and(exists) {
            return;
        }
        let mut links = view.links.iter();
        let up = links.clone().find(|link| link.is_up()).or(links.next());
        let fullest = view
            .links
            .iter()
            .filter(|link| link.waiting_bytes() > 0)
            .max_by_key(|link| link.waiting_bytes());
        self.selected = fullest.or(up).map(|link| link.key.clone());
    }

    /// Handles a key.
    pub fn handle_key(&mut self, key: KeyEvent, view: &View) -> Action {
        let is_control = key.modifiers.contains(KeyModifiers::CONTROL);
        match key.code {
            KeyCode::Char('c' | 'd') if is_control => return Action::Quit,
            KeyCode::Char('l') if is_control => return Action::Redraw,
            KeyCode::Char('q') => return Action::Quit,
            // Any key closes the help and does nothing else, except the keys that end the program.
            _ if self.has_help => self.has_help = false,
            KeyCode::Char('?' | 'h') => self.has_help = true,
            KeyCode::Char('s') => {
                self.sort = self.sort.next();
                self.first_stream = 0;
            }
            KeyCode::Up | KeyCode::Char('k') => self.select(view, -1),
            KeyCode::Down | KeyCode::Char('j') => self.select(view, 1),
            KeyCode::PageUp => self.first_stream = self.first_stream.saturating_sub(PAGE),
            KeyCode::PageDown => {
                let last = view.streams.len().saturating_sub(1);
                self.first_stream = (self.first_stream + PAGE).min(last);
            }
            _ => {}
        }
        Action::None
    }

    /// Returns the index of the selected link.
    pub fn selected(&self, view: &View) -> Option<usize> {
        let key = self.selected.as_ref()?;
        view.links.iter().position(|link| link.key == *key)
    }

    /// Returns the streams in the chosen order.
    pub fn sorted<'a>(&self, view: &'a View) -> Vec<&'a StreamView> {
        let mut streams: Vec<&StreamView> = view.streams.iter().collect();
        streams.sort_by(|one, other| one.name.cmp(&other.name));
        let drops = |stream: &StreamView| stream.dropped.values().sum::<u64>();
        let rate = |stream: &StreamView| stream.adus_per_second.unwrap_or(0.0);
        match self.sort {
            Sort::Name => {}
            Sort::Drops => streams.sort_by_key(|stream| std::cmp::Reverse(drops(stream))),
            Sort::Rate => streams.sort_by(|one, other| rate(other).total_cmp(&rate(one))),
        }
        streams
    }

    fn select(&mut self, view: &View, step: isize) {
        let last = view.links.len().saturating_sub(1);
        let at = self.selected(view).unwrap_or(0);
        let at = at.saturating_add_signed(step).min(last);
        self.selected = view.links.get(at).map(|link| link.key.clone());
    }
}
