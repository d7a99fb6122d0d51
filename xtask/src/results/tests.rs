//! Proves that runs replace what was stored, and that tables say what the lines say.

use super::{Store, parse, table};

const RUN: &str = concat!(
    r#"{"id":"BM-X","metric":"plan_ms","value":12.5,"unit":"ms","baseline":"other","baseline_value":25.0,"ratio":0.5,"n":7,"spread":0.25}"#,
    "\n\n",
    r#"{"id":"BM-X","metric":"ns.hops_1","value":100.4,"unit":"ns","baseline":null,"baseline_value":null,"ratio":null,"n":3,"spread":0.0}"#,
    "\n",
    r#"{"id":"BM-X","metric":"loss.hops_1","value":null,"unit":"share","baseline":null,"baseline_value":null,"ratio":null,"n":0,"spread":null}"#,
    "\n"
);

#[test]
fn run_becomes_tables() {
    let mut store = Store::default();
    assert_eq!(
        store.replace(RUN, Some("a day, a machine")),
        Ok(vec!["BM-X".to_owned()])
    );
    let page = "# P\n<!-- results BM-X -->\nold\n<!-- end -->\nrest\n";
    let rendered = store.render(page).expect("the block is there");
    assert_eq!(
        rendered,
        "# P\n<!-- results BM-X -->\n\na day, a machine. Median (spread).\n\n\
         | metric | value | beside | ratio | n |\n|---|---:|---|---:|---:|\n\
         | `plan_ms` | 12.5 (0.250) ms | other: 25.0 | 0.500 | 7 |\n\n\
         | case | `ns`, ns | `loss`, share |\n|---|---:|---:|\n| `hops_1` | 100 | – |\n\n\
         <!-- end -->\nrest\n"
    );
    assert_eq!(
        store.render(&rendered),
        Ok(rendered.clone()),
        "rendering again changes nothing"
    );
}

#[test]
fn new_run_replaces_old() {
    let mut store = Store::default();
    store.replace(RUN, Some("old")).expect("a run");
    let line = RUN.lines().next().expect("a line").replace("12.5", "9.5");
    store.replace(&line, Some("new")).expect("a run");
    let page = store
        .render("<!-- results BM-X -->\n<!-- end -->")
        .expect("a page");
    assert!(
        page.contains("new") && page.contains("9.50") && !page.contains("hops_1"),
        "{page}"
    );
}

#[test]
fn bad_lines_are_refused() {
    for line in ["{", "{}", r#"{"id":"../x","metric":"m"}"#] {
        assert!(Store::default().replace(line, None).is_err(), "{line}");
    }
    let mut store = Store::default();
    store.replace(RUN, None).expect("a run");
    assert!(store.render("no block").is_err());
}

#[test]
fn arguments_are_checked() {
    let words = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
    assert!(parse(&words("--note x")).is_err());
    assert!(parse(&words("a.jsonl --note")).is_err());
    assert!(parse(&words("--draw")).is_err());
    let given = words("a.jsonl --note x");
    assert_eq!(parse(&given).ok(), Some((vec!["a.jsonl"], Some("x"))));
}

#[test]
fn numbers_are_short() {
    let shown = [0.0, 0.001_234, 0.123_4, 1.234, 12.34, 1_234.5].map(table::short);
    assert_eq!(shown, ["0", "0.00123", "0.123", "1.23", "12.3", "1234"]);
}
