//! What a program that runs nodes begins with: how it allocates, what it logs and where to, and what a panic does.
//!
//! *The idea.* A library chooses none of these, the program does; but there are several, and they should be alike: the daemon, and
//! the measurements of it.
//!
//! A relay touches the state of hundreds of links for each ADU, and waits longer for where that lies than for what it says. jemalloc lays
//! it out in few large pages. It is built with the feature `jemalloc` where that was measured; elsewhere the allocator is the system's.
//!
//! *Sources.* docs/decisions/0031.

pub mod panics;
pub mod stderr;

/// What the daemon logs unless it is told otherwise, in the syntax of `tracing_subscriber::filter::Targets`: states that an operator
/// cares about, and of the libraries below what went wrong.
pub const LOG: &str = "error,thalweg=info,thalweg_node=info,thalweg_net=info";

#[cfg(not(all(feature = "jemalloc", target_os = "linux", target_arch = "x86_64")))]
pub use std::alloc::System as Allocator;
#[cfg(all(feature = "jemalloc", target_os = "linux", target_arch = "x86_64"))]
pub use tikv_jemallocator::Jemalloc as Allocator;
