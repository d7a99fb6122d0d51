//! What branches in company share of an ADU: how it goes, and how it is counted.
//!
//! *The idea.* Most sinks of a relay want the same, and their links keep up. What then depends on
//! the ADU alone is decided once for all of them: whether the chain lets it through, how it is
//! carried, in which band it counts. What is left for each is its counts, its number and its action.
//! A branch that falls behind leaves the company and is decided alone, until it has nothing under
//! way.
//!
//! ```text
//!  ADU ─► share ─► e2 · e3 · e5 · … : counts, number, Send
//!            └───► e4, behind: chain, turn, carriage, counts, number, Send
//! ```
//!
//! *What it does not do.* It changes no result: what is decided in company is what is decided alone,
//! and a property proves it.
//!
//! *Sources.* docs/decisions/0035.

use thalweg_base::adu::{Flags, Header, Mark};
use thalweg_base::count::Band;
use thalweg_base::event::DropCause;

use super::account::band_of;
use super::plans::Terms;
use crate::route::Carriage;

/// What equal terms make of an ADU.
#[derive(Clone, Copy, Debug)]
pub(super) struct Share {
    pub(super) terms: Terms,
    /// How it is carried, or why it is dropped.
    pub(super) verdict: Result<Carriage, DropCause>,
    /// The band in which it is counted, if it is.
    pub(super) band: Option<Band>,
    /// The mark with which it came.
    pub(super) came: Mark,
    /// It ends the stream.
    pub(super) is_end: bool,
}

impl Share {
    /// Decides on an ADU that passes no lift.
    pub(super) fn of(terms: Terms, header: &Header, payload_bytes: usize) -> Self {
        let way = terms.chain.way(header);
        Self {
            terms,
            verdict: way.map(|_| Carriage::of(terms.reliability, header, payload_bytes)),
            band: band_of(header),
            came: header.mark(),
            is_end: header.flags.contains(Flags::END),
        }
    }
}
