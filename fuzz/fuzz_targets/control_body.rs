//! Runs [`thalweg_fuzz::control_body`] on whatever libFuzzer thinks of.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| thalweg_fuzz::control_body(bytes));
