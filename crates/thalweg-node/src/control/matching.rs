//! The watches of programs: the names of published streams that each one selects.
//!
//! *The idea.* The map's streams are compared with what each watch was given last, whenever the task is
//! at rest, and only while a watch's program still listens. A set is handed over as a whole, so that
//! a slow reader holds one set and no queue.
//!
//! *What it does not do.* It subscribes to nothing: the program does, name by name.

use std::collections::BTreeSet;

use thalweg_base::id::StreamName;
use thalweg_transfer::name::is_of_transfer;
use tokio::sync::watch;

use super::mind::Mind;
use crate::handle::Selection;

/// The watches.
#[derive(Debug, Default)]
pub(super) struct Watches(Vec<(Selection, watch::Sender<Vec<StreamName>>)>);

impl Watches {
    /// Starts a watch; its first set is complete.
    pub(super) fn watch(
        &mut self,
        selection: Selection,
        mind: &Mind,
    ) -> watch::Receiver<Vec<StreamName>> {
        let (names, receiver) = watch::channel(selected(&selection, mind));
        self.0.push((selection, names));
        receiver
    }

    /// Hands new sets to the watches if their names have changed, and forgets those that nobody reads.
    ///
    /// Cost    O(1) without a watch, else O(watches x streams on the map)
    pub(super) fn update(&mut self, mind: &Mind) {
        self.0.retain(|(_, names)| !names.is_closed());
        for (selection, names) in &self.0 {
            let now = selected(selection, mind);
            names.send_if_modified(|before| {
                let is_news = *before != now;
                *before = now;
                is_news
            });
        }
    }
}

/// Returns the names of the streams on the map that are selected, but those of file transfers.
fn selected(selection: &Selection, mind: &Mind) -> Vec<StreamName> {
    let controller = mind.controller();
    let records = controller.directory().records();
    let streams = records.flat_map(|record| {
        let streams = record.streams.iter();
        streams.map(|stream| (record.node, stream))
    });
    let streams = streams.filter(|(node, stream)| {
        let described = controller.description(*node, stream.id);
        selection.contains(&stream.name, described) && !is_of_transfer(&stream.name)
    });
    let names: BTreeSet<&StreamName> = streams.map(|(_, stream)| &stream.name).collect();
    names.into_iter().cloned().collect()
}
