//! Joins what a stream needs with what links and nodes can give.
