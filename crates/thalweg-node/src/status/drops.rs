//! Drops of a stream on a node, as data.

use serde::{Deserialize, Serialize};
use thalweg_base::id::StreamName;

/// Drops of one place and cause within a tenth of a second.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DropStatus {
    /// The stream's name.
    pub stream: StreamName,
    /// Its id, in hexadecimal: another one when it is published again.
    pub id: String,
    /// The number of the record, from 1 on for each id: a reader that lacks one was too slow.
    pub number: u64,
    /// When the first was dropped, in seconds since 1970 by the node's clock.
    pub time: f64,
    /// How long after it the last was.
    pub seconds: f64,
    /// `source`, `arrival`, `node`, `link`, `way` or `mailbox`.
    pub place: String,
    /// The subscriber, or the key of the neighbour.
    pub at: Option<String>,
    /// The cause; `missing` of ADUs that never came here.
    pub cause: String,
    /// How many.
    pub adus: u64,
    /// The lowest and the highest sequence; not all between need be dropped.
    pub sequences: [u64; 2],
    /// The least and the largest importance, if it is known.
    pub importance: Option<[u8; 2]>,
}
