//! Proves what kinds of frames say, and that what is unknown is passed over alone.

use super::{Message, Said, decode, encode};
use crate::id::{Epoch, StreamId};
use crate::wire::WireError;
use crate::wire::receipt::Advice;

#[test]
fn a_doubt_is_an_advice_of_a_kind_of_its_own_which_earlier_programs_pass_over() {
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
    // As they pass over what is unknown to this one, alone or of a grafted plan.
    assert_eq!(decode(&[12, 0]), Err(WireError::Kind(12)));
    assert_eq!(decode(&[7, 1, 12, 0]), Err(WireError::Kind(12)));
}
