//! Any text is a value or an error with a line in the text; nothing panics.

use proptest::prelude::*;
use thalweg_world::{Format, WorldError, load_str};

const DEMO: &str = include_str!("../../../../worlds/demo.toml");

fn load_either(text: &str) -> Result<(), TestCaseError> {
    for format in [Format::Toml, Format::Json] {
        match load_str(text, format, "world") {
            Ok(world) => prop_assert!(world.faults().is_empty()),
            Err(WorldError::Text(error)) => {
                let lines = 1 + text.matches('\n').count();
                prop_assert!(error.line.is_none_or(|line| (1..=lines).contains(&line)));
                prop_assert!(!error.to_string().contains('\n'), "{error}");
            }
            Err(other) => prop_assert!(false, "{other}"),
        }
    }
    Ok(())
}

proptest! {
    #[test]
    fn any_text_is_world_or_error(text in any::<String>()) {
        load_either(&text)?;
    }

    #[test]
    fn any_format_characters_are_world_or_error(text in r#"[\[\]{}="',:.\\\n a0-]{0,60}"#) {
        load_either(&text)?;
    }

    #[test]
    fn broken_world_is_error_with_line(at in 0..DEMO.len(), with in any::<char>(), cut in 0..40usize) {
        let mut text = DEMO.to_owned();
        let bounds = |at: usize| DEMO.is_char_boundary(at);
        let start = (0..=at).rev().find(|at| bounds(*at)).expect("zero is a boundary");
        let end = (start + cut..=DEMO.len()).find(|at| bounds(*at)).unwrap_or(DEMO.len());
        text.replace_range(start..end, &with.to_string());
        load_either(&text)?;
    }
}

#[test]
fn deep_nesting_is_an_error() {
    for open in ["[", "{\"a\":", "a=[", "a={b="] {
        load_either(&open.repeat(50_000)).expect("nothing but an error comes of it");
    }
}

#[test]
fn oversized_text_is_rejected_unread() {
    let text = " ".repeat(thalweg_base::limits::FILE_BYTES_MAX + 1);
    let error = load_str(&text, Format::Toml, "big.toml").expect_err("it is too large");
    assert!(matches!(error, WorldError::TooLarge { .. }), "{error}");
}
