//! Proves the program from outside: what it prints, how it exits, and that real processes carry a
//! real clip.
//!
//! Each module runs the built program in a directory of its own. `fabric` needs a clip and an
//! `ffmpeg`, which `cargo xtask test` fetches.

mod admission;
mod cleartext;
mod clock;
mod code;
mod demo;
mod ends;
mod fabric;
mod files;
mod inbox;
mod input;
mod lasting;
mod lone;
mod ls;
mod mailbox;
mod messages;
mod output;
mod pattern;
mod plan;
mod program;
mod signals;
mod simulate;
mod source;
mod terminal;
mod top;
mod trace;
mod twice;
mod usage;
