//! A writer that gathers lines and puts them into a file some times a second.

use std::io::{self, Write};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use tracing_subscriber::fmt::MakeWriter;

/// Why lines are lost.
const LOST: &str = "they came faster than the disk took them";
/// How long a line may wait for its file.
const PAUSE: Duration = Duration::from_millis(200);
/// Bytes of lines that wait at most; further lines are dropped, and counted.
const WAITING_BYTES_MAX: usize = 4 << 20;

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    something: Condvar,
}

#[derive(Debug, Default)]
struct State {
    waiting: Vec<u8>,
    /// Lines that found no room since some were taken last.
    dropped: u64,
    /// The thread waits for a first line.
    sleeps: bool,
    over: bool,
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Takes lines; clones write to the same file.
#[derive(Debug, Clone)]
pub(super) struct Lines(Arc<Shared>);

impl Write for Lines {
    /// Takes all of it, or drops all of it.
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let mut state = self.0.state();
        if state.waiting.len() + line.len() <= WAITING_BYTES_MAX {
            state.waiting.extend_from_slice(line);
        } else {
            state.dropped += 1;
        }
        if std::mem::take(&mut state.sleeps) {
            drop(state);
            self.0.something.notify_one();
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for Lines {
    type Writer = Lines;

    fn make_writer(&'a self) -> Lines {
        self.clone()
    }
}

/// Writes what waits when it is dropped.
#[derive(Debug)]
pub(in crate::serve) struct Guard {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

impl Drop for Guard {
    fn drop(&mut self) {
        self.shared.state().over = true;
        self.shared.something.notify_one();
        if let Some(thread) = self.thread.take() {
            let _a_panic_was_reported_by_the_thread = thread.join();
        }
    }
}

/// Starts a thread of this name that writes to `file`.
///
/// # Errors
/// The system's, if it gives no thread.
pub(super) fn start(
    name: &str,
    mut file: impl Write + Send + 'static,
) -> io::Result<(Lines, Guard)> {
    let shared = Arc::new(Shared::default());
    let own = shared.clone();
    let thread = std::thread::Builder::new().name(name.to_owned()).spawn(move || {
        let mut lines = Vec::new();
        while own.next(&mut lines) {
            // A disk that takes nothing loses lines, not mail.
            let _lost = file.write_all(&lines);
            lines.clear();
        }
    })?;
    Ok((Lines(shared.clone()), Guard { shared, thread: Some(thread) }))
}

impl Shared {
    /// Waits for lines, then a while for more, and takes them all. False when all is over and
    /// written.
    fn next(&self, lines: &mut Vec<u8>) -> bool {
        let mut state = self.state();
        while state.waiting.is_empty() {
            if state.over {
                return false;
            }
            state.sleeps = true;
            state = self.something.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state.sleeps = false;
        if !state.over {
            let over = |state: &mut State| !state.over;
            let waited = self.something.wait_timeout_while(state, PAUSE, over);
            (state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        }
        std::mem::swap(&mut state.waiting, lines);
        let dropped = std::mem::take(&mut state.dropped);
        if dropped > 0 {
            lines.extend_from_slice(
                format!("{dropped} further lines are lost: {LOST}\n").as_bytes(),
            );
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A file in memory.
    #[derive(Clone, Default)]
    struct Memory(Arc<Mutex<Vec<u8>>>);

    impl Write for Memory {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn lines_come_by_themselves_and_the_rest_at_the_end() {
        let memory = Memory::default();
        let (mut lines, guard) = start("test", memory.clone()).unwrap();
        lines.write_all(b"one\n").unwrap();
        while memory.0.lock().unwrap().is_empty() {
            std::thread::sleep(Duration::from_millis(5));
        }
        lines.write_all(b"two\n").unwrap();
        lines.make_writer().write_all(b"three\n").unwrap();
        drop(guard);
        assert_eq!(*memory.0.lock().unwrap(), b"one\ntwo\nthree\n");
    }

    #[test]
    fn a_file_that_takes_nothing_costs_no_memory() {
        let shared = Arc::new(Shared::default());
        let mut lines = Lines(shared.clone());
        for _ in 0..100 {
            lines.write_all(&[b'x'; 100_000]).unwrap();
        }
        assert_eq!(shared.state().waiting.len(), 41 * 100_000);
        let mut taken = Vec::new();
        assert!(shared.next(&mut taken));
        let notice = format!("59 further lines are lost: {LOST}\n");
        assert!(taken.ends_with(notice.as_bytes()), "the file says so");
        lines.write_all(b"later\n").unwrap();
        taken.clear();
        assert!(shared.next(&mut taken));
        assert_eq!(taken, b"later\n");
    }
}
