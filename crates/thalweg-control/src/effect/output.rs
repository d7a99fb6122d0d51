//! Actions for the driver: what comes out of the controller.

use alloc::string::String;
use alloc::vec::Vec;

use bytes::Bytes;
use thalweg_base::feed::Feed;
use thalweg_base::id::{Epoch, NodeId, Sequence, StreamId, StreamName};
use thalweg_base::part::{Installation, Secrets};
use thalweg_base::seen::Held;
use thalweg_base::trace::{Marking, Traced};

use super::{Note, Notice};
use crate::ledger::Reading;
use crate::planning::Planning;
use crate::session::{Given, Sinkward};

/// An action for the driver.
#[derive(Clone, Debug)]
pub enum Output {
    /// Send a control frame to a neighbour, after those before it. The link is up, or was a moment ago.
    Send {
        /// The neighbour.
        to: NodeId,
        /// The frame.
        frame: Bytes,
    },
    /// Solve a planning and hand the result to [`Controller::handle_solved`].
    ///
    /// [`Controller::handle_solved`]: crate::control::Controller::handle_solved
    Plan(Planning),
    /// Install a part of a plan, replacing the one before, and report the outcome to
    /// [`Controller::handle_installed`].
    ///
    /// [`Controller::handle_installed`]: crate::control::Controller::handle_installed
    Install {
        /// The part.
        installation: Installation,
        /// Key and random bits for its adapters.
        secrets: Secrets,
    },
    /// Remove a part of a plan.
    Remove {
        /// The stream.
        stream: StreamId,
        /// The plan.
        epoch: Epoch,
    },
    /// Start or stop copying what arrives for a base into the plan that is grafted on it here.
    Cast {
        /// The stream.
        stream: StreamId,
        /// The grafted plan.
        epoch: Epoch,
        /// What to copy. Repeating a feed that is already running has no effect.
        feed: Feed,
    },
    /// Send the stored part of a published stream under this plan, at once and before anything new:
    /// its opening, or everything since its newest key ADU.
    Replay {
        /// The stream.
        stream: StreamId,
        /// The sink.
        sink: NodeId,
        /// The plan, now in force for a sink that had none before.
        to: Epoch,
        /// Whether the sink waited for the stream: then it gets the opening, otherwise everything
        /// since the newest key ADU.
        has_waited: bool,
    },
    /// From now on the publisher sends each ADU under these plans, and drops it if there are none.
    Active {
        /// The stream.
        stream: StreamId,
        /// The plans, each with the plans in force that it feeds.
        given: Vec<Given>,
    },
    /// A held stream now has these sinks, with these plans in force.
    Holding {
        /// The stream.
        stream: StreamId,
        /// All its sinks, ordered by key.
        sinks: Vec<Sinkward>,
    },
    /// Resend what was sent under these plans and is still kept, at once and before anything new,
    /// and discard what still waits under them for a link of this node.
    Resend {
        /// The stream.
        stream: StreamId,
        /// The sink of these plans.
        sink: NodeId,
        /// The plans with broken paths.
        from: Vec<Epoch>,
        /// The plan in force for the sink.
        to: Epoch,
        /// The plan to send under: `to`, or the root that it is grafted on.
        under: Epoch,
    },
    /// Nothing more arrives of what a wanted stream lacks below a sequence.
    GivenUp {
        /// The stream.
        stream: StreamId,
        /// The first sequence that may still arrive.
        below: Sequence,
    },
    /// A receipt of a published stream's sink arrived; what it names need not be kept.
    Acknowledged {
        /// The stream.
        stream: StreamId,
        /// The sink.
        sink: NodeId,
        /// All plans for that sink.
        epochs: Vec<Epoch>,
        /// The plan in force, if its ADUs arrive in order and none may be left out. The driver then
        /// reports how many of them the sink lacks ([`Controller::handle_missing`]).
        ///
        /// [`Controller::handle_missing`]: crate::control::Controller::handle_missing
        in_order: Option<Epoch>,
        /// What the sink has.
        held: Held,
    },
    /// A wanted stream is published. Either it is new, and its sequences start at zero, or it was
    /// out of reach and is known again, and programs that have begun with it go on.
    Found {
        /// The stream's name.
        name: StreamName,
        /// The stream.
        stream: StreamId,
    },
    /// A notice for the programs that want a stream.
    Notice {
        /// The stream's name.
        name: StreamName,
        /// The notice.
        notice: Notice,
    },
    /// What follows a stream that has ended here is now known, for every reader that was told
    /// [`Sequel::Unsure`](crate::control::Sequel::Unsure).
    Sequel {
        /// The stream's name.
        name: StreamName,
        /// Whether it goes on, with the stream of another producer.
        goes_on: bool,
    },
    /// The programs that want a stream from now on start without what has arrived of it before,
    /// though receipts still name that ([`Seen::begin_anew`](thalweg_base::seen::Seen::begin_anew)).
    BegunAnew {
        /// The stream.
        stream: StreamId,
        /// The last plan made for the programs that left, if it may still bring something: that is
        /// not for the new ones.
        former: Option<Epoch>,
    },
    /// What was held to belong to programs that have left belongs to those that want the stream
    /// now: its source never learned that any left.
    GoesOn {
        /// The stream.
        stream: StreamId,
    },
    /// Discard what is remembered of the ADUs received of a stream that ended here.
    Forgotten {
        /// The stream.
        stream: StreamId,
    },
    /// A stream that this node published is over.
    Closed {
        /// The stream.
        stream: StreamId,
        /// Its name.
        name: StreamName,
        /// The final account of its ADUs.
        reading: Reading,
    },
    /// Mark ADUs of a published stream for tracing from now on.
    Trace {
        /// The stream.
        stream: StreamId,
        /// How often, and until when.
        marking: Marking,
    },
    /// The source of a stream answered this node's request to trace it.
    Tracing {
        /// The stream.
        stream: StreamId,
        /// How many sinks it has, or why it is not traced.
        answer: Result<u32, String>,
    },
    /// The trace of one ADU, with the nodes of its path.
    Traced(Traced),
    /// An event for the log.
    Note(Note),
}
