//! `TCP_INFO`: congestion window, bytes in flight, unsent bytes and delivery rate.
//!
//! *The idea.* The kernel fills a structure that has grown over the years, and reports how many
//! bytes it filled. Fields are read by offset, which never changes; a kernel that fills fewer than
//! needed is an error.
//!
//! ```text
//! byte   2  timeouts in a row      24  segments out       68  smoothed RTT, µs    144  unsent
//! bytes
//! 16  segment size           28  of them SACKed     80  window, segments    148  least RTT, µs
//! 32  lost   36  retransmitted                      156  segments with data sent
//! 100  retransmitted, ever                           160  delivery rate, bytes/s
//! 216  spurious retransmissions
//! ```
//!
//! The last came with Linux 4.19: segments that the peer reports as duplicates (D-SACK, RFC 2883).
//! A peer that acknowledges late receives many of those and has lost nothing.
//!
//! *What it does not do.* It does not call `SIOCOUTQNSD`, which returns the number at offset 144.
//!
//! *Sources.* Linux `include/uapi/linux/tcp.h`, `struct tcp_info`, and `tcp_packets_in_flight` of
//! `include/net/tcp.h`.
#![expect(
    unsafe_code,
    reason = "TCP_INFO has no safe wrapper; it is the one call in the crate that needs a proof"
)]

use std::io;
use std::os::fd::{AsRawFd as _, BorrowedFd};

use thalweg_base::time::Duration;
use thalweg_base::units::{Bitrate, DataSize};
use thalweg_link::tcp_mux::KernelPath;

use super::Reading;

/// Bytes up to and including the spurious retransmissions.
const BYTES: usize = 220;

/// Bytes up to the delivery rate, which came with Linux 4.9: the least a kernel must fill.
const BYTES_MIN: usize = 168;

pub(super) fn reading(socket: BorrowedFd<'_>) -> io::Result<Reading> {
    let bytes = ask(socket)?;
    Ok(Reading {
        path: read(&bytes),
        segments: word(&bytes, 156),
        lost: word(&bytes, 100).saturating_sub(word(&bytes, 216)),
    })
}

fn ask(socket: BorrowedFd<'_>) -> io::Result<[u8; BYTES]> {
    let mut bytes = [0_u8; BYTES];
    let mut length = libc::socklen_t::try_from(BYTES).map_err(io::Error::other)?;
    // SAFETY: the descriptor is borrowed, so it is open; the kernel writes at most `length` bytes,
    // which `bytes` has, and any bytes are a valid array of bytes; both pointers are to locals that
    // outlive the call and are not aliased.
    let failed = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_INFO,
            bytes.as_mut_ptr().cast(),
            &raw mut length,
        )
    };
    if failed != 0 {
        return Err(io::Error::last_os_error());
    }
    if (length as usize) < BYTES_MIN {
        return Err(io::ErrorKind::Unsupported.into());
    }
    Ok(bytes)
}

fn word(bytes: &[u8; BYTES], place: usize) -> u64 {
    let field = bytes[place..].first_chunk().copied();
    u64::from(u32::from_ne_bytes(field.unwrap_or_default()))
}

fn read(bytes: &[u8; BYTES]) -> KernelPath {
    let word = |place| word(bytes, place);
    let long = |place: usize| {
        let bytes = bytes[place..].first_chunk().copied();
        u64::from_ne_bytes(bytes.unwrap_or_default())
    };
    let segment = word(16);
    let gone = word(28) + word(32);
    let in_flight = (word(24) + word(36)).saturating_sub(gone);
    KernelPath {
        window: DataSize::from_bytes(word(80) * segment),
        in_flight: DataSize::from_bytes(in_flight * segment),
        unsent: DataSize::from_bytes(word(144)),
        acknowledged: DataSize::from_bytes(long(120)),
        rtt: Duration::from_micros(word(68)),
        rtt_min: match word(148) {
            // The kernel's value for "not measured yet".
            unknown if unknown == u64::from(u32::MAX) => Duration::ZERO,
            micros => Duration::from_micros(micros),
        },
        delivery_rate: Bitrate::from_bps(long(160).saturating_mul(8)),
        timeouts: bytes[2].into(),
        segments_again: word(100),
    }
}
