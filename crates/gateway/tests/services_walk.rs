//! The nasty sessions of `sessions/`, and a walk through mangled ones from a fixed seed: every
//! session with a service ends in time, is answered in its protocol, and nobody after it notices.
//! The fuzz target `services` asks the same for longer.

use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Sessions with bytes that were changed.
const ROUNDS: usize = 600;

/// Panics in any thread: a runtime swallows those of its tasks.
static PANICS: AtomicUsize = AtomicUsize::new(0);

fn sessions() -> Vec<(String, Vec<u8>)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/sessions");
    let files = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap());
    let mut sessions: Vec<_> = files
        .map(|f| (f.file_name().into_string().unwrap(), std::fs::read(f.path()).unwrap()))
        .collect();
    sessions.sort();
    sessions
}

#[test]
fn whatever_a_client_says_the_next_is_served() {
    let before = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        PANICS.fetch_add(1, Ordering::Relaxed);
        before(info);
    }));
    let sessions = sessions();
    assert!(sessions.len() > 80, "{}", sessions.len());
    for (name, bytes) in &sessions {
        crate::services_bytes::ask(bytes);
        assert_eq!(PANICS.load(Ordering::Relaxed), 0, "{name}");
    }
    let mut state: u64 = 0x6761_756e_746c_6574;
    let mut below = |n: usize| {
        state ^= state >> 12;
        state ^= state << 25;
        state ^= state >> 27;
        usize::try_from(state.wrapping_mul(0x2545_F491_4F6C_DD1D) % n.max(1) as u64).unwrap()
    };
    for _ in 0..ROUNDS {
        let mut bytes = sessions[below(sessions.len())].1.clone();
        for _ in 0..1 + below(4) {
            let (at, other) = (below(bytes.len()), &sessions[below(sessions.len())].1);
            match below(4) {
                0 => bytes[at] = u8::try_from(below(256)).unwrap(),
                1 => bytes.truncate(at.max(1)),
                2 => bytes.extend_from_slice(&other[below(other.len())..]),
                _ => drop(bytes.splice(at..at, other.iter().take(below(40)).copied())),
            }
        }
        bytes.truncate(1 << 17);
        crate::services_bytes::ask(&bytes);
        assert_eq!(PANICS.load(Ordering::Relaxed), 0, "{}", bytes.escape_ascii());
    }
    // Threads of the services may still write there: what is left is the system's to clear.
    let _removed = std::fs::remove_dir_all(crate::services_bytes::folder());
}
