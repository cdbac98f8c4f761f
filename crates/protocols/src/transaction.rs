//! What all transactions have in common, and a list of them.

use std::any::Any;
use std::collections::VecDeque;

use gauntlet_packet::Direction;

use crate::files::File;

/// The most events that one transaction remembers (each once).
const EVENTS_MAX: usize = 64;

/// The most occurrences of events that one transaction remembers.
const OCCURRENCES_MAX: usize = 255;

/// What every transaction has.
#[derive(Default)]
pub struct State {
    /// Its number in the flow, from 0.
    pub id: u64,
    /// How far it is, to the server and to the client: a place in the protocol's names of states.
    pub progress: [u8; 2],
    /// Numbers of events, in the order they were noticed; each once.
    pub events: Vec<u8>,
    /// The same, each as often as it was noticed.
    pub occurrences: Vec<u8>,
    /// So many occurrences were told to whoever logs them.
    pub events_told: usize,
    /// Files, to the server and to the client.
    pub files: [Vec<File>; 2],
    /// Files of these directions are to be kept, to the server and to the client.
    pub stores: [bool; 2],
    /// New since the detection engine has looked, to the server and to the client.
    pub updated: [bool; 2],
    /// The detection engine is through with this direction.
    pub inspected: [bool; 2],
    /// The detection engine is not to look at this direction (the transaction has none: a one-way
    /// message).
    pub skip: [bool; 2],
    /// To the server and to the client: a file is to be kept, so that the limit of bodies gives way
    /// to that of kept files.
    pub reads_on: [bool; 2],
    /// Its records were written.
    pub logged: bool,
    /// Its request was told, which is whole.
    pub asked: bool,
    /// What the detection engine keeps with the transaction.
    pub kept: Option<Box<dyn Any + Send>>,
}

impl State {
    /// Progress in this direction.
    pub fn progress(&self, direction: Direction) -> u8 {
        self.progress.get(direction.index()).copied().unwrap_or_default()
    }

    /// Moves on (never back), and notes that there is news.
    pub fn advance(&mut self, direction: Direction, progress: u8) {
        if let Some(place) = self.progress.get_mut(direction.index()) {
            *place = (*place).max(progress);
        }
        self.touch(direction);
    }

    /// Sets progress, also back (an interim response), and notes that there is news.
    pub(crate) fn set(&mut self, direction: Direction, progress: u8) {
        self.reach(direction, progress);
        self.touch(direction);
    }

    /// The same, which is no news by itself: rules look when data comes.
    pub(crate) fn reach(&mut self, direction: Direction, progress: u8) {
        if let Some(place) = self.progress.get_mut(direction.index()) {
            *place = progress;
        }
    }

    /// Notes that there is news in this direction.
    pub fn touch(&mut self, direction: Direction) {
        if let Some(place) = self.updated.get_mut(direction.index()) {
            *place = true;
        }
    }

    /// Notes an event.
    pub fn event(&mut self, event: u8) {
        // Behind so many, new ones are not noted either.
        if self.occurrences.len() >= OCCURRENCES_MAX {
            return;
        }
        self.occurrences.push(event);
        if self.events.len() < EVENTS_MAX && !self.events.contains(&event) {
            self.events.push(event);
        }
    }

    /// Files of this direction.
    pub fn files(&self, direction: Direction) -> &[File] {
        self.files.get(direction.index()).map_or(&[], |files| files.as_slice())
    }
}

/// A transaction: the state and what the protocol has to say.
pub(crate) struct Transaction<T> {
    /// What all have.
    pub state: State,
    /// The protocol's own.
    pub data: T,
}

/// The transactions of a flow, oldest first.
pub(crate) struct Transactions<T> {
    list: VecDeque<Transaction<T>>,
    next: u64,
}

impl<T> Default for Transactions<T> {
    fn default() -> Self {
        Self { list: VecDeque::new(), next: 0 }
    }
}

impl<T> Transactions<T> {
    /// Adds one. The caller has a bound on how many there are.
    pub(crate) fn push(&mut self, data: T) -> Option<&mut Transaction<T>> {
        let state = State { id: self.next, ..State::default() };
        self.next += 1;
        self.list.push_back(Transaction { state, data });
        self.list.back_mut()
    }

    /// Adds one of this id in its place.
    pub(crate) fn insert(&mut self, id: u64, data: T) {
        let place = self.list.partition_point(|transaction| transaction.state.id < id);
        let state = State { id, ..State::default() };
        self.next = self.next.max(id + 1);
        self.list.insert(place, Transaction { state, data });
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.list.len()
    }

    /// How many there have been.
    pub(crate) fn total(&self) -> u64 {
        self.next
    }

    /// The one at this place.
    pub(crate) fn at(&self, place: usize) -> Option<&Transaction<T>> {
        self.list.get(place)
    }

    /// The one at this place.
    pub(crate) fn at_mut(&mut self, place: usize) -> Option<&mut Transaction<T>> {
        self.list.get_mut(place)
    }

    /// The one of this id.
    pub(crate) fn of_id(&self, id: u64) -> Option<&Transaction<T>> {
        self.list.get(self.place(id)?)
    }

    /// The one of this id.
    pub(crate) fn of_id_mut(&mut self, id: u64) -> Option<&mut Transaction<T>> {
        let place = self.place(id)?;
        self.list.get_mut(place)
    }

    /// Where the one of this id is.
    pub(crate) fn place(&self, id: u64) -> Option<usize> {
        self.list.binary_search_by_key(&id, |transaction| transaction.state.id).ok()
    }

    /// The newest.
    pub(crate) fn last_mut(&mut self) -> Option<&mut Transaction<T>> {
        self.list.back_mut()
    }

    /// All, oldest first.
    pub(crate) fn iter(&self) -> impl DoubleEndedIterator<Item = &Transaction<T>> {
        self.list.iter()
    }

    /// All, oldest first.
    pub(crate) fn iter_mut(&mut self) -> impl DoubleEndedIterator<Item = &mut Transaction<T>> {
        self.list.iter_mut()
    }

    /// Drops the one at this place.
    pub(crate) fn remove(&mut self, place: usize) {
        self.list.remove(place);
    }
}
