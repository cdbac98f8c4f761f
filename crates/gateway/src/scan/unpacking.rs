//! Unpacking the files of a message, before it is judged.
//!
//! A message without files never comes here. One that has some leaves its scan thread, is unpacked
//! in a process of its own (`gauntlet_content::process`), and is judged with what was found.

use std::sync::Arc;

use gauntlet_content::process::client::{OnObject, Pool};
use gauntlet_content::{Limits, Object, Password, Root, Tree};
use gauntlet_mail::{Message, passwords};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::config::ContentSettings;

/// What unpacks, and within which limits.
#[derive(Debug, Clone)]
pub struct Unpacking {
    pool: Arc<Pool>,
    limits: Limits,
    /// Tried on every encrypted file.
    words: Vec<Password>,
    /// As many as there are workers: whoever waits for one must not hold a thread.
    turns: Arc<Semaphore>,
}

impl Unpacking {
    /// Of these settings, by the workers of this pool.
    pub fn new(settings: &ContentSettings, pool: Arc<Pool>) -> Self {
        let word = |word: &String| Password { word: word.clone(), source: "list".to_owned() };
        Unpacking {
            limits: settings.limits(),
            words: settings.passwords.iter().map(word).collect(),
            turns: Arc::new(Semaphore::new(pool.workers_max())),
            pool,
        }
    }

    /// The files of a message, and everything in them. Blocks.
    pub fn tree(&self, message: &Message<'_>) -> Tree {
        self.unpack(message, None)
    }

    fn unpack(&self, message: &Message<'_>, look: Option<&mut OnObject<'_>>) -> Tree {
        let files = message.files();
        let roots: Vec<Root<'_>> = files
            .iter()
            .map(|f| Root { name: &f.name, declared_type: &f.declared_type, bytes: f.bytes })
            .collect();
        if roots.is_empty() {
            return Tree::default();
        }
        let max = self.limits.passwords_max.saturating_sub(self.words.len());
        let of_message = passwords::candidates(message, max).into_iter();
        let word = |(word, source): (String, &str)| Password { word, source: source.to_owned() };
        let words: Vec<Password> = of_message.map(word).chain(self.words.iter().cloned()).collect();
        self.pool.unpack(&roots, &self.limits, &words, look)
    }

    /// The object of this SHA-256 (64 hexadecimal digits) anywhere in the message: its name and its
    /// bytes. Blocks.
    pub fn object(&self, message: &Message<'_>, sha256: &str) -> Option<(String, Vec<u8>)> {
        let mut found = None;
        let mut look = |object: &Object, bytes: &[u8]| {
            if found.is_none() && object.sha256 == sha256 {
                found = Some((object.name.clone(), bytes.to_vec()));
            }
        };
        self.unpack(message, Some(&mut look));
        found
    }

    /// The processes, and the limits of a request, for what else they do.
    pub fn tools(&self) -> (Arc<Pool>, Limits) {
        (self.pool.clone(), self.limits)
    }

    /// A turn to unpack: as many at once as there are workers. None if the node stops.
    pub(crate) async fn turn(&self) -> Option<OwnedSemaphorePermit> {
        self.turns.clone().acquire_owned().await.ok()
    }
}
