//! A module that does nothing, to measure a lift's own cost (spec DC-36, BM-D1).

use crate::module::{Context, Module, Verdict};
use crate::packet::Packet;

/// Passes everything unchanged.
#[derive(Debug, Default)]
pub struct Null;

impl Module for Null {
    fn name(&self) -> &'static str {
        "null"
    }

    fn forward(&mut self, _packet: &mut Packet, _cx: &mut Context<'_>) -> Verdict {
        Verdict::Pass
    }
}
