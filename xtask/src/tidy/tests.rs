//! Proves each check on both sides of its edge: what it refuses, and the nearest thing that it lets pass.

use super::graph::Package;
use super::{
    File, Finding, graph, leaks, manifest, purity, quotes, ratchet, sources, types, words,
};

fn file(path: &str, text: &str) -> File {
    File::new(path, text)
}

fn texts(findings: Vec<Finding>) -> Vec<String> {
    findings
        .into_iter()
        .map(|finding| finding.to_string())
        .collect()
}

/// Asserts that there is one finding, and that it says so.
fn refused(findings: Vec<Finding>, said: &str) {
    let texts = texts(findings);
    assert!(
        matches!(&texts[..], [text] if text.contains(said)),
        "expected one `{said}`, got {texts:#?}"
    );
}

fn package(name: &str, dependencies: &[(&str, bool)]) -> Package {
    let dependencies = dependencies
        .iter()
        .map(|(name, dev)| ((*name).to_owned(), *dev))
        .collect();
    Package {
        name: name.into(),
        manifest: format!("crates/{name}/Cargo.toml"),
        dependencies,
    }
}

fn edge(from: &str, to: &str, dev: bool) -> Vec<Finding> {
    graph::check(&[package(from, &[(to, dev)]), package(to, &[])])
}

#[test]
fn edges_point_down_only() {
    assert_eq!(edge("thalweg-media", "thalweg-base", false), []);
    refused(
        edge("thalweg-dataplane", "thalweg-media", false),
        "`thalweg-dataplane` may not depend on `thalweg-media`",
    );
    refused(
        edge("thalweg-net", "thalweg-dataplane", false),
        "may not depend",
    );
    refused(
        edge("thalweg-net", "thalweg-dataplane", true),
        "may not depend",
    );
}

#[test]
fn some_tests_may_look_further() {
    assert_eq!(edge("xtask", "thalweg-base", true), []);
    refused(edge("xtask", "thalweg-base", false), "may not depend");
}

#[test]
fn a_new_crate_is_a_decision() {
    refused(
        graph::check(&[package("thalweg-new", &[])]),
        "is not in the table",
    );
}

#[test]
fn no_std_crates_take_from_their_list_only() {
    let core = |name, dev| graph::check(&[package("thalweg-base", &[(name, dev)])]);
    assert_eq!(core("bytes", false), []);
    assert_eq!(core("proptest", true), []);
    refused(
        core("libm", false),
        "`thalweg-base` may not depend on `libm`",
    );
}

#[test]
fn below_the_line_no_runtime() {
    let lift = |dev| graph::check(&[package("thalweg-dataplane", &[("tokio", dev)])]);
    assert_eq!(lift(true), []);
    refused(lift(false), "below the purity line");
}

#[test]
fn the_node_reaches_media_by_no_way() {
    let packages = [
        package("thalweg-node", &[("thalweg-net", false)]),
        package("thalweg-net", &[("thalweg-media", false)]),
        package("thalweg-media", &[]),
    ];
    let found = texts(graph::check(&packages));
    assert!(
        found
            .iter()
            .any(|text| text.contains("the node reaches thalweg-media through `thalweg-net`")),
        "{found:#?}"
    );
}

fn pure(text: &str) -> Vec<Finding> {
    purity::check(&file("crates/thalweg-dataplane/src/a.rs", text))
}

#[test]
fn purity_names_what_to_do() {
    for (text, said) in [
        (
            "use std::time::{Duration, Instant};",
            "`std::time::Instant`",
        ),
        ("fn f() { std::fs::read(p) }", "`std::fs`"),
        ("use std::{collections::HashMap as Map};", "`HashMap`"),
        ("use aws_lc_rs::rand;", "`aws_lc_rs::rand`"),
        ("let x = rand::random();", "`rand`"),
        ("#[cfg(not(test))] use tokio::net;", "`tokio`"),
    ] {
        refused(pure(text), said);
    }
}

#[test]
fn purity_lets_the_harmless_pass() {
    for text in [
        "use std::time::Duration; use thalweg_base::time::Instant;",
        "// std::fs\nlet a = \"std::fs\";",
        "use core::net::IpAddr; let rand = 1; let x = operand::y();",
        "#[cfg(test)]\nmod tests { use std::fs; }",
        "use std::collections::BTreeMap;",
    ] {
        assert_eq!(pure(text), [], "{text}");
    }
    let free = [
        "crates/thalweg-dataplane/src/a/tests.rs",
        "crates/thalweg-dataplane/tests/it/a.rs",
        "crates/thalweg-net/src/a.rs",
    ];
    for path in free {
        assert_eq!(purity::check(&file(path, "use std::fs;")), [], "{path}");
    }
}

#[test]
fn no_std_crates_keep_their_attributes() {
    let core = |text| purity::check(&file("crates/thalweg-base/src/lib.rs", text));
    assert_eq!(core("#![no_std]\n#![forbid(unsafe_code)]\n"), []);
    refused(
        core("#![no_std]\n// #![forbid(unsafe_code)]\n"),
        "has lost `#![forbid(unsafe_code)]`",
    );
}

fn ratcheted(written: usize, lines: usize) -> Vec<Finding> {
    let ratchet = format!("function_lines_over_70 = {written}\nfile_lines_over_600 = 0\n");
    let body = "a();\n".repeat(lines);
    ratchet::check(&[
        file("xtask/ratchet.toml", &ratchet),
        file("a.rs", &format!("fn f() {{\n{body}}}\n")),
    ])
}

#[test]
fn the_ratchet_holds_at_its_number() {
    assert_eq!(ratcheted(0, 70), []);
    assert_eq!(ratcheted(5, 75), []);
    assert_eq!(ratcheted(5, 76).len(), 2);
    assert!(texts(ratcheted(0, 71))[0].starts_with("a.rs:1: `f` has 71 lines of code"));
}

#[test]
fn the_ratchet_asks_to_be_lowered() {
    refused(ratcheted(5, 74), "write `function_lines_over_70 = 4`");
}

#[test]
fn files_are_ratcheted_too() {
    let check = |lines: usize| {
        let ratchet = file(
            "xtask/ratchet.toml",
            "function_lines_over_70 = 0\nfile_lines_over_600 = 0\n",
        );
        ratchet::check(&[ratchet, file("a.rs", &"// x\n".repeat(lines))]).len()
    };
    assert_eq!((check(600), check(601)), (0, 2));
}

#[test]
fn dependencies_are_explained_and_inherit() {
    let check = |text| manifest::check(&file("crates/a/Cargo.toml", text));
    assert_eq!(
        check(
            "[dependencies]\n# Why.\na.workspace = true\nb = { workspace = true, features = [\n  \"x\",\n] }\n"
        ),
        []
    );
    refused(
        check("[dependencies]\n# Why.\na.workspace = true\n\nb.workspace = true\n"),
        "`b` is not explained",
    );
    refused(
        check("[dev-dependencies]\n# Why.\na = \"1\"\n"),
        "`a` brings its own version",
    );
    refused(
        check("[target.'cfg(unix)'.dependencies]\na.workspace = true\n"),
        "`a` is not explained",
    );
    assert_eq!(
        check("[workspace.dependencies]\na = \"1\"\n[package]\nname = \"b\"\n"),
        []
    );
    assert_eq!(
        manifest::check(&file(
            "fuzz/Cargo.toml",
            "[dependencies]\n# Why.\na = \"1\"\n"
        )),
        []
    );
}

#[test]
fn crate_local_clippy_files_repeat_the_root() {
    let check = |text| {
        manifest::check_clippy(&[
            file("clippy.toml", "# x\na = 1\n"),
            file("crates/b/clippy.toml", text),
        ])
    };
    assert_eq!(check("a = 1\nb = 2\n"), []);
    refused(check("a = 2\n"), "lacks its line `a = 1`");
}

#[test]
fn sources_are_whole() {
    let check = |text: &str| sources::check(&file("a.rs", &format!("//! A.\n{text}")));
    for (text, said) in [
        ("// TODO later", "a.rs:2: TODO"),
        ("/* FIXME */", "FIXME"),
        ("fn f() { todo!() }", "`todo!`"),
        ("fn f() { dbg!(1) }", "`dbg!`"),
        ("#[ignore = \"slow\"]", "`#[ignore]`"),
        ("fn f() { unsafe { g() } }", "does not announce it"),
    ] {
        refused(check(text), said);
    }
    for text in [
        "let s = \"TODO\"; // todos",
        "let todo = 1;",
        "#![expect(unsafe_code, reason = \"…\")]\nunsafe {}",
        "#![expect(\n    unsafe_code,\n    reason = \"…\"\n)]\nunsafe {}",
    ] {
        assert_eq!(check(text), [], "{text}");
    }
    refused(
        sources::check(&file("a.rs", "fn f() {}")),
        "does not open with `//!`",
    );
}

#[test]
fn folder_modules_are_mod_rs() {
    let check = |a, b| sources::check_folders(&[file(a, ""), file(b, "")]);
    assert_eq!(check("src/a/mod.rs", "src/a/b.rs"), []);
    refused(check("src/a.rs", "src/a/b.rs"), "move it to `src/a/mod.rs`");
    assert_eq!(check("src/a.rs", "src/ab/c.rs"), []);
}

#[test]
fn quoted_sentences_stand_in_the_spec() {
    let spec = "# P\n## 7.3 Late ADUs\nA node that\n**discards** an `Adu` counts it.\n### Why\nIt is late.\n## 8 Other\nElsewhere.\n";
    let check = |quote: &str| quotes::check(&[file("docs/p.md", spec), file("a.rs", quote)]);
    for good in [
        "//= docs/p.md#7.3\n//# A node that discards an\n//# Adu counts it.\n",
        "//= docs/p.md#73-late-adus\n//# It is late.\n",
        "//= docs/p.md\n//# Elsewhere.\n",
        "//= RFC 9000 §16\n//# Anything.\n",
        "let a = \"//= docs/none.md\";",
    ] {
        assert_eq!(check(good), [], "{good}");
    }
    for (bad, said) in [
        (
            "//= docs/p.md#7.3\n//# Elsewhere.\n",
            "no longer says \"Elsewhere.\"",
        ),
        (
            "//= docs/p.md#7.4\n//# It is late.\n",
            "has no heading `#7.4`",
        ),
        (
            "//= docs/q.md#1\n//# It is late.\n",
            "docs/q.md does not exist",
        ),
        ("//= docs/p.md#8\nlet a = 1;\n", "without a `//#` sentence"),
    ] {
        refused(check(bad), said);
    }
}

#[test]
fn no_machine_and_no_registry_is_named() {
    let check = |text: &str| leaks::check(&file("docs/a.md", text));
    refused(
        check(concat!("see /ho", "me/me/x")),
        "exists on one machine only",
    );
    refused(check(concat!("`/tm", "p/x`")), "exists on one machine only");
    refused(
        check(concat!("from crates", ".io")),
        "names a registry's host",
    );
    for text in [
        concat!("docs/wo", "rk/x"),
        concat!("$HOME/ro", "ot/x"),
        "https://host/home",
    ] {
        assert_eq!(check(text), [], "{text}");
    }
}

#[test]
fn comments_name_their_subjects() {
    let check = |text: &str| words::check(&file("crates/thalweg-base/src/a.rs", text));
    assert_eq!(
        check("//! It sends the history.\nlet he = 1;\nlet s = \"his\";\n"),
        []
    );
    refused(
        check("// As his neighbour does.\n"),
        "`his`: name the machine",
    );
    refused(check("/// Begun anew.\n"), "`anew`: write `again`");
    let world = |text: &str| words::check(&file("worlds/a.toml", text));
    assert_eq!(world("his = \"he\" # it waits\n"), []);
    refused(world("a = 1 # as it was, anew\n"), "`anew`");
    let document = |text: &str| words::check(&file("docs/a.md", text));
    assert_eq!(document("# The shelf\n"), []);
    refused(document("# He who\n"), "`he`");
}

#[test]
fn comments_end_at_their_column() {
    let check = |text: &str| words::check(&file("crates/thalweg-base/src/a.rs", text));
    let comment = |columns: usize| format!("// {}\n", "x".repeat(columns - 3));
    assert_eq!(check(&comment(110)), []);
    refused(check(&comment(111)), "a comment of 111 columns");
    assert_eq!(check(&format!("//# {}\n", "x".repeat(200))), []);
    assert_eq!(check(&format!("let s = \"{}\";\n", "x".repeat(200))), []);
}

#[test]
fn long_comments_are_refused_in_all_languages() {
    let wide = |columns: usize, before: &str| {
        let x = "x".repeat(columns - before.chars().count());
        format!("a = 1\n{before}{x}\nb = 2\n")
    };
    let comments = [
        ("Cargo.toml", "# "),
        ("worlds/a.toml", "rate = \"a # b\"  # "),
        ("oracle/a.py", "    # "),
        ("oracle/a.py", "\"\"\"Returns "),
        ("a.sh", "echo ${a#b} # "),
        ("page/a.js", "const a = '//'; // "),
        ("page/a.js", "/* "),
    ];
    for (path, before) in comments {
        let check = |columns| words::check(&file(path, &wide(columns, before)));
        assert_eq!(check(110), [], "{path}: {before}");
        refused(check(111), "a comment of 111 columns");
    }
    let others = [
        ("a.toml", "reason = \"# "),
        ("a.sh", "echo ${a#"),
        ("page/a.js", "const a = `// "),
        ("a.json", "# "),
        ("a.toml", "# https://host/"),
    ];
    for (path, before) in others {
        let found = words::check(&file(path, &wide(200, before)));
        assert_eq!(found, [], "{path}: {before}");
    }
    let inside = "\"\"\"It waits.\n\n    ".to_owned() + &"x".repeat(110) + "\n\"\"\"\n";
    refused(
        words::check(&file("a.py", &inside)),
        "a comment of 114 columns",
    );
    assert_eq!(words::check(&file("a.toml", &format!("a = {inside}"))), []);
}

#[test]
fn people_are_rare_among_comments() {
    let text = |people: usize| {
        let plain = "// It sends.\n".repeat(1_000 - people);
        [file("a.rs", &(plain + &"// Who sends.\n".repeat(people)))]
    };
    assert_eq!(words::check_all(&text(2)), []);
    let findings = texts(words::check_all(&text(3)));
    assert_eq!(findings.len(), 4, "each, and the sum: {findings:#?}");
    assert!(findings[3].contains("3 comments say who"), "{findings:#?}");
}

#[test]
fn test_names_are_bounded() {
    let named =
        |length: usize| format!("#[test]\n#[cfg(unix)]\nfn {}() {{}}\n", "x".repeat(length));
    let check = |text: &str| words::check(&file("a.rs", text));
    assert_eq!(check(&named(60)), []);
    refused(check(&named(61)), "has 61 characters");
    assert_eq!(check(&named(61).replace("#[test]", "#[inline]")), []);
    assert_eq!(words::check_all(&[file("a.rs", &named(35))]), []);
    let long = named(36) + &named(36).replace("test", "tokio::test") + &named(10);
    refused(
        words::check_all(&[file("a.rs", &long)]),
        "names of 36 characters",
    );
}

#[test]
fn an_adu_changes_its_type_eight_times_at_most() {
    let code = file(
        "crates/thalweg-node/src/a.rs",
        "pub struct Outgoing;\nstruct Adu<T>(T);",
    );
    let map = |rows: &[&str]| {
        let table = rows.join("\n");
        let text = format!("<!-- types of an ADU -->\n\n| type | of |\n|---|---|\n{table}\n\n");
        file("ARCHITECTURE.md", &text)
    };
    let row = "| `Adu` | `node/src/a.rs` |";
    let found = |rows: &[&str]| types::check(&[map(rows), file(&code.path, &code.text)]);
    assert!(found(&[row; 9]).is_empty());
    assert!(found(&[row; 10])[0].text.contains("9 times"));
    assert!(found(&[])[0].text.contains("missing"));
    assert!(
        found(&["| `Out` | `node/src/a.rs` |"])[0]
            .text
            .contains("no `Out`")
    );
    assert!(found(&["| Adu |"])[0].text.contains("backticks"));
}
