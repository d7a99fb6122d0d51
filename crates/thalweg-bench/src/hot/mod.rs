//! The hot paths: the work per ADU, per record or per plan, in a form with countable instructions.
//!
//! A path is a function of a number of rounds, with a preparation that does not depend on it.
//! `callgrind` counts it with N and with 2·N rounds; the difference over N is one round alone, and is
//! reproducible.
//!
//! *To add one*, put a row into [`HOT_PATHS`] and run `cargo xtask instructions --write`.
//!
//! | file | paths |
//! |---|---|
//! | `lift` | a module, or several, in a lift |
//! | `values` | headers, records, the directory, resequencing |
//! | `outbox` | an ADU through an outbox |
//! | `relay`, `sender` | an ADU through a relay's machine, and through a link's sender |
//! | `planning` | a plan |

mod lift;
mod outbox;
mod planning;
mod relay;
mod sender;
mod values;

/// One path.
pub(crate) struct HotPath {
    /// Its name in the ratchet file.
    pub(crate) name: &'static str,
    /// Rounds of the shorter of the two runs.
    pub(crate) rounds: u64,
    /// What is counted of it.
    pub(crate) counted: Counted,
    /// Runs this many rounds.
    pub(crate) run: fn(u64),
}

/// What is counted of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Counted {
    /// Instructions of Rust alone.
    Rust,
    /// Instructions, in part of C or assembler, so that the C compiler's version matters.
    WithC,
    /// Cache lines that a first cache of 32 KiB does not have.
    Lines,
}

/// Returns a path in Rust alone.
const fn rust(name: &'static str, rounds: u64, run: fn(u64)) -> HotPath {
    HotPath {
        name,
        rounds,
        counted: Counted::Rust,
        run,
    }
}

/// Returns a path with a cipher or a packer in C or assembler.
const fn with_c(name: &'static str, rounds: u64, run: fn(u64)) -> HotPath {
    HotPath {
        counted: Counted::WithC,
        ..rust(name, rounds, run)
    }
}

/// Returns a path of which the cache lines are counted.
const fn lines(name: &'static str, rounds: u64, run: fn(u64)) -> HotPath {
    HotPath {
        counted: Counted::Lines,
        ..rust(name, rounds, run)
    }
}

/// Every path, modules at 1,000 bytes.
pub(crate) const HOT_PATHS: &[HotPath] = &[
    rust("lift_adu", 5_000, lift::empty),
    rust("lift_10_null_modules", 5_000, lift::null_modules),
    rust("keep", 5_000, lift::keep),
    rust("pack_lz4", 500, lift::pack_lz4),
    with_c("pack_zstd", 250, lift::pack_zstd),
    rust("unpack_lz4", 1_000, lift::unpack_lz4),
    with_c("unpack_zstd", 500, lift::unpack_zstd),
    with_c("seal_aes256", 1_000, lift::seal_aes256),
    with_c("seal_chacha20", 1_000, lift::seal_chacha20),
    with_c("open_aes256", 1_000, lift::open_aes256),
    with_c("open_chacha20", 1_000, lift::open_chacha20),
    rust("header_encode", 20_000, values::encode_header),
    rust("header_decode", 20_000, values::decode_header),
    rust("record_encode", 2_000, values::encode_record),
    rust("record_decode", 2_000, values::decode_record),
    rust("directory_record", 2_000, values::handle_record),
    rust("directory_path", 500, values::find_path),
    rust("resequence_in_order", 5_000, values::resequence_in_order),
    rust("resequence_swapped", 5_000, values::resequence_swapped),
    rust("outbox_pass", 20_000, outbox::pass),
    rust("outbox_chunk", 5_000, outbox::chunk),
    rust("outbox_cancel", 5_000, outbox::cancel),
    rust("relay_fan_out_64", 200, relay::fan_out),
    lines("relay_fan_out_200", 200, relay::fan_out_200),
    rust("sender_one_adu", 5_000, sender::one_adu),
    rust("plan_chain_of_6", 10, planning::chain_of_6),
];

#[cfg(test)]
mod tests {
    //! Proves that every path runs and that names are distinct.

    use std::collections::BTreeSet;

    use super::HOT_PATHS;

    #[test]
    fn every_path_runs() {
        for path in HOT_PATHS {
            // Shown only if it panics, to name the path.
            println!("{}", path.name);
            (path.run)(1);
        }
    }

    #[test]
    fn path_names_are_unique() {
        let names: BTreeSet<_> = HOT_PATHS.iter().map(|path| path.name).collect();
        assert_eq!(names.len(), HOT_PATHS.len());
    }
}
