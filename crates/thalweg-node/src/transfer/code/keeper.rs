//! The limits of a phrase: which requests are answered, how many wrong tries are allowed, and when
//! it is over.
//!
//! *The idea.* A state machine without sockets: requests in, answers and admitted receivers out. It
//! counts proofs, since only a proof tries a phrase. The same request gets the same answer, so both
//! can be repeated after any loss.
//!
//! ```text
//! hello ─► session with keys ─► answer hello ─► proof ─┬─► right: admitted; one use per node
//!                                                      └─► wrong: counted; the third ends the phrase
//! ```
//!
//! *What it does not do.* It sends no files.

use std::collections::{BTreeMap, BTreeSet};

use thalweg_base::id::{NodeId, StreamId};
use thalweg_base::time::Instant;
use thalweg_transfer::TransferId;
use thalweg_transfer::meeting::{Ask, PAKE_BYTES, PROOF_BYTES, Refusal, Said};

use super::Phrase;
use super::proof::{Half, Keys, Pair, Sealer};

/// Maximum number of wrong phrases: of 65,536 phrases, a guesser has a chance of one in 21,845.
pub(super) const WRONG_MAX: u8 = 3;

/// Maximum number of sessions; further receivers wait until one has gone.
const SESSIONS_MAX: usize = 64;

/// The state of a phrase.
pub(super) struct Keeper {
    phrase: Phrase,
    own: NodeId,
    id: TransferId,
    uses: usize,
    /// Until when new receivers are admitted.
    until: Instant,
    wrong: u8,
    /// The receivers with wrong phrases, in order.
    guessers: Vec<NodeId>,
    sessions: BTreeMap<StreamId, Session>,
    admitted: BTreeSet<NodeId>,
}

struct Session {
    receiver: NodeId,
    hello: [u8; PAKE_BYTES],
    /// The answer to `hello`.
    own_hello: [u8; PAKE_BYTES],
    keys: Keys,
    /// The answer to the first proof; later proofs get the same.
    verdict: Option<Said>,
}

/// A receiver that has proved the phrase.
pub(super) struct Admitted {
    pub(super) receiver: NodeId,
    /// The random id by which its streams are named.
    pub(super) public_id: TransferId,
    pub(super) sealer: Sealer,
}

impl Keeper {
    /// Returns the keeper of a phrase for `uses` receivers.
    pub(super) fn new(
        phrase: Phrase,
        own: NodeId,
        id: TransferId,
        uses: usize,
        until: Instant,
    ) -> Self {
        Self {
            phrase,
            own,
            id,
            uses,
            until,
            wrong: 0,
            guessers: Vec::new(),
            sessions: BTreeMap::new(),
            admitted: BTreeSet::new(),
        }
    }

    /// Handles a receiver's request on its stream; returns the answer, and the receiver if it is
    /// admitted now.
    ///
    /// `public_id` is drawn for each request; an admitted receiver gets it.
    ///
    /// Cost    three scalar multiplications on the curve for a new hello
    pub(super) fn handle_ask(
        &mut self,
        now: Instant,
        receiver: NodeId,
        asks: StreamId,
        ask: &Ask,
        public_id: TransferId,
    ) -> (Option<Said>, Option<Admitted>) {
        match ask {
            Ask::Hello(hello) => (self.handle_hello(now, receiver, asks, hello), None),
            Ask::Proof(proof) => self.handle_proof(now, asks, proof, public_id),
        }
    }

    fn handle_proof(
        &mut self,
        now: Instant,
        asks: StreamId,
        proof: &[u8; PROOF_BYTES],
        public_id: TransferId,
    ) -> (Option<Said>, Option<Admitted>) {
        let Some(session) = self.sessions.get(&asks) else {
            return (None, None);
        };
        if let Some(verdict) = &session.verdict {
            return (Some(verdict.clone()), None);
        }
        let receiver = session.receiver;
        if let Some(refusal) = self.refusal(now, receiver) {
            return (Some(Said::Refused(refusal)), None);
        }
        let (reply, admitted) = if session.keys.is_proved_by(proof) {
            self.admitted.insert(receiver);
            let admitted = Admitted {
                receiver,
                public_id,
                sealer: session.keys.sealer(),
            };
            let reply = Said::Admitted(session.keys.admit(public_id, self.id));
            (reply, Some(admitted))
        } else {
            self.wrong += 1;
            self.guessers.push(receiver);
            let refusal = match self.tries_left() {
                0 => Refusal::Dead,
                left => Refusal::Wrong(left),
            };
            (Said::Refused(refusal), None)
        };
        if let Some(session) = self.sessions.get_mut(&asks) {
            session.verdict = Some(reply.clone());
        }
        (Some(reply), admitted)
    }

    /// Returns the number of wrong tries left.
    pub(super) const fn tries_left(&self) -> u8 {
        WRONG_MAX.saturating_sub(self.wrong)
    }

    fn handle_hello(
        &mut self,
        now: Instant,
        receiver: NodeId,
        asks: StreamId,
        hello: &[u8; PAKE_BYTES],
    ) -> Option<Said> {
        if let Some(session) = self.sessions.get(&asks)
            && session.hello == *hello
        {
            return Some(Said::Hello(session.own_hello));
        }
        if let Some(refusal) = self.refusal(now, receiver) {
            return Some(Said::Refused(refusal));
        }
        // One exchange per stream: a second hello would be another try after the verdict.
        if self.sessions.contains_key(&asks) || self.sessions.len() >= SESSIONS_MAX {
            return None;
        }
        let pair = Pair {
            sender: self.own,
            receiver,
            asks,
        };
        let (half, own_hello) = Half::of_sender(&self.phrase, pair);
        let session = Session {
            receiver,
            hello: *hello,
            own_hello,
            keys: half.finish(hello)?,
            verdict: None,
        };
        self.sessions.insert(asks, session);
        Some(Said::Hello(own_hello))
    }

    /// Returns why this receiver is not admitted any more, if so.
    fn refusal(&self, now: Instant, receiver: NodeId) -> Option<Refusal> {
        if self.is_dead() {
            return Some(Refusal::Dead);
        }
        // An admitted receiver that was interrupted may return, even after the expiry.
        if self.admitted.contains(&receiver) {
            return None;
        }
        if self.admitted.len() >= self.uses {
            return Some(Refusal::Used);
        }
        (now >= self.until).then_some(Refusal::Expired)
    }

    /// Removes the session of a receiver that has closed its stream.
    pub(super) fn handle_gone(&mut self, asks: StreamId) {
        self.sessions.remove(&asks);
    }

    /// Gives an admitted receiver's use back, since it took nothing.
    pub(super) fn handle_refused(&mut self, receiver: NodeId) {
        self.admitted.remove(&receiver);
    }

    /// Returns whether too many wrong phrases were tried.
    pub(super) const fn is_dead(&self) -> bool {
        self.tries_left() == 0
    }

    /// Returns the receivers with wrong phrases.
    pub(super) fn guessers(&self) -> &[NodeId] {
        &self.guessers
    }

    /// Returns whether new receivers can still be admitted.
    pub(super) fn is_open(&self, now: Instant) -> bool {
        !self.is_dead() && now < self.until && self.admitted.len() < self.uses
    }
}
