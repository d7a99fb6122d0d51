//! World files from outside: any text is a world or an error, worlds survive being written, the examples plan.

mod examples;
mod hostile;
mod round_trip;
