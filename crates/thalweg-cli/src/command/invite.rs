//! `thalweg invite`: prints a ticket with which another node joins this node's fabric.

use std::net::SocketAddr;
use std::str::FromStr as _;

use clap::Args;
use serde_json::json;
use thalweg_base::limits::{INVITATION_USES_MAX, TICKET_ADDRESSES_MAX, TICKET_TCP_MAX};
use thalweg_base::time::Duration;
use thalweg_control::admission::Rights;
use thalweg_net::endpoint::TCP_PREFIX;
use thalweg_net::{NoPlace, Place};
use thalweg_node::InviteRequest;
use thalweg_node::fabric::ticket;

use crate::exit::{Code, OrCode as _, Outcome};
use crate::input::Offering;
use crate::socket::Socket;
use crate::terminal;

const EXAMPLES: &str = "\
Examples:
  thalweg invite
  thalweg invite --rights subscribe,see-plaintext --valid-for 10m
  thalweg invite --rights relay --uses 5 --rights-for 30d
  thalweg invite --address 198.51.100.7:7400 --address tcp:198.51.100.7:443
  thalweg invite | ssh camera thalweg join - --config node.toml

The ticket is printed on standard output. Anyone with the ticket can join until it is used up or expired: treat it like
a password. Only the fabric's owner, and nodes with the right `invite`, can print tickets.";

/// Print a ticket with which another node joins this node's fabric.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    #[command(flatten)]
    socket: Socket,

    /// What the invited nodes may do: publish, subscribe, relay, see-plaintext, invite.
    #[arg(
        long,
        value_name = "RIGHTS",
        default_value = "publish,subscribe,relay",
        value_parser = Offering::new(Rights::from_str, Rights::ALL.names()),
        hide_possible_values = true
    )]
    rights: Rights,

    /// How many nodes may join with the ticket.
    #[arg(long, value_name = "COUNT", default_value_t = 1, value_parser = parse_uses)]
    uses: usize,

    /// How long the ticket is valid: 30s, 10m, 2h, 7d.
    #[arg(long, value_name = "TIME", default_value = "1d", value_parser = parse_span)]
    valid_for: Duration,

    /// How long the granted rights last after joining [default: until revoked].
    #[arg(long, value_name = "TIME", value_parser = parse_span)]
    rights_for: Option<Duration>,

    /// An address where other nodes reach this one, if not at its own: for example of the router in
    /// front of it. Write tcp: before it if the router forwards TCP. May be given several times.
    #[arg(long = "address", value_name = "[tcp:]ADDRESS:PORT", value_parser = parse_address)]
    addresses: Vec<Address>,

    /// Print one JSON object with the ticket and its content.
    #[arg(long)]
    json: bool,
}

/// An address by transport.
#[derive(Clone, Copy, Debug)]
enum Address {
    Udp(SocketAddr),
    Tcp(SocketAddr),
}

/// Asks the node and prints.
pub async fn run(arguments: &Arguments) -> Outcome {
    let (mut addresses, mut tcp_addresses) = (Vec::new(), Vec::new());
    for address in &arguments.addresses {
        match address {
            Address::Udp(address) => addresses.push(*address),
            Address::Tcp(address) => tcp_addresses.push(*address),
        }
    }
    if addresses.len() > TICKET_ADDRESSES_MAX || tcp_addresses.len() > TICKET_TCP_MAX {
        let count = arguments.addresses.len();
        let sentence = format!(
            "{count} addresses are too many: a ticket holds {TICKET_ADDRESSES_MAX}, and {TICKET_TCP_MAX} for TCP"
        );
        return crate::exit::fail(Code::BadInput, sentence);
    }
    let request = InviteRequest {
        rights: arguments.rights,
        uses: arguments.uses,
        open_for: arguments.valid_for,
        lasts: arguments.rights_for.unwrap_or(Duration::NEVER),
        addresses,
        tcp_addresses,
    };
    let text = arguments.socket.connect().await?.invite(request).await?;
    if !arguments.json {
        terminal::print(&format!("{text}\n"))?;
        return Ok(Code::Done);
    }
    let read = ticket::parse(&text).or_code(Code::Failed)?;
    let object = json!({
        "ticket": text,
        "fabric": read.fabric,
        "inviter": read.inviter,
        "addresses": read.addresses,
        "tcp_addresses": read.tcp_addresses,
        "relays": read.relays,
        "rights": read.rights.names().collect::<Vec<_>>(),
        "uses": arguments.uses,
        "expires_unix": read.expiry.seconds(),
    });
    terminal::print(&format!("{object}\n"))?;
    Ok(Code::Done)
}

fn parse_address(text: &str) -> Result<Address, String> {
    let (make, bare): (fn(SocketAddr) -> Address, _) = match text.strip_prefix(TCP_PREFIX) {
        Some(bare) => (Address::Tcp, bare),
        None => (Address::Udp, text),
    };
    let here_alone = |what: &str| {
        format!(
            "a ticket needs an IP address that reaches this node from anywhere, and `{what}` does not: write one such as 192.0.2.7:7400"
        )
    };
    let address = match bare.parse().map_err(|error: NoPlace| error.to_string())? {
        Place::Address(SocketAddr::V6(address)) if address.scope_id() != 0 => {
            return Err(here_alone(bare));
        }
        Place::Address(address) => address,
        Place::Host(_) => return Err(here_alone(bare)),
    };
    if address.ip().is_unspecified() || address.port() == 0 {
        return Err(
            "other nodes cannot dial that: give an address and port by which they reach this node"
                .into(),
        );
    }
    Ok(make(address))
}

/// Parses a number of nodes.
pub(super) fn parse_uses(text: &str) -> Result<usize, String> {
    let uses: usize = text
        .parse()
        .map_err(|_| format!("`{text}` is not a number of nodes"))?;
    if (1..=INVITATION_USES_MAX).contains(&uses) {
        Ok(uses)
    } else {
        Err(format!("must be 1 to {INVITATION_USES_MAX} nodes"))
    }
}

/// Parses a time in the units of tickets; streams have no days.
pub(super) fn parse_span(text: &str) -> Result<Duration, String> {
    let bad = || format!("`{text}` is not a time such as 30s, 10m, 2h or 7d");
    let trimmed = text.trim();
    let split = trimmed.len() - trimmed.chars().last().map_or(0, char::len_utf8);
    let (number, unit) = trimmed.split_at(split);
    let seconds: u64 = match unit {
        "s" => 1,
        "m" => 60,
        "h" => 3_600,
        "d" => 86_400,
        _ => return Err(bad()),
    };
    let number: u64 = number.trim_end().parse().map_err(|_| bad())?;
    match number.checked_mul(seconds) {
        // At most a hundred years; a longer time is practically unlimited, and needs no option.
        Some(seconds @ 1..=3_155_760_000) => Ok(Duration::from_secs(seconds)),
        _ => Err(bad()),
    }
}
