//! Proves the refusals before anything is built, with exit code and sentence.

use crate::program::{DEMO, run};

#[test]
fn invalid_world_is_refused_with_place() {
    let folder = std::env::temp_dir().join(format!("testbed-usage-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("room");
    let file = folder.join("bad.toml");
    std::fs::write(
        &file,
        "[[link]]\nends = [\"a\", \"b\"]\nrate = \"1 Mbit/s\"\n",
    )
    .expect("room");
    let refused = run(&[file.to_str().expect("a path in UTF-8")]);
    std::fs::remove_dir_all(&folder).expect("it was made above");
    assert_eq!(refused.code, Some(2), "{}", refused.err);
    assert!(
        refused.err.contains("bad.toml:") && refused.err.contains("link[0]"),
        "{}",
        refused.err
    );
}

#[test]
fn missing_input_is_refused() {
    for (arguments, word) in [
        (vec![], "--calibrate"),
        (vec!["/no/such/world.toml"], "/no/such/world.toml"),
        (vec![DEMO.as_str(), "--calibrate"], "--calibrate"),
        (vec!["--node", "camera", "--", "true"], "<WORLD"),
    ] {
        let refused = run(&arguments);
        assert_eq!(refused.code, Some(2), "{arguments:?}");
        assert!(refused.err.contains(word), "{arguments:?}: {}", refused.err);
    }
}

#[test]
fn help_lists_exit_codes() {
    let help = run(&["--help"]);
    assert_eq!(help.code, Some(0));
    for part in [
        "cargo xtask testbed",
        "Exit codes",
        "5  this machine",
        "--calibrate",
    ] {
        assert!(help.out.contains(part), "`{part}` is not in: {}", help.out);
    }
    for role in ["inside", "produce", "subscribe"] {
        let listed = help
            .out
            .lines()
            .any(|line| line.trim_start().starts_with(role));
        assert!(!listed, "roles are hidden: {}", help.out);
    }
}
