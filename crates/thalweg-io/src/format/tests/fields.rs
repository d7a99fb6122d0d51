//! Proves that fields set marks, and that missing and mistyped ones leave them and are told once.

use thalweg_base::adu::{Flags, Importance, MediaTime};

use super::super::*;

fn reader() -> FieldReader {
    let field = |text: &str| Some(text.parse().expect("a field"));
    FieldReader::new(Fields {
        importance: field(".status.severity"),
        time: field(".time"),
        key: field(".flags.0"),
    })
}

#[test]
fn fields_set_the_marks() {
    let mut marks = Marks::default();
    let message = br#"{"status": {"severity": 200}, "time": 12.5, "flags": [true]}"#;
    assert_eq!(reader().apply(message, &mut marks), [""; 0]);
    assert_eq!(marks.importance, Importance(200));
    assert_eq!(marks.media_time, MediaTime::from_micros(12_500_000));
    assert_eq!(marks.flags, Flags::KEY);
}

#[test]
fn wrong_fields_are_counted_and_told_once() {
    let mut fields = reader();
    let mut marks = Marks {
        importance: Importance(7),
        ..Marks::default()
    };
    let wrong = br#"{"status": {"severity": 300}, "time": "noon", "flags": {}}"#;
    assert_eq!(fields.apply(wrong, &mut marks).len(), 3);
    assert_eq!(fields.apply(wrong, &mut marks).len(), 0);
    assert_eq!(fields.apply(b"text", &mut marks).len(), 1);
    assert_eq!(marks.importance, Importance(7));
    let mut counts: Vec<u64> = fields.wrong().map(|(_, count)| count).collect();
    counts.sort_unstable();
    assert_eq!(counts, [1, 2, 2, 2]);
}

#[test]
fn time_that_goes_back_is_told() {
    let mut fields = FieldReader::new(Fields {
        time: ".t".parse().ok(),
        ..Fields::default()
    });
    let mut marks = Marks::default();
    assert_eq!(fields.apply(br#"{"t": 2}"#, &mut marks).len(), 0);
    let told = fields.apply(br#"{"t": 1}"#, &mut marks);
    assert!(told[0].contains(".t goes back"), "{told:?}");
    assert_eq!(marks.media_time, MediaTime::from_micros(1_000_000));
}

#[test]
fn bad_fields_are_refused() {
    for text in ["", "a", ".", "..a", ".a.", ".a..b"] {
        assert!(text.parse::<Field>().is_err(), "{text}");
    }
    let field: Field = ".a.0.b".parse().expect("a field");
    assert_eq!(field.to_string(), ".a.0.b");
}
