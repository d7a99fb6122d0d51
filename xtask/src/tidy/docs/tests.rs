//! Proves that a document's command is found, taken apart and compared, and that links and titles
//! are held to.

use super::commands::{Pages, check, commands};
use super::help::Help;
use super::{File, check_links_in, check_title, headings, slug};
use crate::Failure;

const TOP: &str = "Usage: thalweg [OPTIONS] <COMMAND>\n\nCommands:\n  plan  Prints a plan\n          --not-a-flag of plan\n  peer  Peers\n\nOptions:\n  -v, --verbose...      More\n      --config <FILE>   Where\n  -h, --help            Print help\n";
const PLAN: &str = "Usage: thalweg plan [OPTIONS] <WORLD>\n\nOptions:\n      --stream <NAME>   Which\n      --json\n";
const PEER: &str = "Commands:\n  add  Adds one\n";

struct Fixture(&'static str);

impl Pages for Fixture {
    fn page(&mut self, path: &[String]) -> Result<Option<Help>, Failure> {
        let text = match path.iter().map(String::as_str).collect::<Vec<_>>()[..] {
            [] => self.0,
            ["plan"] => PLAN,
            ["peer"] => PEER,
            ["peer", "add"] => "",
            _ => return Ok(None),
        };
        Ok(Some(Help::read(text)))
    }
}

fn file(path: &str, text: &str) -> File {
    File::new(path, text)
}

fn faults(command: &str) -> Vec<String> {
    let page = file("README.md", &format!("# T\n```sh\n{command}\n```\n"));
    let found = check(&[page], &mut Fixture(TOP)).expect("fixtures do not fail");
    found
        .into_iter()
        .map(|finding| finding.to_string())
        .collect()
}

#[test]
fn commands_that_exist_pass() {
    for command in [
        "cargo xtask test fmt",
        "cargo xtask fuzz --seconds 5",
        "cargo run --release -- plan world.toml --stream cam --json | jq .cost",
        "RUST_LOG=debug ./target/release/thalweg -v --config a.toml plan w.toml --stream=cam # why",
        "thalweg peer add --verbose KEY && thalweg --help",
        "cargo run -p xtask -- whatever; ls --nothing",
    ] {
        let mut files = vec![file("README.md", &format!("# T\n```sh\n{command}\n```\n"))];
        files.push(file("xtask/Cargo.toml", ""));
        assert_eq!(
            check(&files, &mut Fixture(TOP)).expect("fixtures do not fail"),
            [],
            "{command}"
        );
    }
}

#[test]
fn commands_that_do_not_exist_are_named() {
    for (command, said) in [
        ("cargo xtask tast", "`cargo xtask tast` does not exist"),
        ("cargo xtask fuzz --minutes 5", "no flag `--minutes`"),
        ("thalweg plot", "no subcommand `plot`"),
        (
            "thalweg peer remove",
            "`thalweg peer` has no subcommand `remove`",
        ),
        (
            "thalweg plan w.toml --color",
            "`thalweg plan` has no flag `--color`",
        ),
        ("thalweg plan w.toml --not-a-flag", "no flag `--not-a-flag`"),
        ("cargo run --release -- plan -x", "no flag `-x`"),
        ("cargo run -p nobody -- x", "no package `nobody`"),
    ] {
        let found = faults(command);
        assert!(
            matches!(&found[..], [text] if text.contains(said) && text.starts_with("README.md:3:")),
            "{found:?}"
        );
    }
}

#[test]
fn a_program_without_subcommands_is_not_compared() {
    let page = file("docs/a.md", "# T\n```sh\nthalweg anything\n```\n");
    let found = check(&[page], &mut Fixture("Usage: thalweg\n")).expect("fixtures do not fail");
    assert_eq!(found, []);
}

#[test]
fn only_shell_blocks_hold_commands() {
    let text = "thalweg a\n```text\nthalweg b\n```\n```console\n$ thalweg c\nthalweg output\n```\n```sh\nthalweg \\\n  d 'e f'\n```\n";
    let words: Vec<String> = commands(text)
        .into_iter()
        .map(|(line, words)| format!("{line} {}", words.join("_")))
        .collect();
    assert_eq!(words, ["6 thalweg_c", "11 thalweg_d_e f"]);
}

#[test]
fn a_document_has_exactly_one_title() {
    assert!(check_title(&file("a.md", "# A\n## B\n```sh\n# no title\n```\n")).is_none());
    assert!(check_title(&file("a.md", "## B\n")).is_some_and(|f| f.text.contains("no `# Title`")));
    assert!(check_title(&file("a.md", "# A\n\n# B\n")).is_some_and(|f| f.line == 3));
}

#[test]
fn links_lead_to_files_and_headings() {
    let page = |link: &str| {
        vec![
            file("docs/a.md", &format!("# A\n{link}\n")),
            file("docs/b.md", "# B\n## Any `key` here\n"),
        ]
    };
    let exists =
        |path: &str| ["docs/a.md", "docs/b.md", "README.md", "docs/x.png", "docs"].contains(&path);
    for good in [
        "[b](b.md)",
        "![x](x.png)",
        "[r](../README.md)",
        "[k](b.md#any-key-here)",
        "[a](#a)",
        "`[b](none.md)`",
        "[h](https://host/x)",
    ] {
        assert_eq!(check_links_in(&page(good), &exists), [], "{good}");
    }
    for bad in [
        "[b](none.md)",
        "[k](b.md#no-key)",
        "[r](../../out.md)",
        "[a](#b)",
        "<img src=\"none.png\">",
        "[r]: none.md",
    ] {
        assert_eq!(check_links_in(&page(bad), &exists).len(), 1, "{bad}");
    }
}

#[test]
fn headings_have_slugs() {
    assert_eq!(slug("7.3 What it's `for`: a–b"), "73-what-its-for-ab");
    assert_eq!(
        headings("# A\n#no\n```\n# no\n```\n## B\n"),
        [(1, "# A"), (6, "## B")]
    );
}
