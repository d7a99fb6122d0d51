//! A TUN device: a network interface with a file descriptor as its cable.
//!
//! `/dev/net/tun` is opened and named inside the namespace of the device's node, by a thread that
//! enters it and ends; the descriptor is then valid anywhere. The device disappears when the descriptor
//! is closed, so a killed process leaves none behind. No offloads are enabled: packets come one by one,
//! limited to the MTU and with their checksums.
//!
//! *Sources.* Linux `Documentation/networking/tuntap.rst`; `setns(2)`.
#![expect(
    unsafe_code,
    reason = "TUNSETIFF has no safe wrapper; it is the only unsafe call in the crate"
)]

use std::fs::File;
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::path::Path;
use std::thread;

use rustix::fs::{Mode, OFlags, open};
use rustix::ioctl::{Updater, ioctl, opcode};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

/// The device that creates TUN devices.
pub const CLONE_DEVICE: &str = "/dev/net/tun";

/// `IFF_TUN | IFF_NO_PI`: IP packets without a header before them.
const FLAGS: u16 = 0x0001 | 0x1000;

/// `_IOW('T', 202, int)`.
const TUNSETIFF: u32 = opcode::write::<i32>(b'T', 202);

/// `struct ifreq`, as far as `TUNSETIFF` reads it; the kernel's is 40 bytes, and copied in and out whole.
#[repr(C, align(8))]
struct Request {
    name: [u8; 16],
    flags: u16,
    rest: [u8; 22],
}

const _: () = assert!(size_of::<Request>() == 40, "the size of the kernel's ifreq");

/// Creates a TUN device of this name in a network namespace, and returns its descriptor, which is
/// non-blocking.
///
/// Fails   no permission; a name that is taken or longer than 15 bytes
pub fn open_in(namespace: &Path, name: &str) -> io::Result<OwnedFd> {
    let (namespace, name) = (namespace.to_owned(), name.to_owned());
    // A namespace is per thread: this thread enters it for good, so that no other has to come back.
    let there = thread::spawn(move || {
        let target = File::open(namespace)?;
        move_into_link_name_space(target.as_fd(), Some(LinkNameSpaceType::Network))?;
        make(&name)
    });
    there
        .join()
        .map_err(|_| io::Error::other("the thread that creates a TUN device panicked"))?
}

fn make(name: &str) -> io::Result<OwnedFd> {
    let mut request = Request {
        name: [0; 16],
        flags: FLAGS,
        rest: [0; 22],
    };
    // The last byte stays zero.
    if name.len() > 15 {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    request.name[..name.len()].copy_from_slice(name.as_bytes());
    let flags = OFlags::RDWR | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let cable = open(CLONE_DEVICE, flags, Mode::empty())?;
    // SAFETY: TUNSETIFF reads and writes one `struct ifreq`, of which `Request` has the size and layout.
    let set = unsafe { Updater::<{ TUNSETIFF }, Request>::new(&mut request) };
    // SAFETY: the opcode is TUNSETIFF's, and the descriptor belongs to the device that implements it.
    unsafe { ioctl(&cable, set) }?;
    Ok(cable)
}
