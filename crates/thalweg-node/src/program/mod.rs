//! What programs that run nodes have in common: the allocator, the log and its target, the panic
//! hook.
//!
//! *The idea.* These are a program's choice and not a library's; but there are several programs,
//! the daemon and its benchmarks, and they must be alike.
//!
//! For each ADU, a relay touches the state of hundreds of links, and TLB misses cost more than the
//! data itself. jemalloc places it in few large pages. The feature `jemalloc` builds it in
//! where that was measured; elsewhere the allocator is the system's.
//!
//! *Sources.* docs/decisions/0031.

pub mod panics;
pub mod stderr;

/// The default log filter, in the syntax of `tracing_subscriber::filter::Targets`: states that an
/// operator cares about, and errors of the libraries below.
pub const LOG: &str = "error,thalweg=info,thalweg_node=info,thalweg_net=info";

#[cfg(not(all(feature = "jemalloc", target_os = "linux", target_arch = "x86_64")))]
pub use std::alloc::System as Allocator;
#[cfg(all(feature = "jemalloc", target_os = "linux", target_arch = "x86_64"))]
pub use tikv_jemallocator::Jemalloc as Allocator;
