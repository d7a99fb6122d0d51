//! What a link of a world does to packets, for the emulator.

use thalweg_netem::Impairment;

use super::Link;

impl From<&Link> for Impairment {
    /// The properties that a world gives a link, in both directions.
    fn from(link: &Link) -> Self {
        Self {
            rate: link.rate,
            delay: link.delay,
            jitter: link.jitter,
            ordered: link.ordered,
            reorder: link.reorder,
            loss: link.loss,
            burst: link.burst,
            burst_loss: link.burst_loss,
            queue: link.queue,
            up: link.up,
        }
    }
}
