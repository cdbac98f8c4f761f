//! A multi-producer, single-consumer queue that wakes its reader rarely.
//!
//! The channels of the standard library wake their reader for every item, and spin before they
//! sleep. At thousands of messages a second that costs more than processing most of them. Here the
//! reader sleeps until an item arrives, may then [linger](Reader::linger) without being woken by
//! further ones, and takes all of them at once.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// The sending end. Dropping it closes the queue; queued items are still read.
pub(crate) struct Inbox<T>(Arc<Shared<T>>);

/// The receiving end. Dropping it closes the queue.
pub(crate) struct Reader<T>(Arc<Shared<T>>);

struct Shared<T> {
    state: Mutex<State<T>>,
    /// The reader waits for items.
    not_empty: Condvar,
    /// Senders wait for space.
    not_full: Condvar,
    items_max: usize,
}

struct State<T> {
    items: VecDeque<T>,
    closed: bool,
    reader: WakeOn,
    /// Senders that wait for space.
    writers: usize,
}

/// What wakes the reader.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum WakeOn {
    Nothing,
    Anything,
    /// An urgent item, or a queue of at least so many.
    UrgentOrCount(usize),
}

/// Why no item was received.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RecvError {
    /// Nothing came within the time given.
    Timeout,
    /// The queue is closed and empty.
    Closed,
}

/// A queue of at most `items_max` items.
pub(crate) fn inbox<T>(items_max: usize) -> (Inbox<T>, Reader<T>) {
    let state =
        State { items: VecDeque::new(), closed: false, reader: WakeOn::Nothing, writers: 0 };
    let (not_empty, not_full) = (Condvar::new(), Condvar::new());
    let shared = Arc::new(Shared { state: Mutex::new(state), not_empty, not_full, items_max });
    (Inbox(shared.clone()), Reader(shared))
}

impl<T> Shared<T> {
    fn state(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn close(&self) {
        let mut state = self.state();
        state.closed = true;
        state.reader = WakeOn::Nothing;
        drop(state);
        self.not_empty.notify_one();
        self.not_full.notify_all();
    }
}

impl<T> Inbox<T> {
    /// Adds an item; blocks while the queue is full. An urgent item wakes a reader that lingers.
    ///
    /// # Errors
    /// The item, if the reader was dropped.
    pub(crate) fn send(&self, item: T, urgent: bool) -> Result<(), T> {
        let mut state = self.0.state();
        while state.items.len() >= self.0.items_max && !state.closed {
            state.writers += 1;
            // A full queue ends lingering.
            if std::mem::replace(&mut state.reader, WakeOn::Nothing) != WakeOn::Nothing {
                self.0.not_empty.notify_one();
            }
            state = self.0.not_full.wait(state).unwrap_or_else(PoisonError::into_inner);
            state.writers -= 1;
        }
        if state.closed {
            return Err(item);
        }
        state.items.push_back(item);
        let wakes = match state.reader {
            WakeOn::Nothing => false,
            WakeOn::Anything => true,
            WakeOn::UrgentOrCount(enough) => urgent || state.items.len() >= enough,
        };
        if wakes {
            state.reader = WakeOn::Nothing;
            drop(state);
            self.0.not_empty.notify_one();
        }
        Ok(())
    }
}

impl<T> fmt::Debug for Inbox<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Inbox").field("items_max", &self.0.items_max).finish_non_exhaustive()
    }
}

impl<T> Drop for Inbox<T> {
    fn drop(&mut self) {
        self.0.close();
    }
}

impl<T> Drop for Reader<T> {
    fn drop(&mut self) {
        self.0.close();
    }
}

impl<T> Reader<T> {
    /// The next item; blocks for at most `timeout`.
    ///
    /// # Errors
    /// [`RecvError`].
    pub(crate) fn recv(&self, timeout: Duration) -> Result<T, RecvError> {
        let deadline = Instant::now().checked_add(timeout);
        let mut state = self.0.state();
        loop {
            if let Some(item) = self.pop(&mut state) {
                return Ok(item);
            }
            if state.closed {
                return Err(RecvError::Closed);
            }
            let left = deadline.map_or(timeout, |d| d.saturating_duration_since(Instant::now()));
            if left.is_zero() {
                return Err(RecvError::Timeout);
            }
            state = self.sleep(state, WakeOn::Anything, left);
        }
    }

    /// The next item, if there is one.
    pub(crate) fn try_recv(&self) -> Option<T> {
        let mut state = self.0.state();
        self.pop(&mut state)
    }

    /// Lets items gather for `timeout`, or until an urgent item arrives, `enough` are queued, or
    /// the queue is closed.
    pub(crate) fn linger(&self, timeout: Duration, enough: usize) {
        let deadline = Instant::now() + timeout;
        let mut state = self.0.state();
        let mut woken = false;
        while !woken && !state.closed && state.items.len() < enough.min(self.0.items_max) {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            state = self.sleep(state, WakeOn::UrgentOrCount(enough.min(self.0.items_max)), left);
            woken = state.reader == WakeOn::Nothing;
            state.reader = WakeOn::Nothing;
        }
    }

    fn pop(&self, state: &mut MutexGuard<'_, State<T>>) -> Option<T> {
        let item = state.items.pop_front()?;
        if state.writers > 0 {
            self.0.not_full.notify_one();
        }
        Some(item)
    }

    /// Sleeps until woken or timed out. The waker resets `state.reader` to `Nothing`.
    fn sleep<'s>(
        &'s self,
        mut state: MutexGuard<'s, State<T>>,
        wake_on: WakeOn,
        timeout: Duration,
    ) -> MutexGuard<'s, State<T>> {
        state.reader = wake_on;
        let slept = self.0.not_empty.wait_timeout(state, timeout);
        let (mut state, _late) = slept.unwrap_or_else(PoisonError::into_inner);
        if wake_on == WakeOn::Anything {
            state.reader = WakeOn::Nothing;
        }
        state
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: Duration = Duration::from_secs(60);
    const SHORT: Duration = Duration::from_millis(2);

    /// Returns once the reader sleeps and waits for this.
    fn sleeps(inbox: &Inbox<i32>, wake_on: WakeOn) {
        let deadline = Instant::now() + LONG;
        while inbox.0.state().reader != wake_on {
            assert!(Instant::now() < deadline, "the reader does not sleep");
            std::thread::yield_now();
        }
    }

    #[test]
    fn items_come_in_order_and_the_end_after_them() {
        let (inbox, reader) = inbox(10);
        assert_eq!(reader.recv(SHORT), Err(RecvError::Timeout));
        assert_eq!(reader.try_recv(), None);
        inbox.send(1, false).unwrap();
        inbox.send(2, false).unwrap();
        drop(inbox);
        assert_eq!((reader.recv(LONG), reader.recv(LONG)), (Ok(1), Ok(2)));
        assert_eq!(reader.recv(LONG), Err(RecvError::Closed));
    }

    #[test]
    fn a_sleeping_reader_is_woken_and_a_lingering_one_by_what_matters() {
        let (inbox, reader) = inbox(10);
        let (was_late, late) = std::sync::mpsc::channel();
        let thread = std::thread::spawn(move || {
            assert_eq!(reader.recv(LONG), Ok(1));
            reader.linger(LONG, 10);
            assert_eq!((reader.try_recv(), reader.try_recv()), (Some(2), Some(3)), "urgent");
            reader.linger(LONG, 2);
            assert_eq!((reader.try_recv(), reader.try_recv()), (Some(4), Some(5)), "enough");
            reader.linger(SHORT, 9);
            assert_eq!(reader.try_recv(), None, "late");
            was_late.send(()).unwrap();
            reader.linger(LONG, 9);
            assert_eq!(reader.recv(LONG), Err(RecvError::Closed), "closed");
        });
        sleeps(&inbox, WakeOn::Anything);
        inbox.send(1, false).unwrap();
        inbox.send(2, false).unwrap();
        sleeps(&inbox, WakeOn::UrgentOrCount(10));
        inbox.send(3, true).unwrap();
        sleeps(&inbox, WakeOn::UrgentOrCount(2));
        inbox.send(4, false).unwrap();
        inbox.send(5, false).unwrap();
        // It has waited in vain for more, and waits for ever now.
        late.recv().unwrap();
        sleeps(&inbox, WakeOn::UrgentOrCount(9));
        drop(inbox);
        thread.join().unwrap();
    }

    #[test]
    fn writers_wait_for_room_and_hear_of_the_end() {
        let (inbox, reader) = inbox(2);
        let inbox = Arc::new(inbox);
        let writers: Vec<_> = (0..4)
            .map(|_| {
                let inbox = inbox.clone();
                std::thread::spawn(move || {
                    (0..100).map(|n| inbox.send(n, false)).all(|r| r.is_ok())
                })
            })
            .collect();
        let mut sum = 0;
        for _ in 0..400 {
            // More than the queue holds.
            reader.linger(Duration::from_millis(1), 100);
            sum += reader.recv(LONG).unwrap();
        }
        assert_eq!(sum, 4 * 4_950);
        assert!(writers.into_iter().all(|w| w.join().unwrap()));
        drop(reader);
        assert_eq!(inbox.send(7, false), Err(7));
    }
}
