//! Proves the kinds of frames, and that unknown kinds are rejected alone.

use super::{Message, Said, decode, encode};
use crate::id::{Epoch, StreamId};
use crate::wire::WireError;
use crate::wire::receipt::Advice;

#[test]
fn doubt_has_its_own_kind() {
    for (kind, is_doubt) in [(6, false), (11, true)] {
        let advice = Advice {
            stream: StreamId(3),
            epoch: Epoch(2),
            distance: 5,
            is_doubt,
        };
        let frame = [kind, 0, 0, 0, 0, 0, 0, 0, 3, 2, 5];
        assert_eq!(encode(&Message::Advice(advice)), frame);
        assert_eq!(decode(&frame), Ok(Message::Advice(advice)));
        let branch = decode(&[&[7, 1][..], &frame].concat());
        let said = Said::Advice(advice);
        assert!(matches!(branch, Ok(Message::Branch(branch)) if branch.said == said));
    }
    // Earlier versions ignore it as this one ignores unknown kinds, alone or of a grafted plan.
    assert_eq!(decode(&[14, 0]), Err(WireError::Kind(14)));
    assert_eq!(decode(&[7, 1, 14, 0]), Err(WireError::Kind(14)));
}
