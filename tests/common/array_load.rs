//! Clients that send to an array through its balancer, and remember what they were told.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::{Smtp, message};

/// What a client was told of its message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Told {
    /// 250: the array has it now.
    Taken,
    /// 5xx: nobody may have it.
    Refused,
    /// 4xx: come again; nobody may have it.
    Later,
    /// The connection broke before the answer: it may be there, once.
    Nothing,
}

/// Clients that send at once.
pub(crate) const CLIENTS: u8 = 4;
/// Messages of a session; then the balancer chooses anew.
const OF_A_SESSION: u64 = 5;
/// Between two messages of a client: the machine has other work, too.
const PAUSE: Duration = Duration::from_millis(25);

/// Senders of which the policy of the test knows.
pub(crate) const HELD: &str = "hold@example.org";
pub(crate) const REFUSED: &str = "refuse@example.org";
/// What becomes of its mail changes with each edition.
pub(crate) const SWINGS: &str = "swing@example.org";
const PLAIN: &str = "ann@example.org";

/// By the message's token.
pub(crate) type Answers = BTreeMap<String, Told>;

/// Clients that send until they are stopped; what was not answered is not sent again.
pub(crate) struct Load {
    stop: Arc<AtomicBool>,
    answers: Arc<Mutex<Answers>>,
    threads: Vec<std::thread::JoinHandle<()>>,
}

/// Who sent the message of this token.
pub(crate) fn sender_of_token(token: &str) -> &'static str {
    let number = token.strip_prefix('t').and_then(|number| number.parse().ok());
    sender_of(number.unwrap_or_else(|| panic!("{token} is no token of the load")))
}

fn sender_of(number: u64) -> &'static str {
    match number % 8 {
        0 => HELD,
        1 => REFUSED,
        2 => SWINGS,
        _ => PLAIN,
    }
}

impl Load {
    pub(crate) fn start(front: SocketAddr) -> Self {
        let (stop, answers) = (Arc::<AtomicBool>::default(), Arc::<Mutex<Answers>>::default());
        let next = Arc::new(AtomicU64::new(0));
        let thread = |n| {
            let (stop, answers, next) = (stop.clone(), answers.clone(), next.clone());
            std::thread::spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    session(([127, 0, 0, 10 + n], front), &next, &answers);
                    std::thread::sleep(PAUSE);
                }
            })
        };
        let threads = (0..CLIENTS).map(thread).collect();
        Load { stop, answers, threads }
    }

    /// Messages that were taken until now.
    pub(crate) fn taken(&self) -> usize {
        self.answers.lock().unwrap().values().filter(|told| **told == Told::Taken).count()
    }

    /// Stops it; what each message was answered.
    pub(crate) fn end(self) -> Answers {
        self.stop.store(true, Ordering::Relaxed);
        self.threads.into_iter().for_each(|thread| thread.join().unwrap());
        std::mem::take(&mut *self.answers.lock().unwrap())
    }
}

fn session(
    (from, front): ([u8; 4], SocketAddr),
    next: &Arc<AtomicU64>,
    answers: &Arc<Mutex<Answers>>,
) {
    // No node may be there just now.
    let Ok(mut client) = Smtp::connect_from(from, front) else { return };
    for _ in 0..OF_A_SESSION {
        let number = next.fetch_add(1, Ordering::Relaxed);
        let token = format!("t{number}");
        let body = message(&token, 300 + usize::try_from(number % 5).unwrap() * 1_500);
        let sent = client.send(sender_of(number), &["bob@example.net"], &body);
        let told = match &sent {
            Ok(reply) if reply.starts_with('2') => Told::Taken,
            Ok(reply) if reply.starts_with('5') => Told::Refused,
            Ok(_) => Told::Later,
            Err(_) => Told::Nothing,
        };
        answers.lock().unwrap().insert(token, told);
        if matches!(told, Told::Nothing | Told::Later) {
            return;
        }
        std::thread::sleep(PAUSE);
    }
    let _all_is_answered = client.say("QUIT");
}
