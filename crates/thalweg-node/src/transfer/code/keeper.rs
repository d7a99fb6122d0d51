//! Who keeps a phrase: what it answers to whom, how often it bears a wrong one, when it has done.
//!
//! *The idea.* A machine without a socket: asks in, answers out, and who has proved the phrase. It counts proofs, for only
//! those try a phrase. The same ask has the same answer, so both can be said again at any loss.
//!
//! ```text
//! ask hello ─► session with keys ─► answer hello ─► ask proof ─► right: admitted, a use   (again: by the same node, none)
//!                                                          └──► wrong: counted; the third one ends it for all
//! ```
//!
//! *What it does not do.* It sends no file.

use std::collections::{BTreeMap, BTreeSet};

use thalweg_core::id::{NodeId, StreamId};
use thalweg_core::time::Instant;
use thalweg_core::transfer::TransferId;
use thalweg_core::transfer::meeting::{Ask, PAKE_BYTES, PROOF_BYTES, Refusal, Said};

use super::Phrase;
use super::proof::{Half, Keys, Pair, Sealer};

/// Wrong phrases that are borne: with 65,536 of them, who guesses has a chance of one in 21,845.
pub(super) const WRONG_MAX: u8 = 3;

/// Who may ask at once; further ones have to wait until somebody has gone.
const SESSIONS_MAX: usize = 64;

/// Keeps a phrase.
pub(super) struct Keeper {
    phrase: Phrase,
    own: NodeId,
    id: TransferId,
    uses: usize,
    /// When nobody is admitted any more who was not.
    until: Instant,
    wrong: u8,
    /// Who had wrong ones, as they came.
    guessers: Vec<NodeId>,
    sessions: BTreeMap<StreamId, Session>,
    admitted: BTreeSet<NodeId>,
}

struct Session {
    receiver: NodeId,
    hello: [u8; PAKE_BYTES],
    /// What is answered to that.
    own_hello: [u8; PAKE_BYTES],
    keys: Keys,
    /// What was answered to its proof, whatever it says later.
    verdict: Option<Said>,
}

/// Somebody has proved the phrase.
pub(super) struct Admitted {
    pub(super) receiver: NodeId,
    /// What its streams are named by.
    pub(super) road: TransferId,
    pub(super) sealer: Sealer,
}

impl Keeper {
    /// Returns the keeper of a phrase for so many receivers.
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

    /// Takes what a receiver asks on its stream; returns what to answer, and whether it is admitted by that.
    ///
    /// `road` is drawn anew for each ask; who is admitted gets it.
    ///
    /// Cost    three multiplications on the curve for a hello that is new
    pub(super) fn handle_ask(
        &mut self,
        now: Instant,
        receiver: NodeId,
        asks: StreamId,
        ask: &Ask,
        road: TransferId,
    ) -> (Option<Said>, Option<Admitted>) {
        match ask {
            Ask::Hello(hello) => (self.greet(now, receiver, asks, hello), None),
            Ask::Proof(proof) => self.judge(now, asks, proof, road),
        }
    }

    fn judge(
        &mut self,
        now: Instant,
        asks: StreamId,
        proof: &[u8; PROOF_BYTES],
        road: TransferId,
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
        let (said, admitted) = if session.keys.is_proved_by(proof) {
            self.admitted.insert(receiver);
            let admitted = Admitted {
                receiver,
                road,
                sealer: session.keys.sealer(),
            };
            let said = Said::Admitted(session.keys.admit(road, self.id));
            (said, Some(admitted))
        } else {
            self.wrong += 1;
            self.guessers.push(receiver);
            let refusal = match self.left() {
                0 => Refusal::Dead,
                left => Refusal::Wrong(left),
            };
            (Said::Refused(refusal), None)
        };
        if let Some(session) = self.sessions.get_mut(&asks) {
            session.verdict = Some(said.clone());
        }
        (Some(said), admitted)
    }

    /// Returns how many wrong ones are borne yet.
    pub(super) const fn left(&self) -> u8 {
        WRONG_MAX.saturating_sub(self.wrong)
    }

    fn greet(
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
        // One stream asks once: another hello on it would be another try under a verdict that was given.
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

    /// Returns why nobody, or not this one, is admitted any more.
    fn refusal(&self, now: Instant, receiver: NodeId) -> Option<Refusal> {
        if self.is_dead() {
            return Some(Refusal::Dead);
        }
        // Who was admitted and was interrupted comes again, late or not.
        if self.admitted.contains(&receiver) {
            return None;
        }
        if self.admitted.len() >= self.uses {
            return Some(Refusal::Used);
        }
        (now >= self.until).then_some(Refusal::Expired)
    }

    /// Takes word that a receiver's stream is gone.
    pub(super) fn handle_gone(&mut self, asks: StreamId) {
        self.sessions.remove(&asks);
    }

    /// Takes word that somebody admitted took nothing: its use is another's.
    pub(super) fn handle_refused(&mut self, receiver: NodeId) {
        self.admitted.remove(&receiver);
    }

    /// Returns whether too many phrases were wrong.
    pub(super) const fn is_dead(&self) -> bool {
        self.left() == 0
    }

    /// Returns who had wrong ones.
    pub(super) fn guessers(&self) -> &[NodeId] {
        &self.guessers
    }

    /// Returns whether anybody can still be admitted who was not.
    pub(super) fn is_open(&self, now: Instant) -> bool {
        !self.is_dead() && now < self.until && self.admitted.len() < self.uses
    }
}
