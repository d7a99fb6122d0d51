//! Runs [`thalweg_fuzz::nal`] on libFuzzer's inputs.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| thalweg_fuzz::nal(bytes));
