//! Proves that the commented default equals the built-in defaults, and that each mistake is
//! reported with line and key.

use std::path::Path;

use thalweg_link::congestion::Algorithm;
use thalweg_link::tcp_mux::Pacing;

use super::{API_DEFAULT, Config, DEFAULT_CONFIG, LISTEN_DEFAULT, SLOTS_DEFAULT, Tcp};

const KEY: &str = "0101010101010101010101010101010101010101010101010101010101010101";

fn fault(text: &str) -> String {
    Config::parse(text, "node.toml", Path::new("/etc"))
        .expect_err("it is faulty")
        .to_string()
}

#[test]
fn commented_default_is_the_default() {
    let whole = Config::parse(DEFAULT_CONFIG, "default.toml", Path::new("/etc/thalweg"))
        .expect("it is valid");
    assert_eq!(whole.key_file, Path::new("/etc/thalweg/node.key"));
    assert_eq!(whole.listen, [LISTEN_DEFAULT.parse().expect("an address")]);
    assert_eq!(whole.api, API_DEFAULT.parse().ok());
    assert_eq!(whole.slots, SLOTS_DEFAULT);
    // Uncommented, the default reads the same.
    let marked = |line: &&str| !line.starts_with("# [[peer]]");
    let open: Vec<String> = DEFAULT_CONFIG
        .lines()
        .take_while(marked)
        .map(uncommented)
        .collect();
    let opened = Config::parse(&open.join("\n"), "default.toml", Path::new("/etc/thalweg"))
        .expect("it is valid");
    assert_eq!(
        (opened.listen, opened.slots, opened.api),
        (whole.listen, whole.slots, whole.api)
    );
    assert_eq!(
        (&opened.tcp, &whole.tcp),
        (&Tcp::default(), &Tcp::default())
    );
    assert_eq!(
        (opened.congestion, whole.congestion),
        (Algorithm::default(), Algorithm::default())
    );
    assert_eq!((opened.reach, opened.weights), (whole.reach, whole.weights));
    assert_eq!(opened.key_file, whole.key_file);
}

/// Uncomments a line that holds a key; prose stays a comment.
fn uncommented(line: &str) -> String {
    let key = |rest: &str| {
        let (word, _) = rest.split_once(" = ")?;
        word.chars()
            .all(|c| c.is_ascii_lowercase() || c == '_')
            .then(|| rest.to_string())
    };
    line.strip_prefix("# ")
        .and_then(key)
        .unwrap_or_else(|| line.to_string())
}

#[test]
fn fault_names_file_line_and_key() {
    let unknown = fault("name = \"a\"\nslotz = 3\n");
    assert!(
        unknown.contains("node.toml:2") && unknown.contains("slotz"),
        "{unknown}"
    );
    let unit = fault(&format!(
        "name = \"a\"\n[[peer]]\nname = \"b\"\nkey = \"{KEY}\"\nrate = \"2000\"\n"
    ));
    assert!(
        unit.contains("node.toml:5") && unit.contains("rate") && unit.contains("Mbit/s"),
        "{unit}"
    );
    let key = fault("name = \"a\"\n[[peer]]\nname = \"b\"\nkey = \"12\"\n");
    assert!(
        key.contains("node.toml:4") && key.contains("64 hexadecimal digits"),
        "{key}"
    );
}

#[test]
fn duplicate_name_or_key_is_refused() {
    let peer = |name: &str, key: &str| format!("[[peer]]\nname = \"{name}\"\nkey = \"{key}\"\n");
    let other = KEY.replace('1', "2");
    let same_name = fault(&format!(
        "name = \"a\"\n{}{}",
        peer("b", KEY),
        peer("b", &other)
    ));
    assert!(
        same_name.contains("node.toml:6") && same_name.contains("peer[0]"),
        "{same_name}"
    );
    let own_name = fault(&format!("name = \"a\"\n{}", peer("a", KEY)));
    assert!(own_name.contains("this node itself"), "{own_name}");
    let same_key = fault(&format!(
        "name = \"a\"\n{}{}",
        peer("b", KEY),
        peer("c", KEY)
    ));
    assert!(same_key.contains("node.toml:7"), "{same_key}");
    assert!(fault("name = \"a\"\nlisten = []\n").contains("node.toml:2"));
}

#[test]
fn shared_file_is_refused() {
    // A node replaces a stale socket, so a key file of the same name would be lost.
    for (text, line, other) in [
        ("socket = \"node.key\"", "node.toml:2", "key_file"),
        (
            "socket = \"./fabric.json\"",
            "node.toml:2",
            "fabric.state_file",
        ),
        (
            "socket = \"/etc/node.toml\"",
            "node.toml:2",
            "this configuration",
        ),
        (
            "key_file = \"k\"\n[fabric]\nstate_file = \"x/../k\"",
            "",
            "",
        ),
        (
            "key_file = \"k\"\n[fabric]\nstate_file = \"k\"",
            "node.toml:4",
            "key_file",
        ),
    ] {
        let parsed = Config::parse(
            &format!("name = \"a\"\n{text}\n"),
            "node.toml",
            Path::new("/etc"),
        );
        let error = parsed.map_or_else(|fault| fault.to_string(), |_| String::new());
        assert!(
            error.contains(line) && error.contains(other),
            "{text}: {error}"
        );
    }
}

#[test]
fn invalid_weight_is_refused() {
    for value in ["-1", "nan", "inf"] {
        let error = fault(&format!("name = \"a\"\n[weights]\nquality = {value}\n"));
        assert!(error.contains("node.toml:3: weights.quality"), "{error}");
    }
    assert!(fault("name = \"a\"\n[weights]\npack_ratio = 0\n").contains("above 0"));
}

#[test]
fn tcp_prefix_selects_tcp() {
    let text = format!(
        "name = \"a\"\nlisten = [\"tcp:[::1]:7400\", \"[::1]:7400\"]\n[tcp]\nsend_credit = \"acknowledged\"\n\
         connections = 3\ncleartext_loop = true\n[[peer]]\nname = \"b\"\nkey = \"{KEY}\"\n\
         addresses = [\"192.0.2.7:7400\", \"tcp:192.0.2.7:443\", \"tcp:192.0.2.8:443\"]\n"
    );
    let config = Config::parse(&text, "node.toml", Path::new("/etc")).expect("it is valid");
    let address = |text: &str| text.parse().expect("an address");
    assert_eq!(config.listen, [address("[::1]:7400")]);
    let tcp = Tcp {
        listen: vec![address("[::1]:7400")],
        pace: Pacing::Acked,
        connections: 3,
        plain: Vec::new(),
        clear_loop: true,
    };
    assert_eq!(config.tcp, tcp);
    let peer = &config.peers[0];
    assert_eq!(peer.addresses, [address("192.0.2.7:7400")]);
    let expected = [address("192.0.2.7:443"), address("192.0.2.8:443")];
    assert_eq!(peer.tcp_addresses, expected);
}

#[test]
fn plain_tcp_requires_secure_link() {
    let text = |plain: &str, secure: &str| {
        format!(
            "name = \"a\"\n[tcp]\ncleartext_peers = [\"{plain}\"]\n[[peer]]\nname = \"b\"\nkey = \"{KEY}\"\n{secure}\n"
        )
    };
    for secure in ["", "secure = false"] {
        let error = fault(&text("b", secure));
        assert!(
            error.contains("node.toml:3") && error.contains("`secure = true`"),
            "{error}"
        );
    }
    let error = fault(&text("c", "secure = true"));
    assert!(
        error.contains("node.toml:3") && error.contains("called `c`"),
        "{error}"
    );
    let config = Config::parse(&text("b", "secure = true"), "node.toml", Path::new("/etc"));
    let config = config.expect("it is valid");
    assert_eq!(config.tcp.plain, [KEY.parse().expect("a key")]);
}

#[test]
fn invalid_tcp_setting_is_refused() {
    let deaf = fault("name = \"a\"\nlisten = [\"tcp:0.0.0.0:7400\"]\n");
    assert!(
        deaf.contains("node.toml:2") && deaf.contains("one UDP address"),
        "{deaf}"
    );
    let garbled = fault("name = \"a\"\nlisten = [\"udp:0.0.0.0:7400\"]\n");
    assert!(
        garbled.contains("node.toml:2") && garbled.contains("`udp:0.0.0.0:7400` is not an address"),
        "{garbled}"
    );
    for connections in [0, 9] {
        let outside = fault(&format!(
            "name = \"a\"\n[tcp]\nconnections = {connections}\n"
        ));
        assert!(
            outside.contains("node.toml:3") && outside.contains("1 to 8 connections"),
            "{outside}"
        );
    }
    let pace = fault("name = \"a\"\n[tcp]\nsend_credit = \"hasty\"\n");
    assert!(
        pace.contains("node.toml:3") && pace.contains("acknowledged"),
        "{pace}"
    );
}

#[test]
fn confined_node_excludes_mdns() {
    let parse = |text: &str| Config::parse(text, "node.toml", Path::new("/etc"));
    let confined = parse("name = \"a\"\n[reach]\nconfined = true\n").expect("it is valid");
    assert_eq!(confined.reach.packets, thalweg_net::Reach::Configured);
    let free = parse("name = \"a\"\n").expect("it is valid");
    assert_eq!(free.reach.packets, thalweg_net::Reach::Anywhere);
    let both = fault("name = \"a\"\n[reach]\nconfined = true\nmdns = true\n");
    assert!(
        both.contains("node.toml:4") && both.contains("leave one out"),
        "{both}"
    );
}

#[test]
fn useless_relay_is_refused() {
    let peer = format!("[[peer]]\nname = \"b\"\nkey = \"{KEY}\"\naddresses = ");
    let good = format!(
        "name = \"a\"\n[reach]\nrelays = [\"https://relay.example.org\"]\nrelay_ca = \"ca.pem\"\n\
         {peer}[\"http://192.0.2.9:3340\"]\n"
    );
    let config = Config::parse(&good, "node.toml", Path::new("/etc")).expect("it is valid");
    let relay = |text: &str| text.parse().expect("a relay");
    assert_eq!(config.reach.relays, [relay("https://relay.example.org/")]);
    assert_eq!(config.peers[0].relays, [relay("http://192.0.2.9:3340")]);
    let relay_ca = config.reach.relay_ca.as_deref();
    assert_eq!(relay_ca, Some(Path::new("/etc/ca.pem")));
    let long = format!("https://{}.org", "r".repeat(128));
    for bad in [
        "relay.example.org",
        "ftp://relay.example.org",
        "http://",
        "http://a:b@c",
        &long,
    ] {
        let error = fault(&format!("name = \"a\"\n[reach]\nrelays = [\"{bad}\"]\n"));
        assert!(
            error.contains("node.toml:3") && error.contains("is not the URL of a relay"),
            "{error}"
        );
    }
    let unused = fault(&format!(
        "name = \"a\"\n{peer}[\"http://192.0.2.9:3340\"]\n"
    ));
    assert!(
        unused.contains("node.toml:5") && unused.contains("uses no relay"),
        "{unused}"
    );
    let deaf = fault("name = \"a\"\nlisten = [\"0.0.0.0:7400\", \"http://192.0.2.9:3340\"]\n");
    assert!(deaf.contains("under [reach]"), "{deaf}");
}

/// Returns the error of a configuration with these lines; empty if it is valid.
fn error_of(lines: &str) -> String {
    let text = format!("name = \"a\"\n{lines}\n");
    let parsed = Config::parse(&text, "node.toml", Path::new("/etc"));
    parsed.map_or_else(|fault| fault.to_string(), |_| String::new())
}

#[test]
fn empty_path_is_refused() {
    for (lines, place) in [
        ("key_file = \"\"", "node.toml:2: key_file: "),
        ("socket = \"\"", "node.toml:2: socket: "),
        (
            "[fabric]\nstate_file = \"\"",
            "node.toml:3: fabric.state_file: ",
        ),
        ("[reach]\nrelay_ca = \"\"", "node.toml:3: reach.relay_ca: "),
    ] {
        let error = error_of(lines);
        assert!(error.starts_with(place), "{lines}: {error}");
        assert!(error.contains("names no file"), "{lines}: {error}");
    }
}

#[test]
fn long_socket_path_is_refused() {
    // The limit is on the whole path; `/etc/` is five bytes of it.
    let named = |bytes: usize| error_of(&format!("socket = \"{}\"", "x".repeat(bytes - 5)));
    assert_eq!(named(107), "");
    let long = named(108);
    assert!(long.starts_with("node.toml:2: socket: /etc/x"), "{long}");
    assert!(long.contains("108 bytes") && long.contains("at most 107"));
    let folder = tempfile::tempdir().expect("a directory");
    for (bytes, is_bound) in [(107, true), (108, false)] {
        let name = "x".repeat(bytes - folder.path().as_os_str().len() - 1);
        let bound = std::os::unix::net::UnixListener::bind(folder.path().join(name));
        assert_eq!(bound.is_ok(), is_bound, "the system's own bound: {bytes}");
    }
}

#[test]
fn excess_slots_are_refused() {
    assert_eq!(error_of("slots = 0"), "");
    assert_eq!(error_of("slots = 16"), "");
    for slots in [17, u32::MAX] {
        let error = error_of(&format!("slots = {slots}"));
        assert!(error.starts_with("node.toml:2: slots: "), "{error}");
        assert!(error.contains("at most 16 adapters") && error.contains(&slots.to_string()));
    }
}

#[test]
fn duplicate_listen_is_refused() {
    assert_eq!(
        error_of("listen = [\"[::1]:1\", \"[::1]:2\", \"tcp:[::1]:1\"]"),
        ""
    );
    assert_eq!(error_of("listen = [\"[::1]:0\", \"[::1]:0\"]"), "");
    for twice in ["[::1]:1", "tcp:[::1]:1"] {
        let error = error_of(&format!(
            "listen = [\n\"[::1]:2\",\n\"{twice}\",\n\"{twice}\"]"
        ));
        assert!(error.starts_with("node.toml:5: listen[2]: "), "{error}");
        assert!(error.contains("listen[1] already"), "{error}");
    }
}

#[test]
fn api_listen_needs_an_address() {
    assert_eq!(error_of("[api]\nlisten = \"[::1]:7481\""), "");
    for bad in ["localhost:7481", "127.0.0.1", ":7481"] {
        let error = error_of(&format!("[api]\nlisten = \"{bad}\""));
        assert!(error.starts_with("node.toml:3: api.listen: "), "{error}");
        assert!(error.contains(&format!("`{bad}`")) && error.contains("\"127.0.0.1:7481\""));
    }
}

#[test]
fn invalid_key_is_refused() {
    let peer = |key: &str| format!("[[peer]]\nname = \"b\"\nkey = \"{key}\"");
    let owner = |key: &str| format!("[fabric]\nowner = \"{key}\"");
    assert_eq!(error_of(&peer(KEY)), "");
    assert_eq!(error_of(&owner(KEY)), "");
    // Not a point of the curve, and one of small order.
    for bad in [&KEY.replace('1', "2"), &"0".repeat(64)] {
        for (error, place) in [
            (error_of(&peer(bad)), "node.toml:4: peer[0].key: "),
            (error_of(&owner(bad)), "node.toml:3: fabric.owner: "),
        ] {
            assert!(error.starts_with(place), "{error}");
            assert!(error.contains("is not a node's key"), "{error}");
        }
    }
}

/// Returns a configuration with a peer at this address.
fn with_peer_at(address: &str) -> Result<Config, thalweg_world::text::TextError> {
    let key = "11".repeat(32);
    let text = format!(
        "name = \"here\"\n[[peer]]\nname = \"there\"\nkey = \"{key}\"\naddresses = [\"{address}\"]\n"
    );
    Config::parse(&text, "node.toml", Path::new(""))
}

#[test]
fn peer_address_may_be_host_or_zoned() {
    for address in ["camera.example.org:7400", "[fe80::1%eth0]:7400"] {
        let config = with_peer_at(address).expect("it is one");
        assert_eq!(config.peers[0].hosts[0].to_string(), address);
        let config = with_peer_at(&format!("tcp:{address}")).expect("it is one");
        assert_eq!(config.peers[0].tcp_hosts[0].to_string(), address);
    }
    let config = with_peer_at("[fe80::1%2]:7400").expect("it is one");
    assert_eq!(config.peers[0].addresses[0].to_string(), "[fe80::1%2]:7400");
}

#[test]
fn wrong_address_error_is_specific() {
    for (address, says) in [
        ("192.0.2.1", "no port"),
        ("192.0.2.1:70000", "above 65535"),
        ("2001:db8::1:7400", "in brackets"),
        (" 192.0.2.1:7400", "blank"),
        ("udp://192.0.2.1:7400", "leave out the scheme"),
    ] {
        let error = with_peer_at(address).expect_err(address).to_string();
        assert!(error.contains(says), "{error}");
        assert!(
            error.starts_with("node.toml:5: peer[0].addresses"),
            "{error}"
        );
    }
}

#[test]
fn listen_refuses_host_names() {
    let listening = |address: &str| {
        let text = format!("name = \"here\"\nlisten = [\"{address}\", \"127.0.0.1:7400\"]\n");
        Config::parse(&text, "node.toml", Path::new(""))
    };
    let error = listening("localhost:7400").expect_err("a name").to_string();
    assert!(error.contains("`localhost:7400` is a name"), "{error}");
    let error = listening("[fe80::1%no-such]:7400").expect_err("no interface");
    assert!(
        error.to_string().contains("no interface `no-such`"),
        "{error}"
    );
    let config = listening("[fe80::1%lo]:7400").expect("every Linux has it");
    assert!(config.listen[0].to_string().starts_with("[fe80::1%"));
}

#[test]
fn former_keys_name_their_successors() {
    let refused = [
        (
            "[tcp]\npace = \"kernel\"",
            "node.toml:3: tcp.pace: ",
            "`send_credit`",
        ),
        (
            "[tcp]\nplain = []",
            "node.toml:3: tcp.plain: ",
            "`cleartext_peers`",
        ),
        (
            "[fabric]\nstate = \"a\"",
            "node.toml:3: fabric.state: ",
            "`state_file`",
        ),
    ];
    for (text, place, now) in refused {
        let mistake = fault(&format!("name = \"a\"\n{text}\n"));
        assert!(
            mistake.starts_with(place) && mistake.contains(now),
            "{mistake}"
        );
    }
}

#[test]
fn commented_entries_are_good() {
    let (_, entries) = DEFAULT_CONFIG
        .split_once("# [[ingest]]\n")
        .expect("an example");
    let entries: Vec<String> = entries.lines().map(uncommented).collect();
    let entries = entries.join("\n").replace("# [[egress]]", "[[egress]]");
    let text = format!("name = \"a\"\n[[ingest]]\n{entries}");
    let config = Config::parse(&text, "node.toml", Path::new("/etc")).expect("they are valid");
    let (ingest, egress) = (&config.ingest[0], &config.egress[0]);
    assert_eq!(ingest.name.as_str(), "radar");
    assert_eq!(ingest.description.labels["kind"], "radar");
    assert_eq!(ingest.folder, Path::new("/etc"));
    assert_eq!(
        (egress.name.as_str(), egress.to.as_str()),
        ("archive", "radar.bin")
    );
    assert!(ingest.enabled && egress.enabled && !ingest.unplanned);
}
