//! Numbers decoded from the bytes of a fuzz target that runs a machine.

use std::num::NonZeroU8;

/// Numbers decoded from bytes; zero once they are used up.
pub struct Numbers<'b>(&'b [u8]);

impl<'b> Numbers<'b> {
    pub const fn new(bytes: &'b [u8]) -> Self {
        Self(bytes)
    }

    /// Returns whether all bytes are used up.
    pub const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn byte(&mut self) -> u8 {
        let Some((first, rest)) = self.0.split_first() else {
            return 0;
        };
        self.0 = rest;
        *first
    }

    pub fn below(&mut self, end: u8) -> u8 {
        self.byte() % end
    }

    /// A number of any magnitude, small ones more often than large ones.
    pub fn any(&mut self) -> u64 {
        let low = u64::from(u16::from_be_bytes([self.byte(), self.byte()]));
        low << (self.byte() % 49)
    }

    pub fn weight(&mut self) -> NonZeroU8 {
        NonZeroU8::new(self.byte()).unwrap_or(NonZeroU8::MIN)
    }
}
