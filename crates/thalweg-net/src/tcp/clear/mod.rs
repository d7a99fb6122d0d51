//! One thread's loop for the connections in the clear.
//!
//! *The idea.* Over TLS each connection is a task, which costs a wake-up for each ADU, often on another
//! thread, and a timer. In the clear there is little else to do for it, so one thread with one `epoll`
//! runs what would be such tasks. Whatever has happened to an entry marks it:
//! bytes or room on its socket, a call of another thread, a timer. A turn takes all marks at once and
//! settles each marked entry once.
//!
//! ```text
//! link's tasks ── write, read, close ──► session (a short lock) ── mark ──► marks
//!                                              ▲                              │ eventfd
//!        TCP ◄── writev ── settle marked ──────┴── timers ◄──── epoll ◄───────┘
//!         └─────────────────────────────────────────────────────► turn ► turn ► …
//! ```
//!
//! | file | idea |
//! |---|---|
//! | `handle` | the loop as its users hold it; the thread's start and end |
//! | `turn` | one turn: wait, take, settle |
//! | `entry` | what the loop runs |
//! | `driver` | the driver of a link's sender, run by the loop |
//! | `inbox`, `lots` | new entries; ADUs for many links |
//! | `marks`, `timers` | what is to be settled, now or later |
//! | `ready` | sockets with bytes or room: `epoll` |
//!
//! *What it does not do.* It knows no session and no socket: `plain_carrier` does. It makes no handshake:
//! a connection comes here once it has greeted.
//!
//! *Sources.* docs/decisions/0042; `epoll(7)`, `eventfd(2)`.

mod driver;
mod entry;
mod handle;
mod inbox;
mod lots;
mod marks;
mod ready;
#[cfg(test)]
mod tests;
mod timers;
mod turn;

pub(super) use self::entry::{Entry, Next, Readiness};
pub use self::handle::ClearLoop;
pub(super) use self::marks::Mark;
