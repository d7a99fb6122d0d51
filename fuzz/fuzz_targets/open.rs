//! Runs [`thalweg_fuzz::open`] on libFuzzer's inputs.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| thalweg_fuzz::open(bytes));
