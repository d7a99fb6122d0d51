//! Proves what each key does, at the ends of lists too.

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use serde_json::json;

use super::super::state::{Action, Sort, State};
use super::super::view::View;
use super::{bare, link, outbox, stream, view};

fn press(state: &mut State, view: &View, code: KeyCode) -> Action {
    state.handle_key(KeyEvent::new(code, KeyModifiers::NONE), view)
}

/// Three links, the second with a queue, and twelve streams.
fn scene() -> (View, State) {
    let mut now = bare();
    now["links"] = json!([link("a"), link("b"), link("c")]);
    now["links"][1]["outbox"] = outbox([1; 8]);
    now["streams"] = (0..12)
        .map(|at| stream(&format!("s{at:02}"), "camera", at))
        .collect();
    view(None, now)
}

#[test]
fn fullest_queue_is_the_default() {
    let (view, mut state) = scene();
    assert_eq!(state.selected(&view), Some(1));
    for (code, at) in [
        (KeyCode::Down, 2),
        (KeyCode::Down, 2),
        (KeyCode::Up, 1),
        (KeyCode::Char('k'), 0),
        (KeyCode::Up, 0),
        (KeyCode::Char('j'), 1),
    ] {
        assert_eq!(press(&mut state, &view, code), Action::None);
        assert_eq!(state.selected(&view), Some(at), "{code:?}");
    }
}

#[test]
fn chosen_link_stays_chosen() {
    let (before, mut state) = scene();
    press(&mut state, &before, KeyCode::Down);
    let mut now = bare();
    now["links"] = json!([link("c"), link("a")]);
    let (moved, _) = view(None, now.clone());
    state.handle_view(&moved);
    assert_eq!(state.selected(&moved), Some(0));
    now["links"] = json!([link("a"), link("b")]);
    now["links"][0]["state"] = json!("connecting");
    let (gone, _) = view(None, now);
    state.handle_view(&gone);
    assert_eq!(state.selected(&gone), Some(1));
}

#[test]
fn keys_without_links_do_nothing() {
    let (view, mut state) = view(None, bare());
    for code in [
        KeyCode::Up,
        KeyCode::Down,
        KeyCode::PageDown,
        KeyCode::PageUp,
    ] {
        assert_eq!(press(&mut state, &view, code), Action::None);
    }
    assert_eq!((state.selected(&view), state.first_stream), (None, 0));
}

#[test]
fn s_sorts_by_name_rate_and_drops() {
    let mut now = bare();
    now["streams"] = json!([
        stream("b", "camera", 10),
        stream("c", "camera", 30),
        stream("a", "camera", 20)
    ]);
    let mut before = now.clone();
    before["uptime_seconds"] = json!(11.0);
    for stream in before["streams"].as_array_mut().expect("a list") {
        stream["counts"]["sent"] = json!(0);
    }
    now["streams"][0]["counts"]["dropped"] = json!({"expired": 4});
    let (view, mut state) = view(Some(before), now);
    for (sort, order) in [
        (Sort::Name, "abc"),
        (Sort::Rate, "cab"),
        (Sort::Drops, "bac"),
        (Sort::Name, "abc"),
    ] {
        let streams = state.sorted(&view);
        let names: String = streams.iter().map(|stream| stream.name.as_str()).collect();
        assert_eq!((state.sort, names.as_str()), (sort, order));
        press(&mut state, &view, KeyCode::Char('s'));
    }
}

#[test]
fn pages_end_with_the_streams() {
    let (view, mut state) = scene();
    for first in [5, 10, 11, 11] {
        press(&mut state, &view, KeyCode::PageDown);
        assert_eq!(state.first_stream, first);
    }
    for first in [6, 1, 0] {
        press(&mut state, &view, KeyCode::PageUp);
        assert_eq!(state.first_stream, first);
    }
}

#[test]
fn any_key_only_closes_the_help() {
    let (view, mut state) = scene();
    press(&mut state, &view, KeyCode::Char('?'));
    assert!(state.has_help);
    press(&mut state, &view, KeyCode::Char('s'));
    assert!(!state.has_help && state.sort == Sort::Name);
}

#[test]
fn q_and_ctrl_c_end_from_the_help() {
    let (view, mut state) = scene();
    press(&mut state, &view, KeyCode::Char('?'));
    assert_eq!(press(&mut state, &view, KeyCode::Char('q')), Action::Quit);
    let control = |letter| KeyEvent::new(KeyCode::Char(letter), KeyModifiers::CONTROL);
    assert_eq!(state.handle_key(control('c'), &view), Action::Quit);
    assert_eq!(state.handle_key(control('l'), &view), Action::Redraw);
}
