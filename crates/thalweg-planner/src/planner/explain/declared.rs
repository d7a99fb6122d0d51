//! The reason for an adapter that a world declares.
//!
//! *The idea.* The adapter's profile says what it does; the first downstream link that requires it
//! is the reason.

use alloc::format;
use alloc::string::{String, ToString};

use super::super::product::LinkUse;
use super::rate;
use crate::model::{Adapter, AdapterName, Layer, Profile, Role, Snapshot, Transform};

/// Returns the layers on a link: the stream's own, or a transcoder's with its name.
pub(super) fn layers_on<'a>(
    snapshot: &'a Snapshot,
    link: Option<&LinkUse>,
) -> (Option<AdapterName>, &'a [Layer]) {
    let made = link.and_then(|link| link.transforms.first());
    let mut tables = snapshot.catalogue.tables.iter();
    let table = made.and_then(|name| tables.find(|table| table.name == *name));
    match table {
        Some(table) => (Some(table.name), &table.layers),
        None => (None, &snapshot.stream.layers),
    }
}

/// Returns the utility of the stream on a link.
pub(super) fn utility_on(snapshot: &Snapshot, link: Option<&LinkUse>, layers: u8) -> f64 {
    let (_, all) = layers_on(snapshot, link);
    let kept = all.iter().take(usize::from(layers));
    let utility = kept.map(|layer| layer.utility).sum();
    let on = link.map_or(&[][..], |link| &link.transforms);
    let transforms = snapshot.catalogue.transforms.iter();
    let transforms = transforms.filter(|transform| on.contains(&transform.name));
    transforms.fold(utility, |utility, transform| {
        utility * transform.quality_factor
    })
}

/// Returns the reason for a declared adapter.
pub(super) fn why(snapshot: &Snapshot, ahead: &[LinkUse], name: AdapterName) -> String {
    let catalogue = &snapshot.catalogue;
    let is_it = |profile: &&Profile| profile.adapter == Adapter::Named(name);
    let transform = |bit: usize| catalogue.transforms.get(bit);
    match catalogue.profiles.iter().find(is_it).map(|it| it.role) {
        Some(Role::Do(bit)) => match transform(bit) {
            Some(transform) => why_do(snapshot, ahead, transform),
            None => "it changes nothing".to_string(),
        },
        Some(Role::Undo(bit)) => match transform(bit) {
            Some(transform) => format!("what {} did ends here", transform.name),
            None => "it changes nothing".to_string(),
        },
        Some(Role::Transcode(_)) => why_transcode(snapshot, ahead, name),
        Some(Role::Keep) | None => "the world declares no such adapter".to_string(),
    }
}

fn why_do(snapshot: &Snapshot, ahead: &[LinkUse], transform: &Transform) -> String {
    let bears = snapshot.stream.needs.loss_max.as_f64();
    let over = |link: &&LinkUse| link.transforms.contains(&transform.name);
    for link in ahead.iter().take_while(over) {
        let edge = snapshot.topology.link(link.link);
        let LinkUse { from, to, .. } = link;
        let loses = edge.loss.as_f64();
        if loses > bears && transform.repairs >= loses {
            let [loses, bears, repairs] = [loses, bears, transform.repairs].map(super::percent);
            return format!(
                "link {from} → {to} loses {loses}, the stream tolerates {bears}; this repairs up to {repairs}"
            );
        }
        let needs_bps = link.rate_bps / transform.rate_factor;
        if needs_bps > edge.rate.as_bps() as f64 * (1.0 + 1e-9) {
            return format!(
                "link {from} → {to} has {}; without it the stream would need {} there",
                edge.rate,
                rate(needs_bps)
            );
        }
    }
    if transform.hides {
        return "some link ahead may not carry plaintext".to_string();
    }
    "it costs less than the link load that it saves".to_string()
}

/// Finds the downstream link that the stream's own minimum layers would overload, in the form on
/// that link.
fn why_transcode(snapshot: &Snapshot, ahead: &[LinkUse], name: AdapterName) -> String {
    let stream = &snapshot.stream;
    let least = usize::from(stream.least_layers());
    let own_bps = stream.rate_of(least).as_bps() as f64;
    for link in ahead {
        let (made, layers) = layers_on(snapshot, Some(link));
        if made != Some(name) {
            break;
        }
        let kept = layers.iter().take(usize::from(link.layers));
        let made_bps = kept.fold(0.0, |bps, layer| bps + layer.rate.as_bps() as f64);
        let needs_bps = link.rate_bps * (own_bps / made_bps);
        let edge = snapshot.topology.link(link.link);
        if needs_bps > edge.rate.as_bps() as f64 * (1.0 + 1e-9) {
            return format!(
                "link {} → {} has {}; {} of the stream's own would need {} there",
                link.from,
                link.to,
                edge.rate,
                super::count(least, "layer"),
                rate(needs_bps)
            );
        }
    }
    "its layers cost less in total than the stream's own".to_string()
}
