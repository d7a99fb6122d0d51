//! Outcomes that come together, reported together.
//!
//! *The idea.* A receiver has a lock for what an outcome changes, and a relay of hundreds of links has an
//! outcome from each at about the same time. A loop that may end ADUs of many links in a turn
//! [gathers](gather) their outcomes in its thread, and reports them in one call when it is done.
//!
//! *What it does not do.* It counts nothing: links do.

use std::cell::RefCell;
use std::sync::Arc;

use thalweg_base::adu::Header;

use super::{Link, Outcome};

/// An ADU that was [detached](super::Sending::detach), and has ended.
#[derive(Clone, Debug)]
pub struct EndedAdu {
    /// Its link.
    pub link: Link,
    /// Its header.
    pub header: Header,
    /// The token that it was detached with.
    pub token: u64,
    /// How it ended.
    pub outcome: Outcome,
}

thread_local! {
    /// What this thread gathers, if it does.
    static GATHERED: RefCell<Option<Vec<EndedAdu>>> = const { RefCell::new(None) };
}

/// Reports what is gathered when it is dropped, also by a panic.
struct Gathering;

/// Does something, and reports the outcomes that it brings in this thread afterwards, together.
pub(crate) fn gather(act: impl FnOnce()) {
    let is_outermost = GATHERED.with_borrow_mut(|gathered| {
        let is_outermost = gathered.is_none();
        gathered.get_or_insert_default();
        is_outermost
    });
    let _gathering = is_outermost.then_some(Gathering);
    act();
}

/// Reports an outcome to the link's receiver, or has it gathered.
pub(super) fn report(link: &Link, header: Header, token: u64, outcome: Outcome) {
    let ended = EndedAdu {
        link: link.clone(),
        header,
        token,
        outcome,
    };
    let alone = GATHERED.with_borrow_mut(|gathered| match gathered {
        Some(gathered) => {
            gathered.push(ended);
            None
        }
        None => Some(ended),
    });
    if let Some(ended) = alone {
        report_all(&[ended]);
    }
}

fn report_all(ended: &[EndedAdu]) {
    let is_same = |one: &EndedAdu, next: &EndedAdu| {
        let receivers = [one, next].map(|ended| Arc::as_ptr(&ended.link.0.context.receiver));
        std::ptr::addr_eq(receivers[0], receivers[1])
    };
    for ended in ended.chunk_by(is_same) {
        ended[0].link.0.context.receiver.outcomes(ended);
    }
}

impl Drop for Gathering {
    fn drop(&mut self) {
        // What the receiver does with them is not gathered.
        let gathered = GATHERED.take();
        report_all(&gathered.unwrap_or_default());
    }
}
