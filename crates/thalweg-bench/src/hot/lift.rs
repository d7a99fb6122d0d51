//! Modules in a lift, at 1,000 bytes.

use thalweg_dataplane::packet::Pool;

use crate::feed;

const LENGTH_BYTES: usize = 1_000;

/// ADUs per pass: openers refuse replays, so each pass has new modules, and their construction is
/// spread over it.
const ADUS_A_PASS: u64 = 250;

/// Why nothing fails here.
const MAKES: &str = "the words of the table are modules' names, with a key at hand";

/// A lift without a module: a packet from the pool, in, out, and back.
pub(super) fn empty(adus: u64) {
    passes(&[], &[], adus);
}

/// The same with ten modules that do nothing.
pub(super) fn null_modules(adus: u64) {
    passes(&["null"; 10], &[], adus);
}

pub(super) fn keep(adus: u64) {
    passes(&["keep:1"], &[], adus);
}

pub(super) fn pack_lz4(adus: u64) {
    passes(&["pack:lz4"], &[], adus);
}

pub(super) fn pack_zstd(adus: u64) {
    passes(&["pack:zstd"], &[], adus);
}

pub(super) fn unpack_lz4(adus: u64) {
    passes(&["unpack"], &["pack:lz4"], adus);
}

pub(super) fn unpack_zstd(adus: u64) {
    passes(&["unpack"], &["pack:zstd"], adus);
}

pub(super) fn seal_aes256(adus: u64) {
    passes(&["seal:aes256"], &[], adus);
}

pub(super) fn seal_chacha20(adus: u64) {
    passes(&["seal:chacha20"], &[], adus);
}

pub(super) fn open_aes256(adus: u64) {
    passes(&["open"], &["seal:aes256"], adus);
}

pub(super) fn open_chacha20(adus: u64) {
    passes(&["open"], &["seal:chacha20"], adus);
}

/// Carries ADUs, which `made_by` made, through a lift of these modules.
fn passes(words: &[&str], made_by: &[&str], adus: u64) {
    let pool = Pool::default();
    let inputs = feed::inputs(made_by, LENGTH_BYTES, ADUS_A_PASS, &pool).expect(MAKES);
    for _ in 0..adus.div_ceil(ADUS_A_PASS) {
        feed::carry(&mut feed::lift(words, &pool).expect(MAKES), &pool, &inputs);
    }
}
