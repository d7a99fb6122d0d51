//! Proves that files go to the holder of the phrase, within its limits, and to no guesser.
//!
//! Two ends in memory, a keeper and its receivers; time is a number. What is sealed for one
//! receiver is tried by others.

use strsim::levenshtein;
use thalweg_base::id::{NodeId, StreamId};
use thalweg_base::time::{Duration, Instant};
use thalweg_transfer::TransferId;
use thalweg_transfer::meeting::{Ask, Refusal, Said};

use super::Phrase;
use super::keeper::{Admitted, Keeper, WRONG_MAX};
use super::proof::{Half, Keys, Pair};
use super::words::WORDS;

const SENDER: NodeId = NodeId([1; 32]);
const ID: TransferId = TransferId([7; 16]);
const ROAD: TransferId = TransferId([9; 16]);
const UNTIL: Instant = Instant::from_nanos(1_000);

fn phrase(text: &str) -> Phrase {
    text.parse().expect("a phrase")
}

fn right() -> Phrase {
    phrase("7-otter-lantern")
}

fn keeper(uses: usize) -> Keeper {
    Keeper::new(right(), SENDER, ID, uses, UNTIL)
}

/// A receiver with a phrase.
struct Guest {
    pair: Pair,
    half: Option<Half>,
    hello: Ask,
    keys: Option<Keys>,
}

impl Guest {
    fn new(node: u8, stream: u64, phrase: &Phrase) -> Self {
        let pair = Pair {
            sender: SENDER,
            receiver: NodeId([node; 32]),
            asks: StreamId(stream),
        };
        let (half, hello) = Half::of_receiver(phrase, pair);
        Self {
            pair,
            half: Some(half),
            hello: Ask::Hello(hello),
            keys: None,
        }
    }

    fn ask(
        &self,
        keeper: &mut Keeper,
        now: Instant,
        ask: &Ask,
    ) -> (Option<Said>, Option<Admitted>) {
        keeper.handle_ask(now, self.pair.receiver, self.pair.asks, ask, ROAD)
    }

    /// Runs the whole exchange; returns the last answer.
    fn meet(&mut self, keeper: &mut Keeper, now: Instant) -> (Option<Said>, Option<Admitted>) {
        let (reply, none) = self.ask(keeper, now, &self.hello);
        assert!(none.is_none(), "a hello admits nobody");
        let Some(Said::Hello(message)) = reply else {
            return (reply, None);
        };
        let half = self.half.take().expect("one exchange a guest");
        let keys = half.finish(&message).expect("a message of the other side");
        let proof = Ask::Proof(keys.proof());
        self.keys = Some(keys);
        self.ask(keeper, now, &proof)
    }
}

fn refused(reply: Option<Said>) -> Refusal {
    match reply {
        Some(Said::Refused(refusal)) => refusal,
        other => panic!("not refused: {other:?}"),
    }
}

#[test]
fn right_phrase_opens_parcels() {
    let mut keeper = keeper(1);
    let mut guest = Guest::new(2, 5, &right());
    let (reply, admitted) = guest.meet(&mut keeper, Instant::ZERO);
    let Some(Said::Admitted(sealed)) = reply else {
        panic!("{reply:?}");
    };
    let keys = guest.keys.expect("it has met");
    assert_eq!(keys.admitted(&sealed), Some((ROAD, ID)));
    let mut admitted = admitted.expect("it is");
    let (opener, mut of_another) = (keys.opener(), Guest::new(3, 6, &right()));
    let parcels = [&b"one"[..], b"", b"one"];
    let sealed = parcels.map(|parcel| admitted.sealer.seal(parcel));
    for (sealed, parcel) in sealed.iter().zip(parcels) {
        assert_eq!(opener.open(sealed).as_deref(), Some(parcel));
        let mut changed = sealed.to_vec();
        for place in 0..changed.len() {
            changed[place] ^= 1;
            assert_eq!(opener.open(&changed), None, "a changed byte is noticed");
            changed[place] ^= 1;
        }
    }
    assert_ne!(sealed[0], sealed[2], "no nonce is used twice");
    // The same phrase yields another key in another exchange.
    let mut other = Keeper::new(right(), SENDER, ID, 1, UNTIL);
    of_another.meet(&mut other, Instant::ZERO);
    let keys = of_another.keys.expect("it has met");
    assert_eq!(keys.opener().open(&sealed[0]), None);
}

#[test]
fn third_wrong_phrase_ends_all() {
    let mut keeper = keeper(1);
    let early = Guest::new(9, 90, &right());
    let (reply, _) = early.ask(&mut keeper, Instant::ZERO, &early.hello);
    assert!(matches!(reply, Some(Said::Hello(_))));
    for (stream, left) in (0..).zip((0..WRONG_MAX).rev()) {
        let mut guest = Guest::new(2, stream, &phrase("7-otter-zebra"));
        let (reply, admitted) = guest.meet(&mut keeper, Instant::ZERO);
        let expected = match left {
            0 => Refusal::Dead,
            left => Refusal::Wrong(left),
        };
        assert_eq!(refused(reply), expected);
        assert!(admitted.is_none());
    }
    assert!(!keeper.is_open(Instant::ZERO));
    assert_eq!(keeper.guessers(), [NodeId([2; 32]); 3]);
    let (reply, admitted) = Guest::new(4, 40, &right()).meet(&mut keeper, Instant::ZERO);
    assert_eq!(refused(reply), Refusal::Dead);
    assert!(admitted.is_none());
}

#[test]
fn one_exchange_tries_one_phrase() {
    let mut keeper = keeper(1);
    let mut guest = Guest::new(2, 5, &phrase("7-zebra-otter"));
    let (reply, _) = guest.meet(&mut keeper, Instant::ZERO);
    assert_eq!(refused(reply), Refusal::Wrong(WRONG_MAX - 1));
    for proof in [[0; 32], [1; 32]] {
        let (reply, _) = guest.ask(&mut keeper, Instant::ZERO, &Ask::Proof(proof));
        assert_eq!(
            refused(reply),
            Refusal::Wrong(WRONG_MAX - 1),
            "the verdict stands"
        );
    }
    let again = Guest::new(2, 5, &right());
    let (reply, _) = again.ask(&mut keeper, Instant::ZERO, &again.hello);
    assert_eq!(reply, None, "one stream asks once");
    assert!(keeper.is_open(Instant::ZERO));
}

#[test]
fn refused_use_is_given_back() {
    let mut keeper = keeper(1);
    let (_, admitted) = Guest::new(2, 5, &right()).meet(&mut keeper, Instant::ZERO);
    assert!(admitted.is_some());
    let (reply, _) = Guest::new(3, 6, &right()).meet(&mut keeper, Instant::ZERO);
    assert_eq!(refused(reply), Refusal::Used);
    // An interrupted receiver returns, even after the expiry.
    let (_, admitted) = Guest::new(2, 7, &right()).meet(&mut keeper, UNTIL);
    assert!(admitted.is_some());
    keeper.handle_refused(NodeId([2; 32]));
    let (_, admitted) = Guest::new(3, 8, &right()).meet(&mut keeper, Instant::ZERO);
    assert!(admitted.is_some());
}

#[test]
fn expired_phrase_admits_none() {
    let mut keeper = keeper(2);
    let before = UNTIL - Duration::from_nanos(1);
    let (_, admitted) = Guest::new(2, 5, &right()).meet(&mut keeper, before);
    assert!(admitted.is_some());
    let (reply, _) = Guest::new(3, 6, &right()).meet(&mut keeper, UNTIL);
    assert_eq!(refused(reply), Refusal::Expired);
    assert!(keeper.is_open(before) && !keeper.is_open(UNTIL));
}

#[test]
fn replayed_exchange_is_refused() {
    // A node in between presents the receiver's messages as its own.
    let mut keeper = keeper(1);
    let mut guest = Guest::new(2, 5, &right());
    let between = (NodeId([6; 32]), StreamId(66));
    let (reply, _) = keeper.handle_ask(Instant::ZERO, between.0, between.1, &guest.hello, ROAD);
    let Some(Said::Hello(message)) = reply else {
        panic!("{reply:?}");
    };
    let half = guest.half.take().expect("it is new");
    let proof = half.finish(&message).expect("a message").proof();
    let (reply, admitted) = keeper.handle_ask(
        Instant::ZERO,
        between.0,
        between.1,
        &Ask::Proof(proof),
        ROAD,
    );
    assert!(admitted.is_none());
    assert_eq!(refused(reply), Refusal::Wrong(WRONG_MAX - 1));
}

#[test]
fn invalid_hello_is_ignored() {
    let mut keeper = keeper(1);
    for hello in [[0; 33], [255; 33]] {
        let reply = keeper.handle_ask(
            Instant::ZERO,
            NodeId([2; 32]),
            StreamId(5),
            &Ask::Hello(hello),
            ROAD,
        );
        assert!(reply.0.is_none() && reply.1.is_none());
    }
    assert!(keeper.is_open(Instant::ZERO));
}

#[test]
fn phrase_parses_as_typed() {
    for text in ["7-otter-lantern", " 7 Otter  LANTERN ", "07-otter lantern"] {
        assert_eq!(phrase(text), right(), "{text}");
    }
    assert_eq!(right().to_string(), "7-otter-lantern");
    assert!(!format!("{:?}", right()).contains("otter"), "no log has it");
    let cases = [
        ("", "a number and two words"),
        ("7-otter", "a number and two words"),
        ("0-otter-lantern", "from 1 to 999"),
        ("1000-otter-lantern", "from 1 to 999"),
        ("otter-7-lantern", "from 1 to 999"),
        ("7-otter-lantren", "is it `lantern`?"),
        ("7-otter-\u{1b}[2J", "`\\u{1b}[2j` is no word of a phrase"),
    ];
    for (text, sentence) in cases {
        let error = text.parse::<Phrase>().expect_err(text).to_string();
        assert!(error.contains(sentence), "{error}");
    }
}

#[test]
fn one_typo_makes_no_other_word() {
    assert!(WORDS.is_sorted());
    for (place, word) in WORDS.iter().enumerate() {
        assert!((4..=8).contains(&word.len()) && word.bytes().all(|c| c.is_ascii_lowercase()));
        for other in &WORDS[..place] {
            assert!(levenshtein(word, other) > 1, "{word} and {other}");
        }
    }
}

#[test]
fn drawn_number_is_free() {
    let taken: Vec<u16> = (1..=99).filter(|number| *number != 42).collect();
    let drawn = Phrase::draw(&taken).expect("one is free");
    assert_eq!(drawn.number(), 42);
    assert_eq!(phrase(&drawn.to_string()), drawn);
    let taken: Vec<u16> = (1..=999).filter(|number| *number != 500).collect();
    assert_eq!(Phrase::draw(&taken).expect("one is free").number(), 500);
    let taken: Vec<u16> = (1..=999).collect();
    assert!(Phrase::draw(&taken).is_none());
}
