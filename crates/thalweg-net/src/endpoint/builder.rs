//! iroh's builder for an endpoint's options: what is bound, and which searches are off.
//!
//! *What it does not do.* It binds nothing.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use iroh::endpoint::{BindOpts, Builder, NetReportConfig, PortmapperConfig, presets};

use super::gate;
use super::options::{Options, Reach};
use crate::address::{self, Relay};
use crate::confined::Confined;
use crate::doorkeeper::DOOR_ALPN;
use crate::error::BindError;
use crate::link::{ALPN, STANDBY_ALPN};
use crate::transport;

pub(super) fn builder(
    options: &Options,
    confined: Option<&Confined>,
) -> Result<Builder, BindError> {
    let door = options.doorkeeper.as_ref().map(|_| DOOR_ALPN);
    let standby = options.engine.map(|_| STANDBY_ALPN);
    let alpns = [ALPN].into_iter().chain(door).chain(standby);
    let mut builder = iroh::Endpoint::builder(presets::Minimal)
        .secret_key(options.identity.secret())
        .alpns(alpns.map(|alpn| alpn.as_bytes().to_vec()).collect())
        .transport_config(transport::config(options.idle_timeout, options.congestion))
        .hooks(gate::Gate::new(
            options.admission.clone(),
            options.identity.id(),
        ))
        .portmapper_config(PortmapperConfig::Disabled)
        .net_report_config(net_report(&options.relays))
        .relay_mode(address::relay_mode(&options.relays));
    if let Some(path) = &options.relay_ca {
        builder = builder.ca_tls_config(address::relay_trust(path)?);
    }
    if let Some(confined) = confined {
        return Ok(builder
            .clear_ip_transports()
            .add_custom_transport(Arc::new(confined.clone())));
    }
    if options.listen.is_empty() {
        if options.reach == Reach::OwnAddress {
            let any = (Ipv4Addr::UNSPECIFIED, 0).into();
            return Err(BindError::Unconfined(any));
        }
        return Ok(builder);
    }
    builder = builder.clear_ip_transports();
    for (address, opts) in routes(&options.listen, options.reach)? {
        builder = builder
            .bind_addr_with_opts(address, opts)
            .map_err(|error| BindError::Endpoint(error.to_string()))?;
    }
    Ok(builder)
}

/// Returns which network checks iroh may make: none, or latency probes of the relays over HTTPS,
/// which need no UDP.
///
/// Without probes a node never picks its home relay, unless a relay speaks QUIC too.
fn net_report(relays: &[Relay]) -> NetReportConfig {
    let mut config = NetReportConfig::minimal();
    config.https_probes = !relays.is_empty();
    config
}

/// Assigns destinations to sockets; the default route of each family comes last, as iroh demands.
pub(super) fn routes(
    listen: &[SocketAddr],
    reach: Reach,
) -> Result<Vec<(SocketAddr, BindOpts)>, BindError> {
    let mut routes: Vec<_> = listen
        .iter()
        .enumerate()
        .map(|(place, address)| {
            let first = !listen[..place]
                .iter()
                .any(|before| before.is_ipv4() == address.is_ipv4());
            let own = if address.is_ipv4() { 32 } else { 128 };
            match reach {
                Reach::OwnAddress if address.ip().is_unspecified() => {
                    Err(BindError::Unconfined(*address))
                }
                Reach::Anywhere if first => Ok((*address, BindOpts::default())),
                // A prefix as long as the address matches that address alone. Without a default
                // route, iroh drops packets to all other destinations.
                _ => Ok((*address, BindOpts::default().set_prefix_len(own))),
            }
        })
        .collect::<Result<_, _>>()?;
    routes.sort_by_key(|(_, opts)| opts.is_default_route());
    Ok(routes)
}
