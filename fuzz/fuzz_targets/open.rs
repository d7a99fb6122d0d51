//! Runs [`thalweg_fuzz::open`] on whatever libFuzzer thinks of.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| thalweg_fuzz::open(bytes));
