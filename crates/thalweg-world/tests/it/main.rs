//! World files from outside: any text is a world or an error, written worlds read back, the examples plan.

mod examples;
mod hostile;
mod round_trip;
