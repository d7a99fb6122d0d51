//! Proves that passing an ADU allocates nothing once the lift is warm, with a counting allocator.
//!
//! Measured from the copy into a pooled packet, through the lift, to the drop of the output. Rust's
//! global allocator is counted; zstd and AWS-LC allocate their C contexts when the module is made,
//! outside the path. [`Packet::into_bytes`] of a pooled payload is the one documented exception:
//! one small cell inside `Bytes`.
#![expect(unsafe_code, reason = "a global allocator is an unsafe trait")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use thalweg_base::adu::Header;
use thalweg_base::id::{Sequence, StreamId};
use thalweg_base::time::Instant;
use thalweg_dataplane::keys::{KeyEpoch, KeyRing, SealInstance, StreamKey};
use thalweg_dataplane::lift::{Lift, Materials};
use thalweg_dataplane::packet::{Packet, Pool};

struct Counting;

static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);

// SAFETY: every call is handed to the system's allocator unchanged; counting touches no memory of
// theirs.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the caller keeps the contract of `GlobalAlloc::alloc`, which is the system
        // allocator's own.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: `memory` came from `System.alloc` above with this layout.
        unsafe { System.dealloc(memory, layout) }
    }
}

#[global_allocator]
static GLOBAL: Counting = Counting;

const STREAM: StreamId = StreamId(1);
const WARM_UP_ADUS: u64 = 300;
const COUNTED_ADUS: u64 = 1000;

/// Lengths of every size class up to 1 MiB, so that each class is warm.
const LENGTHS_BYTES: [usize; 5] = [64, 1_000, 10_000, 60_000, 300_000];

fn lift(words: &[&str], pool: &Pool) -> Lift {
    let mut materials = Materials {
        stream: STREAM,
        keys: KeyRing::with_key(KeyEpoch(0), StreamKey::new([7; 32])),
        instance: SealInstance::from_random(1),
    };
    Lift::from_spec(words.iter().copied(), &mut materials, pool.clone())
        .expect("all words are known")
}

/// Passes ADUs of every length and returns the number of allocations in the second, warm part.
fn allocations_of(words: &[&str], mut leave: impl FnMut(Packet)) -> u64 {
    let pool = Pool::default();
    let mut lift = lift(words, &pool);
    let payload: Vec<u8> = (0..300_000u32).map(|n| (n / 7) as u8).collect();
    let mut run = |sequences: std::ops::Range<u64>| {
        for sequence in sequences {
            let len = LENGTHS_BYTES[sequence as usize % LENGTHS_BYTES.len()];
            let mut header = Header::new(STREAM, Sequence(sequence));
            header.layer = (sequence % 4) as u8;
            let packet = Packet::copied(header, &payload[..len], &pool).expect("there is room");
            lift.handle_forward(packet, Instant::ZERO)
                .expect("nothing waits");
            while let Some(packet) = lift.poll_forward() {
                leave(packet);
            }
        }
    };
    run(0..WARM_UP_ADUS);
    let before = ALLOCATIONS.load(Ordering::Relaxed);
    run(WARM_UP_ADUS..WARM_UP_ADUS + COUNTED_ADUS);
    ALLOCATIONS.load(Ordering::Relaxed) - before
}

// One test, since the counter is global to the process.
#[test]
fn warm_lift_allocates_nothing() {
    let chains: [&[&str]; 9] = [
        &[],
        &["null"; 10],
        &["keep:3"],
        &["pack", "unpack"],
        &["pack:zstd", "unpack"],
        &["seal"],
        &["seal", "open"],
        &["seal:chacha20", "open"],
        &["keep:3", "pack:zstd", "seal", "open", "unpack"],
    ];
    for words in chains {
        assert_eq!(allocations_of(words, drop), 0, "{words:?}");
    }
    let out = allocations_of(&["null"], |packet| drop(packet.into_bytes()));
    assert_eq!(
        out, COUNTED_ADUS,
        "one cell inside `Bytes` for a pooled payload"
    );
    assert_eq!(
        forwarded_shared(),
        0,
        "an untouched shared payload costs nothing"
    );
}

fn forwarded_shared() -> u64 {
    let pool = Pool::default();
    let mut lift = lift(&["keep:3"], &pool);
    let payload = Bytes::from(vec![1; 60_000]);
    // Bytes made from a vector allocate their reference count on the first clone only.
    drop(payload.clone());
    let before = ALLOCATIONS.load(Ordering::Relaxed);
    for sequence in 0..COUNTED_ADUS {
        let header = Header::new(STREAM, Sequence(sequence));
        lift.handle_forward(Packet::shared(header, payload.clone()), Instant::ZERO)
            .expect("nothing waits");
        let out = lift.poll_forward().map(Packet::into_bytes);
        assert!(out.is_some_and(|bytes| bytes.as_ptr() == payload.as_ptr()));
    }
    ALLOCATIONS.load(Ordering::Relaxed) - before
}
