//! Runs [`thalweg_fuzz::engine`] on libFuzzer's inputs.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| thalweg_fuzz::engine(bytes));
