//! Runs [`thalweg_fuzz::ts_unit`] on libFuzzer's inputs.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| thalweg_fuzz::ts_unit(bytes));
