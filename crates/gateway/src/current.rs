//! The part of the settings in force that a stage reads.

use std::sync::Arc;

use arc_swap::ArcSwap;

/// A handle on the part `T` of the node's generation of settings. [`Current::get`] gives the
/// current one; a message or a session that keeps it sees one generation to the end.
pub struct Current<T>(Arc<dyn Fn() -> Arc<T> + Send + Sync>);

impl<T> Clone for Current<T> {
    fn clone(&self) -> Self {
        Current(self.0.clone())
    }
}

impl<T> std::fmt::Debug for Current<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Current")
    }
}

impl<T: Send + Sync + 'static> Current<T> {
    /// The part of whatever generation is in force.
    pub fn of<G: Send + Sync + 'static>(
        generation: &Arc<ArcSwap<G>>,
        part: fn(&G) -> &Arc<T>,
    ) -> Self {
        let generation = generation.clone();
        Current(Arc::new(move || part(&generation.load()).clone()))
    }

    /// One that never changes.
    pub fn fixed(value: T) -> Self {
        let value = Arc::new(value);
        Current(Arc::new(move || value.clone()))
    }

    /// The value in force. Take it once for each message or session.
    pub fn get(&self) -> Arc<T> {
        (self.0)()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_taken_stays_and_the_next_one_is_new() {
        let generation = Arc::new(ArcSwap::from_pointee((Arc::new(1), Arc::new("one"))));
        let number = Current::of(&generation, |g| &g.0);
        let word = Current::of(&generation, |g| &g.1);
        let taken = number.get();
        generation.store(Arc::new((Arc::new(2), Arc::new("two"))));
        assert_eq!((*taken, *number.get(), *word.get()), (1, 2, "two"));
        assert_eq!(*Current::fixed(3).get(), 3);
    }
}
