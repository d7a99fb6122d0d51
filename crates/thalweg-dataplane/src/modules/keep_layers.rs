//! Keeps the lower layers of a stream and discards the rest, by the header alone.
//!
//! *The idea.* The layer of an ADU is in its header, which every node can read. So the module works
//! on packed and sealed ADUs, on nodes without keys, at a cost independent of the payload.
//!
//! *Sources.* spec PA-35 (dropping by header); design.md, `keep(q')`.

use thalweg_base::event::DropCause;
use thalweg_base::limits::LAYERS_MAX;

use crate::module::{Context, Control, ControlError, Module, Verdict};
use crate::packet::Packet;

/// Passes ADUs of the lowest `layers` layers.
#[derive(Debug)]
pub struct KeepLayers {
    layers: u8,
}

impl KeepLayers {
    /// Returns a module that keeps layers 0 to `layers` − 1; at least the base layer must stay.
    pub fn new(layers: u8) -> Result<Self, ControlError> {
        if (1..=LAYERS_MAX).contains(&usize::from(layers)) {
            Ok(Self { layers })
        } else {
            Err(ControlError::Layers(layers))
        }
    }
}

impl Module for KeepLayers {
    fn name(&self) -> &'static str {
        "keep"
    }

    fn forward(&mut self, packet: &mut Packet, _cx: &mut Context<'_>) -> Verdict {
        if packet.header.layer < self.layers {
            Verdict::Pass
        } else {
            Verdict::Discard(DropCause::Filtered)
        }
    }

    fn control(&mut self, control: &Control) -> Result<(), ControlError> {
        match control {
            Control::KeepLayers(layers) => {
                *self = Self::new(*layers)?;
                Ok(())
            }
            _ => Err(ControlError::NotMine),
        }
    }
}
