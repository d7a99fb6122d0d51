//! Runs [`thalweg_fuzz::y4m`] on libFuzzer's inputs.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| thalweg_fuzz::y4m(bytes));
