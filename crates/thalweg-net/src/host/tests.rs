//! Proves that addresses are accepted as people write them, and that each refusal names the fault.

use super::{Host, Place};

fn host(text: &str) -> Host {
    match text.parse() {
        Ok(Place::Host(host)) => host,
        other => panic!("{text}: {other:?}"),
    }
}

#[test]
fn addresses_stand_for_themselves() {
    for text in ["192.0.2.7:7400", "[2001:db8::1]:7400", "[fe80::1%2]:7400"] {
        let place: Place = text.parse().expect("an address");
        assert!(matches!(place, Place::Address(_)), "{text}");
        assert_eq!(place.to_string(), text);
    }
}

#[test]
fn names_and_zones_round_trip() {
    for text in [
        "localhost:7400",
        "camera.example.org:7400",
        "camera.example.org.:1",
        "xn--bcher-kva.example:65535",
        "my_host:7400",
        "7400.example:7400",
    ] {
        assert_eq!(host(text).to_string(), text);
        assert!(!host(text).is_zoned());
    }
    let zoned = host("[fe80::1%eth0]:7400");
    assert!(zoned.is_zoned());
    assert_eq!(zoned.to_string(), "[fe80::1%eth0]:7400");
}

#[test]
fn bad_address_error_names_the_fault() {
    for (text, expected) in [
        ("192.0.2.1", "no port"),
        ("localhost", "no port"),
        ("", "no port"),
        ("[::1]", "no port"),
        ("2001:db8::1:7400", "in brackets"),
        ("::1", "in brackets"),
        ("192.0.2.1:70000", "70000 is above 65535"),
        ("192.0.2.1:", "is not a port number"),
        ("localhost:port", "is not a port number"),
        (" 192.0.2.1:7400", "blank"),
        ("192.0.2.1:7400\n", "blank"),
        ("192.0.2.256:7400", "not an IPv4 address"),
        (":7400", "not an IPv4 address"),
        ("[192.0.2.1]:7400", "without brackets"),
        ("[::1:7400", "not closed"),
        ("[localhost]:7400", "not an IPv6 address"),
        ("[fe80::1%]:7400", "not the name of an interface"),
        ("udp:192.0.2.1:7400", "too many"),
        ("-host:7400", "neither"),
        ("a..b:7400", "neither"),
        ("a b:7400", "neither"),
    ] {
        let error = text.parse::<Place>().expect_err(text).to_string();
        assert!(error.contains(expected), "{text}: {error}");
        assert!(error.contains("is not an address"), "{error}");
    }
}

#[tokio::test]
async fn local_names_and_zones_resolve() {
    let found = host("localhost:7400")
        .look_up()
        .await
        .expect("every machine has it");
    assert!(
        found
            .iter()
            .all(|address| address.ip().is_loopback() && address.port() == 7400)
    );
    let found = host("[fe80::1%lo]:7400").look_up().await;
    let found = found.expect("every Linux has the interface");
    assert!(matches!(found[..], [std::net::SocketAddr::V6(address)] if address.scope_id() > 0));
    let unknown = host("[fe80::1%no-such]:7400").look_up_blocking();
    let error = unknown.expect_err("there is none").to_string();
    assert!(error.contains("no interface `no-such`"), "{error}");
}
