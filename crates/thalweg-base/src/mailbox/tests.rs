//! Proves that every depth and policy reads back from its text, and that impossible ones are refused.

use alloc::string::ToString;

use super::*;

#[test]
fn depths_read_back() {
    let known = [
        ("100", Depth::Adus(100)),
        ("4MiB", Depth::Bytes(DataSize::from_kib(4096))),
        ("4 MiB", Depth::Bytes(DataSize::from_kib(4096))),
        ("2 s", Depth::Time(Duration::from_secs(2))),
    ];
    for (text, depth) in known {
        assert_eq!(text.parse(), Ok(depth));
        assert_eq!(depth.to_string().parse(), Ok(depth));
    }
}

#[test]
fn impossible_depths_are_refused() {
    let refused = [
        ("0", "above 0"),
        ("0 s", "above 0"),
        ("0 B", "above 0"),
        ("5000", "4096 ADUs at most"),
        ("1 GiB", "16 MiB at most"),
        ("many", "such as `100`"),
        ("-1", "such as `100`"),
    ];
    for (text, part) in refused {
        let why = text.parse::<Depth>().expect_err(text).to_string();
        assert!(why.contains(part), "{text}: {why}");
    }
}

#[test]
fn policies_read_back() {
    for policy in Policy::ALL {
        assert_eq!(policy.name().parse(), Ok(policy));
    }
    let why = "latest".parse::<Policy>().expect_err("unknown").to_string();
    assert!(
        why.contains("newest") && why.contains("by-importance"),
        "{why}"
    );
}

#[test]
fn contradictions_are_faults() {
    let newest = MailboxOptions {
        policy: Some(Policy::Newest),
        ..MailboxOptions::default()
    };
    assert_eq!(newest.fault(), None);
    let deep = MailboxOptions {
        depth: Some(Depth::Adus(3)),
        ..newest
    };
    let timed = MailboxOptions {
        policy: Some(Policy::ByImportance),
        depth: Some(Depth::Time(Duration::from_secs(2))),
        ..MailboxOptions::default()
    };
    for options in [deep, timed] {
        assert_eq!(options.fault().map(|(key, _)| key), Some("depth"));
    }
}
