//! Proves that numbers rise, that each is found until it has ended, and that a table which was full
//! of old ones skips theirs.

use super::*;
use crate::relay::plans::Seat;
use crate::relay::sendings::{Sending, Sendings};

fn sending(via: u32) -> Sending<u32> {
    Sending {
        seat: Seat::FIRST,
        band: None,
        came: Mark::NONE,
        mark: Mark::NONE,
        is_ordered: false,
        is_void: false,
        via: Some(via),
    }
}

#[test]
fn number_is_found_until_it_ends() {
    let mut sendings = Sendings::default();
    // Every third stays under way.
    let mut kept = Vec::new();
    let mut last = None;
    for via in 0..5_000 {
        let number = sendings.insert(sending(via));
        assert!(last < Some(number), "numbers rise");
        last = Some(number);
        if via % 3 == 0 {
            kept.push((number, via));
        } else {
            let ended = sendings.remove(number).expect("it is under way");
            assert_eq!(ended.via, Some(via));
            assert!(sendings.remove(number).is_none(), "twice");
        }
    }
    assert_eq!(sendings.len(), kept.len());
    let all: Vec<SendNumber> = kept.iter().map(|(number, _)| *number).collect();
    assert_eq!(sendings.of(Seat::FIRST), all);
    for (number, via) in kept {
        let found = sendings.get_mut(number).expect("it is under way");
        assert_eq!(found.via, Some(via));
        assert!(sendings.remove(number).is_some());
    }
    assert_eq!(sendings.len(), 0);
    assert!(sendings.get_mut(SendNumber(0)).is_none());
    assert!(sendings.insert(sending(0)) > last.expect("there were some"));
}
