//! The live view on a terminal, which is restored at the end.
//!
//! *The idea.* Three kinds of events: an answer of the node or none, a key, a request to end. A
//! task of its own polls the node, so that a node that hangs does not delay a key. Whatever ends
//! the run, the terminal is restored: by the guard, or by the panic hook before it prints.

use std::mem::ManuallyDrop;
use std::time::Instant;

use anyhow::Context as _;
use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{Event, KeyEvent, KeyEventKind, read};
use tokio::sync::mpsc;

use super::feed::Feed;
use super::figure;
use super::frame::Frame;
use super::frame::palette::Palette;
use super::reading::Reading;
use super::state::{Action, State};
use super::view::View;
use crate::exit::{Code, Outcome};
use crate::shutdown::Shutdown;
use crate::terminal::Colour;

/// Capacity of the channels for answers and keys; drawing is faster than either.
const WAITING_MAX: usize = 16;

/// The state of the view.
struct Live {
    reading: Reading,
    view: View,
    state: State,
    /// When the node last answered, and why it does not answer now.
    answered: Instant,
    silence: Option<String>,
    every: String,
    palette: Palette,
}

/// An event of the terminal.
enum Input {
    Key(KeyEvent),
    /// The terminal has another size.
    Resize,
}

/// The alternate screen, left on drop.
///
/// The terminal itself is never dropped: it would complain on standard error if it cannot show the
/// cursor, and panic where standard error has gone together with the terminal.
struct Screen(ManuallyDrop<DefaultTerminal>);

/// Shows the node until a request to end.
pub async fn run(mut feed: Feed, every: String) -> Outcome {
    let mut shutdown = Shutdown::listen()?;
    let reading = feed.ask().await?;
    let mut live = Live::new(reading, every);
    let mut screen = Screen::enter()?;
    let mut inputs = listen();
    let (tell, mut answers) = mpsc::channel(WAITING_MAX);
    let asking = tokio::spawn(async move { feed.run(tell).await });
    loop {
        screen.draw(&live)?;
        tokio::select! {
            input = inputs.recv() => match input {
                Some(Input::Key(key)) => match live.state.handle_key(key, &live.view) {
                    Action::None => {}
                    Action::Redraw => screen.0.clear()?,
                    Action::Quit => break,
                },
                Some(Input::Resize) => {}
                // The terminal is gone.
                None => break,
            },
            answer = answers.recv() => match answer {
                Some(answer) => live.handle_answer(answer),
                None => break,
            },
            () = shutdown.requested() => break,
        }
    }
    asking.abort();
    Ok(Code::Done)
}

impl Live {
    fn new(reading: Reading, every: String) -> Self {
        let view = View::new(None, &reading);
        let mut state = State::default();
        state.handle_view(&view);
        Self {
            reading,
            view,
            state,
            answered: Instant::now(),
            silence: None,
            every,
            palette: Palette {
                has_colours: Colour::of_stdout().is_on(),
            },
        }
    }

    fn handle_answer(&mut self, answer: Result<Reading, String>) {
        match answer {
            Ok(reading) => {
                // After an outage the node may have been restarted, with its counters at zero.
                let before = self.silence.is_none().then_some(&self.reading);
                self.view = View::new(before, &reading);
                self.state.handle_view(&self.view);
                self.reading = reading;
                self.answered = Instant::now();
                self.silence = None;
            }
            Err(why) => self.silence = Some(why),
        }
    }

    /// Returns the line about a node that does not answer.
    fn note(&self) -> Option<String> {
        let why = self.silence.as_ref()?;
        let silent = figure::time(self.answered.elapsed().as_secs_f64());
        Some(super::gone(&silent, why))
    }
}

impl Screen {
    fn enter() -> anyhow::Result<Self> {
        // Also installs a panic hook that restores the terminal before the message.
        ratatui::try_init()
            .map(|terminal| Self(ManuallyDrop::new(terminal)))
            .context("cannot draw on the terminal")
    }

    fn draw(&mut self, live: &Live) -> anyhow::Result<()> {
        let note = live.note();
        let frame = Frame {
            view: &live.view,
            state: &live.state,
            note: note.as_deref(),
            every: Some(&live.every),
            palette: live.palette,
        };
        let drawn = self.0.draw(|to| to.render_widget(frame, to.area()));
        drawn.map(drop).context("cannot draw on the terminal")
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        // A terminal that is gone needs no restoring.
        let _ = self.0.show_cursor();
        let _ = ratatui::try_restore();
    }
}

/// Starts a thread that reads the terminal: a blocking read cannot be interrupted, and ends with
/// the process.
fn listen() -> mpsc::Receiver<Input> {
    let (tell, inputs) = mpsc::channel(WAITING_MAX);
    std::thread::spawn(move || {
        while let Ok(event) = read() {
            let input = match event {
                Event::Key(key) if key.kind != KeyEventKind::Release => Input::Key(key),
                Event::Resize(..) => Input::Resize,
                _ => continue,
            };
            if tell.blocking_send(input).is_err() {
                return;
            }
        }
    });
    inputs
}
