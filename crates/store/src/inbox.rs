//! A queue whose one reader is woken as seldom as can be.
//!
//! The channels of the standard library wake their reader for every item, and spin before they sleep. At
//! thousands of messages a second that costs more than what is done with most of them. Here the reader
//! sleeps until something comes, may then [linger](Reader::linger) without being woken by what follows, and
//! takes all there is in one go.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// The writing end. Dropping it closes the queue; what is in it is still read.
pub(crate) struct Inbox<T>(Arc<Shared<T>>);

/// The reading end. Dropping it closes the queue.
pub(crate) struct Reader<T>(Arc<Shared<T>>);

struct Shared<T> {
    state: Mutex<State<T>>,
    /// The reader waits here.
    something: Condvar,
    /// Writers wait here while the queue is full.
    room: Condvar,
    items_max: usize,
}

struct State<T> {
    items: VecDeque<T>,
    closed: bool,
    reader: Waits,
    /// Writers that wait for room.
    writers: usize,
}

/// What the reader wants to be woken by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Waits {
    Nothing,
    Anything,
    /// An urgent item, or so many.
    Hurry(usize),
}

/// Why there is nothing to read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Empty {
    /// Nothing came in time.
    Late,
    /// Nothing will come.
    Closed,
}

/// A queue of at most so many items.
pub(crate) fn inbox<T>(items_max: usize) -> (Inbox<T>, Reader<T>) {
    let state = State { items: VecDeque::new(), closed: false, reader: Waits::Nothing, writers: 0 };
    let (something, room) = (Condvar::new(), Condvar::new());
    let shared = Arc::new(Shared { state: Mutex::new(state), something, room, items_max });
    (Inbox(shared.clone()), Reader(shared))
}

impl<T> Shared<T> {
    fn state(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn close(&self) {
        let mut state = self.state();
        state.closed = true;
        state.reader = Waits::Nothing;
        drop(state);
        self.something.notify_one();
        self.room.notify_all();
    }
}

impl<T> Inbox<T> {
    /// Adds an item; waits while the queue is full. An urgent one wakes a reader that lingers.
    ///
    /// # Errors
    /// The item, if nobody reads any more.
    pub(crate) fn send(&self, item: T, urgent: bool) -> Result<(), T> {
        let mut state = self.0.state();
        while state.items.len() >= self.0.items_max && !state.closed {
            state.writers += 1;
            // A full queue is no reason to linger.
            if std::mem::replace(&mut state.reader, Waits::Nothing) != Waits::Nothing {
                self.0.something.notify_one();
            }
            state = self.0.room.wait(state).unwrap_or_else(PoisonError::into_inner);
            state.writers -= 1;
        }
        if state.closed {
            return Err(item);
        }
        state.items.push_back(item);
        let wakes = match state.reader {
            Waits::Nothing => false,
            Waits::Anything => true,
            Waits::Hurry(enough) => urgent || state.items.len() >= enough,
        };
        if wakes {
            state.reader = Waits::Nothing;
            drop(state);
            self.0.something.notify_one();
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
    /// The next item; waits for it, at most so long.
    ///
    /// # Errors
    /// [`Empty`].
    pub(crate) fn recv(&self, patience: Duration) -> Result<T, Empty> {
        let deadline = Instant::now().checked_add(patience);
        let mut state = self.0.state();
        loop {
            if let Some(item) = self.pop(&mut state) {
                return Ok(item);
            }
            if state.closed {
                return Err(Empty::Closed);
            }
            let left = deadline.map_or(patience, |d| d.saturating_duration_since(Instant::now()));
            if left.is_zero() {
                return Err(Empty::Late);
            }
            state = self.sleep(state, Waits::Anything, left);
        }
    }

    /// The next item, if there is one.
    pub(crate) fn try_recv(&self) -> Option<T> {
        let mut state = self.0.state();
        self.pop(&mut state)
    }

    /// Lets items gather for so long, but not once something urgent came, so many are there, or the queue
    /// was closed.
    pub(crate) fn linger(&self, patience: Duration, enough: usize) {
        let deadline = Instant::now() + patience;
        let mut state = self.0.state();
        let mut woken = false;
        while !woken && !state.closed && state.items.len() < enough.min(self.0.items_max) {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            state = self.sleep(state, Waits::Hurry(enough.min(self.0.items_max)), left);
            woken = state.reader == Waits::Nothing;
            state.reader = Waits::Nothing;
        }
    }

    fn pop(&self, state: &mut MutexGuard<'_, State<T>>) -> Option<T> {
        let item = state.items.pop_front()?;
        if state.writers > 0 {
            self.0.room.notify_one();
        }
        Some(item)
    }

    /// Sleeps until woken or late. Whoever wakes the reader sets what it waits for to nothing.
    fn sleep<'s>(
        &'s self,
        mut state: MutexGuard<'s, State<T>>,
        waits: Waits,
        patience: Duration,
    ) -> MutexGuard<'s, State<T>> {
        state.reader = waits;
        let slept = self.0.something.wait_timeout(state, patience);
        let (mut state, _late) = slept.unwrap_or_else(PoisonError::into_inner);
        if waits == Waits::Anything {
            state.reader = Waits::Nothing;
        }
        state
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: Duration = Duration::from_secs(60);
    const SHORT: Duration = Duration::from_millis(20);

    #[test]
    fn items_come_in_order_and_the_end_after_them() {
        let (inbox, reader) = inbox(10);
        assert_eq!(reader.recv(SHORT), Err(Empty::Late));
        assert_eq!(reader.try_recv(), None);
        inbox.send(1, false).unwrap();
        inbox.send(2, false).unwrap();
        drop(inbox);
        assert_eq!((reader.recv(LONG), reader.recv(LONG)), (Ok(1), Ok(2)));
        assert_eq!(reader.recv(LONG), Err(Empty::Closed));
    }

    #[test]
    fn a_sleeping_reader_is_woken_and_a_lingering_one_by_what_matters() {
        let (inbox, reader) = inbox(10);
        let thread = std::thread::spawn(move || {
            assert_eq!(reader.recv(LONG), Ok(1));
            reader.linger(LONG, 10);
            assert_eq!((reader.try_recv(), reader.try_recv()), (Some(2), Some(3)), "urgent");
            reader.linger(LONG, 2);
            assert_eq!((reader.try_recv(), reader.try_recv()), (Some(4), Some(5)), "enough");
            reader.linger(SHORT, 9);
            assert_eq!(reader.try_recv(), None, "late");
            reader.linger(LONG, 9);
            assert_eq!(reader.recv(LONG), Err(Empty::Closed), "closed");
        });
        std::thread::sleep(SHORT);
        inbox.send(1, false).unwrap();
        inbox.send(2, false).unwrap();
        std::thread::sleep(SHORT);
        inbox.send(3, true).unwrap();
        std::thread::sleep(SHORT);
        inbox.send(4, false).unwrap();
        std::thread::sleep(SHORT);
        inbox.send(5, false).unwrap();
        std::thread::sleep(4 * SHORT);
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
            // More than fits.
            reader.linger(Duration::from_millis(1), 100);
            sum += reader.recv(LONG).unwrap();
        }
        assert_eq!(sum, 4 * 4_950);
        assert!(writers.into_iter().all(|w| w.join().unwrap()));
        drop(reader);
        assert_eq!(inbox.send(7, false), Err(7));
    }
}
