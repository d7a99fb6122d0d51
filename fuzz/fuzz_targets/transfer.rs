//! Runs [`thalweg_fuzz::transfer`] on whatever libFuzzer thinks of.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| thalweg_fuzz::transfer(bytes));
