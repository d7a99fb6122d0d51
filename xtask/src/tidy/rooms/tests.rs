//! Proves what is an arrow, what is a circle, and how the map is drawn.

use super::{BEGIN, END, File, Houses};

fn house(files: &[(&str, &str)]) -> Vec<File> {
    let file = |(path, text): &(&str, &str)| File::new(format!("crates/one/src/{path}"), *text);
    files.iter().map(file).collect()
}

fn circles(files: &[(&str, &str)]) -> usize {
    Houses::read(&house(files)).file_circles().len()
}

#[test]
fn files_that_import_each_other_are_a_circle() {
    let one_way = [
        ("lib.rs", "mod a;\nmod b;\n"),
        ("a.rs", "use crate::b::B;\n"),
        ("b.rs", "pub struct B;\n"),
    ];
    assert_eq!(circles(&one_way), 0);
    let mut both = one_way;
    both[2].1 = "fn f() { super::a::g(); }\n";
    let found = Houses::read(&house(&both)).file_circles();
    assert_eq!(found.len(), 1);
    let text = &found[0].finding.text;
    assert!(
        text.contains("crates/one/src/a.rs:1 -> crates/one/src/b.rs"),
        "{text}"
    );
    both[2].1 = "#[cfg(test)]\nmod tests { use crate::a::A; }\n";
    assert_eq!(circles(&both), 0, "tests may look anywhere");
}

#[test]
fn child_may_name_its_parent() {
    let files = [
        ("lib.rs", "mod a;\n"),
        ("a/mod.rs", "mod b;\npub use b::B;\npub struct A(B);\n"),
        ("a/b.rs", "use super::A;\n"),
    ];
    assert_eq!(circles(&files), 0);
}

#[test]
fn re_export_leads_to_its_file() {
    let files = [
        ("lib.rs", "mod a;\nmod c;\n"),
        ("a/mod.rs", "mod b;\npub use b::{B, D as E};\n"),
        ("a/b.rs", "use crate::c::C;\n"),
        ("c.rs", "use crate::a::B;\n"),
    ];
    assert_eq!(circles(&files), 1, "c.rs and a/b.rs");
}

#[test]
fn rooms_that_import_each_other_are_named() {
    let mut files = [
        ("lib.rs", "mod a;\nmod b;\n"),
        ("a/mod.rs", "mod x;\nmod y;\n"),
        ("a/x.rs", "use crate::b::B;\n"),
        ("a/y.rs", "pub struct Y;\n"),
        ("b.rs", "pub struct B;\n"),
    ];
    assert_eq!(Houses::read(&house(&files)).room_circles().len(), 0);
    files[4].1 = "use crate::a::y::Y;\n";
    assert_eq!(circles(&files), 0, "no two files do");
    let found = Houses::read(&house(&files)).room_circles();
    let text = &found[0].finding.text;
    assert!(text.contains("a -> b at crates/one/src/a/x.rs:1"), "{text}");
    assert!(text.contains("b -> a at crates/one/src/b.rs:1"), "{text}");
}

#[test]
fn map_is_drawn_by_floors() {
    let mut files = house(&[
        ("lib.rs", "mod a;\nmod b;\nmod c;\n"),
        ("a.rs", "use crate::b::B;\nuse crate::c::C;\n"),
        ("b.rs", "use crate::c::C;\n"),
        ("c.rs", "pub struct C;\n"),
    ]);
    let document = format!("# Title\n{BEGIN}\n{END}\nRest\n");
    let text = Houses::read(&files)
        .drawn(&document)
        .expect("it has a place");
    assert!(text.contains("one\n  3  a\n  2  b\n  1  c\n"), "{text}");
    let mut held = |text: &str| {
        files.retain(|file| file.path != super::MAP);
        files.push(File::new(super::MAP, text));
        Houses::read(&files).check_map(&files).len()
    };
    assert_eq!(held(&text), 0);
    assert_eq!(held(&document), 1, "it is not drawn");
    assert_eq!(held("# Title\n"), 1, "there is no place");
}
