//! Tests the lexer on both sides of each rule.

use super::{functions, line, paths, views, without_tests, words};

fn code(source: &str) -> String {
    views(source).code
}

fn named(source: &str) -> Vec<String> {
    paths(&code(source))
        .into_iter()
        .map(|path| path.segments.join("::"))
        .collect()
}

fn lines_of(source: &str) -> Vec<(String, usize, usize)> {
    functions(&code(source))
        .into_iter()
        .map(|f| (f.name, f.line, f.code_lines))
        .collect()
}

#[test]
fn views_keep_length_and_line_breaks() {
    let source = "fn a() { /* ü\n */ \"ü\\\"\n}\" } // end\nlet c = 'ü';\n";
    let views = views(source);
    for view in [&views.code, &views.comments] {
        assert_eq!(view.len(), source.len());
        assert_eq!(view.matches('\n').count(), source.matches('\n').count());
    }
}

#[test]
fn comments_and_strings_are_not_code() {
    let views = views("a(); // dbg\nb(\"// no comment\"); /* x /* nested */ y */ c();");
    assert!(views.code.contains("a();") && views.code.contains("c();"));
    assert!(
        !views.code.contains("dbg") && !views.code.contains("nested") && !views.code.contains('y')
    );
    assert!(views.comments.contains("// dbg") && views.comments.contains("nested */ y */"));
    assert!(!views.comments.contains("no comment"));
}

#[test]
fn raw_strings_and_raw_identifiers() {
    assert_eq!(words(&code("r#\"a \" todo \"# + todo"), "todo"), [17]);
    assert_eq!(words(&code("br##\"a \"# todo\"## + todo"), "todo"), [20]);
    assert_eq!(words(&code("let r#todo = 1;"), "todo"), [6]);
    assert_eq!(words(&code("for r in \"todo\" {}"), "todo"), [0_usize; 0]);
}

#[test]
fn lifetimes_are_code_unlike_characters() {
    assert!(code("fn f<'a>(x: &'a str) -> &'a str { x }").contains("<'a>"));
    assert!(!code("let c = '{';").contains('{'));
    assert!(!code("let c = '\\'';").contains('\\'));
    assert!(!code("let c = b'}';").contains('}'));
    assert!(code("'outer: loop { break 'outer }").contains("'outer: loop {"));
    assert!(!code("let c = '\\u{7b}'; let d = '…';").contains('{'));
}

#[test]
fn words_stand_alone() {
    assert_eq!(
        words("unsafe { unsafe_code } not_unsafe unsafe", "unsafe"),
        [0, 34]
    );
}

#[test]
fn only_code_in_body_counts() {
    let source = "\n/// fn no()\nfn one() {}\nfn two(\n    x: [u8; 2],\n) {\n    // why\n    a();\n\n    b(\"}\");\n}\n";
    assert_eq!(
        lines_of(source),
        [("one".into(), 3, 0), ("two".into(), 4, 2)]
    );
}

#[test]
fn only_functions_with_body_count() {
    assert!(lines_of("trait T { fn a(&self); } type F = fn(u8) -> u8;").is_empty());
}

#[test]
fn nested_functions_count_twice() {
    let source = "fn a() {\n  fn b() {\n    c();\n  }\n}\n";
    assert_eq!(lines_of(source), [("a".into(), 1, 3), ("b".into(), 2, 1)]);
}

#[test]
fn only_test_items_are_removed() {
    let source = "fn a() {}\n#[cfg(test)]\nmod tests {\n  fn b() { x(\"}\") }\n}\nfn c() {}\n";
    let left = without_tests(&code(source));
    assert!(left.contains("fn a") && left.contains("fn c") && !left.contains("fn b"));
    assert_eq!(left.len(), source.len());
}

#[test]
fn item_end_is_exact() {
    for (source, kept) in [
        ("#[cfg(test)]\nmod tests;\nkept();", "kept();"),
        ("#[cfg(test)] use a::{b, c}; kept();", "kept();"),
        (
            "#[cfg(test)] #[allow(x)] fn f<A, B>(a: A, b: B) { gone() } kept();",
            "kept();",
        ),
        ("S { #[cfg(test)] gone: 1, kept: 2 }", "kept: 2 }"),
        ("S { a: 1, #[cfg(test)] gone: 1 } kept()", "} kept()"),
        ("#[cfg(not(test))] fn kept() {}", "fn kept() {}"),
    ] {
        let left = without_tests(source);
        assert!(
            left.contains(kept) && !left.contains("gone"),
            "{source} left {left}"
        );
    }
}

#[test]
fn use_trees_are_expanded() {
    assert_eq!(
        named("use std::{fs, net::{Ipv4Addr, self}, io as inout};"),
        ["std::fs", "std::net::Ipv4Addr", "std::net::self", "std::io"]
    );
    assert_eq!(named("pub use a::*; use ::b::c;"), ["pub", "a::*", "b::c"]);
}

#[test]
fn paths_in_expressions_are_whole() {
    assert_eq!(
        named("let x = std::time::Instant::now();"),
        ["let", "x", "std::time::Instant::now"]
    );
    assert_eq!(
        named("fn f() -> impl T + use<'a> {}"),
        ["fn", "f", "impl", "T", "use", "a"]
    );
}

#[test]
fn lines_count_from_one() {
    assert_eq!((line("a\nb", 0), line("a\nb", 2)), (1, 2));
}
