//! Runs [`thalweg_fuzz::adu_header`] on libFuzzer's inputs.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| thalweg_fuzz::adu_header(bytes));
