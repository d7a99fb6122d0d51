//! Runs [`thalweg_fuzz::outbox`] on whatever libFuzzer thinks of.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| thalweg_fuzz::outbox(bytes));
