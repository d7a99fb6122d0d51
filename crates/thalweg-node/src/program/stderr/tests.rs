//! Proves that lost lines are counted and reported, and that a stuck reader blocks no caller.

use std::io::{self, Write};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::{Queue, WAITING_BYTES_MAX};

/// Longer than any line takes.
const PATIENCE: Duration = Duration::from_secs(30);

/// A disk that can be full.
#[derive(Clone, Default)]
struct Disk(Arc<Mutex<(String, bool)>>);

impl Disk {
    fn fill(&self, is_full: bool) {
        self.0.lock().expect("no test panics with it").1 = is_full;
    }

    fn text(&self) -> String {
        self.0.lock().expect("no test panics with it").0.clone()
    }
}

impl Write for Disk {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut disk = self.0.lock().expect("no test panics with it");
        if disk.1 {
            return Err(io::ErrorKind::StorageFull.into());
        }
        // In pieces, as a kernel may.
        let piece = &bytes[..bytes.len().min(3)];
        disk.0 += std::str::from_utf8(piece).expect("tests write ASCII");
        Ok(piece.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A reader that takes one line per permit.
struct Slow(Receiver<()>, Sender<()>);

impl Write for Slow {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        // The receiver lives until the test ends.
        let _ = self.1.send(());
        let _ = self.0.recv();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn full_disk_counts_lost_lines() {
    let disk = Disk::default();
    let queue = Queue::start(disk.clone());
    queue.put(b"one\n");
    queue.flush(PATIENCE);
    disk.fill(true);
    for line in ["two\n", "three\n"] {
        queue.put(line.as_bytes());
        queue.flush(PATIENCE);
    }
    assert_eq!(queue.0.lock().lost, 2);
    disk.fill(false);
    queue.put(b"four\n");
    queue.flush(PATIENCE);
    let text = disk.text();
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!([lines[0], lines[2]], ["one", "four"], "{text}");
    assert!(
        lines[1].contains("2 lines of this log are missing"),
        "{text}"
    );
    assert_eq!((lines.len(), queue.0.lock().unreported), (3, 0));
}

#[test]
fn stuck_reader_blocks_no_caller() {
    let (permits, permitted) = channel();
    let (started, taken) = channel();
    let queue = Queue::start(Slow(permitted, started));
    queue.put(b"first\n");
    taken.recv().expect("it is being written");
    let line = [b'x'; 1 << 10];
    for _ in 0..2 * WAITING_BYTES_MAX / line.len() {
        queue.put(&line);
    }
    let state = queue.0.lock();
    assert_eq!(state.bytes, WAITING_BYTES_MAX);
    assert_eq!(state.lost as usize, WAITING_BYTES_MAX / line.len());
    drop(state);
    queue.flush(Duration::ZERO);
    drop(permits);
    queue.flush(PATIENCE);
    assert!(queue.0.lock().lines.is_empty());
}
