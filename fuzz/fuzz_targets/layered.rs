//! Runs [`thalweg_fuzz::layered`] on whatever libFuzzer thinks of.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| thalweg_fuzz::layered(bytes));
