//! Checks the `Host` of requests to a loopback address: protection against DNS rebinding.
//!
//! *The idea.* A web page of any site can let its own name resolve to 127.0.0.1; its scripts then
//! read the answers as if they came from that site. The `Host` header gives it away, since it
//! carries that name. So on loopback only requests to an IP address or `localhost` are answered.
//!
//! *What it does not do.* An API on an address that others reach may have any name, so all its
//! requests are answered.
//!
//! *Sources.* RFC 9110 §7.2 (`Host`), §15.5.20 (421); RFC 6761 §6.3 (`localhost`).

use std::net::{IpAddr, Ipv6Addr};

use axum::extract::Request;
use axum::http::{StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

/// Passes on a request to an address or to `localhost`; answers others with 421.
pub(super) async fn check(request: Request, next: Next) -> Response {
    // A request without a host comes from no browser.
    let host = request.headers().get(header::HOST);
    let foreign = host.filter(|host| !host.to_str().is_ok_and(is_local_host));
    if let Some(foreign) = foreign {
        let foreign = String::from_utf8_lossy(foreign.as_bytes());
        let reason = format!(
            "this API does not answer for host {foreign:?}: on loopback it answers only for an address or localhost\n"
        );
        return (StatusCode::MISDIRECTED_REQUEST, reason).into_response();
    }
    next.run(request).await
}

/// Returns whether a `Host` is an address or `localhost`, with a port or without.
fn is_local_host(host: &str) -> bool {
    if let Some(rest) = host.strip_prefix('[') {
        let (address, port) = rest.split_once(']').unwrap_or_default();
        return address.parse::<Ipv6Addr>().is_ok() && (port.is_empty() || is_port(port));
    }
    let end = host.find(':').unwrap_or(host.len());
    let (name, port) = host.split_at(end);
    let name = name.strip_suffix('.').unwrap_or(name);
    let is_localhost = name.eq_ignore_ascii_case("localhost");
    (is_localhost || name.parse::<IpAddr>().is_ok()) && (port.is_empty() || is_port(port))
}

fn is_port(text: &str) -> bool {
    let digits = text.strip_prefix(':');
    digits.is_some_and(|digits| digits.parse::<u16>().is_ok())
}

#[cfg(test)]
mod tests {
    use super::is_local_host;

    #[test]
    fn only_addresses_and_localhost_pass() {
        for host in [
            "localhost",
            "LocalHost:7481",
            "localhost.",
            "127.0.0.1",
            "127.0.0.1:7481",
            "10.0.0.1:7481",
            "[::1]",
            "[::1]:7481",
        ] {
            assert!(is_local_host(host), "{host}");
        }
        for host in [
            "",
            ":",
            "[",
            "[]:1",
            "[::1]7481",
            "[127.0.0.1]",
            "::1",
            "rebound.example",
            "rebound.example:7481",
            "localhost.example",
            "localhost:port",
            "127.0.0.1.example:7481",
            "127.0.0.1:7481:7481",
            "127.0.0.1:70000",
        ] {
            assert!(!is_local_host(host), "{host}");
        }
    }
}
