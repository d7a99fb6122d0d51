//! The port of a node's engine, as a node tells it its neighbour: docs/reference/protocol.md §2.7.
//!
//! *The idea.* A control frame of its own kind, which concerns the link alone; a node that does not
//! know the kind ignores it.
//!
//! *What it does not do.* It names no address: the neighbour has one already.

use alloc::vec::Vec;

/// The frame kind; the other kinds are in [`control`](super::control).
const ENGINE: u8 = 14;

/// Encodes the frame.
pub fn encode(port: u16) -> Vec<u8> {
    let [high, low] = port.to_be_bytes();
    [ENGINE, high, low].to_vec()
}

/// Decodes the frame; `None` if it is of another kind, or malformed.
pub fn decode(frame: &[u8]) -> Option<u16> {
    match frame {
        [ENGINE, high, low] => Some(u16::from_be_bytes([*high, *low])),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn port_survives_the_wire() {
        for port in [0, 1, 7400, u16::MAX] {
            assert_eq!(decode(&encode(port)), Some(port));
        }
        for frame in [
            &[][..],
            &[ENGINE],
            &[ENGINE, 1],
            &[ENGINE, 1, 2, 3],
            &[1, 1, 2],
        ] {
            assert_eq!(decode(frame), None);
        }
    }

    #[test]
    fn earlier_versions_ignore_the_kind() {
        let decoded = super::super::control::decode(&encode(7400));
        assert!(decoded.is_err(), "as of any unknown kind: {decoded:?}");
    }
}
