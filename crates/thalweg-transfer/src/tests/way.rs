//! A path between a sender and receivers with the faults of a bad network, and crashes.

use alloc::collections::VecDeque;
use alloc::string::ToString as _;
use alloc::vec;
use alloc::vec::Vec;

use bytes::Bytes;
use proptest::prelude::*;
use thalweg_base::id::{NodeId, StreamId};
use thalweg_base::random::SplitMix;
use thalweg_base::time::{Duration, Instant};
use thalweg_base::units::Ratio;

use super::{bytes, manifest_of};
use crate::sender::{Next, Outcome};
use crate::{Have, Manifest, Parcel, Receipt, Receiver, Sender, Taken};

/// The faults of the path.
#[derive(Clone, Copy, Debug)]
struct Luck {
    lost: f64,
    twice: f64,
    swapped: f64,
    corrupt: f64,
    /// Per turn.
    crash: f64,
}

/// A receiver with its disk, which survives crashes.
struct End {
    node: NodeId,
    receiver: Receiver,
    disk: Vec<u8>,
    /// Its stored manifest.
    kept: Option<Manifest>,
    inbound: VecDeque<(StreamId, u64, Bytes)>,
    outbound: VecDeque<Bytes>,
    whole: bool,
}

struct World {
    manifest: Manifest,
    encoded: Vec<u8>,
    file: Vec<u8>,
    sender: Sender,
    stream: StreamId,
    sequence: u64,
    ends: Vec<End>,
    now: Instant,
    rng: SplitMix,
    luck: Luck,
    /// Faults and crashes happen only before this turn, so that every run ends.
    calm: Instant,
}

const STEP: Duration = Duration::from_millis(50);

impl World {
    fn new(size: usize, targets: u8, seed: u64, luck: Luck) -> Self {
        let file = bytes(size, seed);
        let manifest = manifest_of(&[("file", &file)], 1024);
        let mut encoded = Vec::new();
        manifest.encode(&mut encoded);
        let stream = StreamId(1);
        let end = |number| {
            let node = NodeId([number; 32]);
            End {
                node,
                receiver: Receiver::new(manifest.id(), node, stream),
                disk: vec![0; size],
                kept: None,
                inbound: VecDeque::new(),
                outbound: VecDeque::new(),
                whole: false,
            }
        };
        let mut world = Self {
            sender: Sender::new(
                manifest.layout().clone(),
                encoded.len() as u64,
                targets.into(),
                None,
            ),
            stream,
            sequence: 0,
            ends: (0..targets).map(end).collect(),
            now: Instant::ZERO,
            rng: SplitMix::new(seed),
            luck,
            calm: Instant::ZERO + Duration::from_secs(60),
            manifest,
            encoded,
            file,
        };
        world.sender.handle_stream(world.now, stream);
        world
    }

    fn happens(&mut self, share: f64) -> bool {
        let share = if self.now < self.calm { share } else { 0.0 };
        self.rng.next_bool(Ratio::new(share).expect("a share"))
    }

    /// Plays until all receivers have everything; returns whether they do.
    fn play(&mut self) -> bool {
        let end = self.now + Duration::from_secs(600);
        while !self.sender.is_over() {
            if self.now >= end {
                return false;
            }
            self.crash();
            self.send();
            for number in 0..self.ends.len() {
                self.arrive(number);
                self.answer(number);
            }
            self.now = self.now + STEP;
        }
        true
    }

    fn crash(&mut self) {
        if self.happens(self.luck.crash) {
            match self.rng.next_below(3) {
                0 => self.restart_sender(),
                1 => {
                    let number = self.rng.next_below(self.ends.len() as u64) as usize;
                    self.restart_receiver(number);
                }
                // A relay crashes: everything in flight is lost.
                _ => self.ends.iter_mut().for_each(|end| end.inbound.clear()),
            }
        }
    }

    /// A restarted sender may choose another block size.
    fn restart_sender(&mut self) {
        let block_bytes = 1024 << self.rng.next_below(3);
        self.manifest = manifest_of(&[("file", &self.file)], block_bytes);
        self.encoded.clear();
        self.manifest.encode(&mut self.encoded);
        let layout = self.manifest.layout().clone();
        self.sender = Sender::new(layout, self.encoded.len() as u64, self.ends.len(), None);
        self.stream = StreamId(self.stream.0 + 1);
        self.sequence = 0;
        self.sender.handle_stream(self.now, self.stream);
    }

    fn restart_receiver(&mut self, number: usize) {
        let (now, stream) = (self.now, self.stream);
        let end = &mut self.ends[number];
        end.receiver = Receiver::new(self.manifest.id(), end.node, stream);
        if let Some(kept) = end.kept.clone() {
            assert!(end.receiver.handle_manifest(kept.clone()));
            end.receiver.begin(now, verify(&kept, &end.disk));
        }
    }

    /// Lets the sender send a few parcels, the capacity of the path in a turn.
    fn send(&mut self) {
        for _ in 0..8 {
            let Some(next) = self.sender.poll_next(self.now) else {
                return;
            };
            let parcel = self.parcel(&next);
            let payload = Bytes::from(parcel.encode());
            let sequence = self.sequence;
            self.sequence += 1;
            for number in 0..self.ends.len() {
                if self.happens(self.luck.lost) {
                    continue;
                }
                let mut payload = payload.clone();
                if self.happens(self.luck.corrupt) {
                    let mut other = payload.to_vec();
                    let place = self.rng.next_below(other.len() as u64) as usize;
                    other[place] ^= 1 << self.rng.next_below(8);
                    payload = other.into();
                }
                let copies = if self.happens(self.luck.twice) { 2 } else { 1 };
                let swaps = self.happens(self.luck.swapped);
                let inbound = &mut self.ends[number].inbound;
                for _ in 0..copies {
                    inbound.push_back((self.stream, sequence, payload.clone()));
                }
                if let (true, [.., a, b]) = (swaps, inbound.make_contiguous()) {
                    core::mem::swap(a, b);
                }
            }
        }
    }

    fn parcel(&self, next: &Next) -> Parcel {
        match next {
            Next::Offer => Parcel::Offer {
                block_shift: self.manifest.layout().block_bytes().trailing_zeros() as u8,
                manifest_bytes: self.encoded.len() as u64,
                bytes: self.file.len() as u64,
                targets: self.ends.iter().map(|end| end.node).collect(),
            },
            Next::Manifest(part) => Parcel::Manifest {
                offset: part.start,
                bytes: self.encoded[part.start as usize..part.end as usize]
                    .to_vec()
                    .into(),
            },
            Next::Block(block) => {
                let place = self.manifest.layout().place(*block).expect("in range");
                let bytes = &self.file[place.offset as usize..][..place.bytes];
                Parcel::Block {
                    block: *block,
                    bytes: bytes.to_vec().into(),
                }
            }
        }
    }

    fn arrive(&mut self, number: usize) {
        let now = self.now;
        let end = &mut self.ends[number];
        for (stream, sequence, payload) in end.inbound.drain(..) {
            end.receiver.handle_stream(now, stream);
            match end.receiver.handle_parcel(now, sequence, &payload) {
                Ok(Taken::Manifest) => {
                    let manifest = end.receiver.manifest().expect("has arrived").clone();
                    end.receiver.begin(now, verify(&manifest, &end.disk));
                    end.kept = Some(manifest);
                }
                Ok(Taken::Block {
                    block,
                    place,
                    bytes,
                }) => {
                    end.disk[place.offset as usize..][..place.bytes].copy_from_slice(&bytes);
                    end.receiver.handle_written(block);
                }
                // A corrupt parcel may be anything.
                _ => {}
            }
        }
        if end.receiver.is_whole() && !end.whole {
            end.whole = true;
            end.receiver.finish(now);
        } else if end.whole {
            end.receiver.finish(now);
        }
    }

    fn answer(&mut self, number: usize) {
        if let Some(receipt) = self.ends[number].receiver.poll_receipt(self.now)
            && !self.happens(self.luck.lost)
        {
            let payload = Bytes::from(receipt.encode());
            self.ends[number].outbound.push_back(payload);
        }
        while let Some(payload) = self.ends[number].outbound.pop_front() {
            let receipt = Receipt::decode(&payload).expect("is complete");
            self.sender.handle_receipt(self.now, number, receipt);
        }
    }

    fn check(&self) {
        for (number, end) in self.ends.iter().enumerate() {
            assert_eq!(self.sender.outcome(number), Some(&Outcome::Whole));
            assert!(end.disk == self.file, "receiver {number} has another file");
        }
    }
}

/// Compares a disk with the hashes, as a driver does.
fn verify(manifest: &Manifest, disk: &[u8]) -> Have {
    let mut have = Have::none(manifest.layout().blocks());
    for block in 0..manifest.layout().blocks() {
        let place = manifest.layout().place(block).expect("in range");
        if manifest.is_block(block, &disk[place.offset as usize..][..place.bytes]) {
            have.insert(block);
        }
    }
    have
}

const GOOD: Luck = Luck {
    lost: 0.0,
    twice: 0.0,
    swapped: 0.0,
    corrupt: 0.0,
    crash: 0.0,
};

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn file_arrives_intact_despite_faults(
        seed in any::<u64>(),
        size in 0_usize..200_000,
        targets in 1_u8..4,
        lost in 0.0..0.4,
        twice in 0.0..0.3,
        swapped in 0.0..0.3,
        corrupt in 0.0..0.1,
        crash in 0.0..0.1,
    ) {
        let luck = Luck { lost, twice, swapped, corrupt, crash };
        let mut world = World::new(size, targets, seed, luck);
        prop_assert!(world.play(), "not in time: {:?}", world.sender.progress());
        world.check();
    }

    #[test]
    fn good_path_sends_no_block_twice(seed in any::<u64>(), size in 0_usize..200_000, targets in 1_u8..4) {
        let mut world = World::new(size, targets, seed, GOOD);
        prop_assert!(world.play());
        world.check();
        prop_assert_eq!(world.sender.progress().given, size as u64);
    }
}

#[test]
fn only_lost_blocks_are_resent() {
    let mut world = World::new(100 * 1024, 1, 7, GOOD);
    while world.sender.progress().given < 40 * 1024 {
        world.send();
        world.arrive(0);
        world.answer(0);
        world.now = world.now + STEP;
    }
    world.send();
    let lost: u64 = world.ends[0]
        .inbound
        .iter()
        .map(|(_, _, payload)| payload.len() as u64 / 1024)
        .sum();
    assert!(lost > 0, "nothing was in flight");
    world.ends[0].inbound.clear();
    assert!(world.play(), "{:?}", world.sender.progress());
    world.check();
    assert_eq!(world.sender.progress().given, (100 + lost) * 1024);
}

#[test]
fn late_receiver_gets_missing_blocks() {
    let mut world = World::new(50 * 1024, 2, 9, GOOD);
    // The second receiver receives nothing for a while.
    for _ in 0..400 {
        world.send();
        world.ends[1].inbound.clear();
        world.arrive(0);
        world.answer(0);
        world.now = world.now + STEP;
    }
    assert_eq!(world.sender.outcome(0), Some(&Outcome::Whole));
    assert!(world.play(), "{:?}", world.sender.progress());
    world.check();
}

#[test]
fn refusal_holds_up_no_other() {
    let mut world = World::new(50 * 1024, 2, 9, GOOD);
    world.ends[1]
        .receiver
        .refuse(Instant::ZERO, "no room".to_string());
    assert!(world.play());
    assert_eq!(world.sender.outcome(0), Some(&Outcome::Whole));
    let refused = Outcome::Refused("no room".to_string());
    assert_eq!(world.sender.outcome(1), Some(&refused));
}

#[test]
fn corrupting_node_is_detected() {
    let mut world = World::new(
        300 * 1024,
        1,
        3,
        Luck {
            corrupt: 1.0,
            ..GOOD
        },
    );
    world.calm = Instant::NEVER;
    world.play();
    // Either nothing valid arrives, or the receiver gives up; never a wrong file.
    assert!(!world.ends[0].whole);
}
