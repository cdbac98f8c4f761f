//! What a service manager is told of a node: sd_notify(3), in the few lines that it takes.
//!
//! With `Type=notify` systemd counts the node as started once its listeners answer, shows why a
//! reload changed nothing, and starts the node anew if it hangs. Without `$NOTIFY_SOCKET` nobody is
//! told anything.

use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::sync::Arc;
use std::time::Duration;

/// Characters of a reason that the manager shows.
const REASON_CHARACTERS_MAX: usize = 500;
/// How much longer than the sessions' end a stop may take, in seconds: the queue, the array and the
/// web path end after it.
const STOP_SECONDS_BESIDE: u64 = 60;

/// The service manager that started this process, if one did and wants to be told.
#[derive(Debug, Default)]
pub(super) struct ServiceManager {
    socket: Option<UnixDatagram>,
    /// It starts the node anew if it hears nothing for so long.
    watchdog: Option<Duration>,
}

impl ServiceManager {
    /// As the environment names it. Call it before the process gives up what it does not need: the
    /// socket is connected for good.
    pub(super) fn of_environment() -> Self {
        let text = |name: &str| std::env::var(name).unwrap_or_default();
        let socket = match std::env::var("NOTIFY_SOCKET") {
            Ok(place) if !place.is_empty() => match connect(&place) {
                Ok(socket) => Some(socket),
                Err(error) => {
                    // There is no log yet.
                    eprintln!("gauntlet: NOTIFY_SOCKET {place}: {error}; nothing is told there");
                    None
                }
            },
            _ => None,
        };
        let ours = ["", &std::process::id().to_string()].contains(&text("WATCHDOG_PID").as_str());
        let wanted = text("WATCHDOG_USEC").parse().ok().filter(|_| ours && socket.is_some());
        let watchdog = wanted.filter(|period| *period > 0).map(Duration::from_micros);
        ServiceManager { socket, watchdog }
    }

    /// All listeners answer.
    pub(super) fn ready(&self) {
        self.tell("READY=1\nSTATUS=takes mail");
    }

    /// The configuration is read anew.
    pub(super) fn reloading(&self) {
        self.tell(&format!("RELOADING=1\nMONOTONIC_USEC={}", monotonic_microseconds()));
    }

    /// It is in force, or why everything stays as it was.
    pub(super) fn reloaded(&self, outcome: Result<(), String>) {
        let status = match outcome {
            Ok(()) => "takes mail".to_owned(),
            Err(why) => {
                let why = why.replace(char::is_control, " ");
                let why: String = why.chars().take(REASON_CHARACTERS_MAX).collect();
                format!("takes mail; configuration not reloaded: {why}")
            }
        };
        self.tell(&format!("READY=1\nSTATUS={status}"));
    }

    /// No new sessions; those that are open have so many seconds.
    pub(super) fn stopping(&self, drain_seconds_max: u64) {
        let most = Duration::from_secs(drain_seconds_max.saturating_add(STOP_SECONDS_BESIDE));
        let most = most.as_micros();
        self.tell(&format!("STOPPING=1\nEXTEND_TIMEOUT_USEC={most}\nSTATUS=sessions end"));
    }

    /// Says again and again that the runtime of this task is alive, if the manager wants to know.
    pub(super) async fn keep_alive(self: Arc<Self>) {
        let Some(period) = self.watchdog else { return };
        let mut ticks = tokio::time::interval(period / 3);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            self.tell("WATCHDOG=1");
        }
    }

    fn tell(&self, what: &str) {
        let Some(socket) = &self.socket else { return };
        if let Err(error) = socket.send(what.as_bytes()) {
            tracing::warn!(%error, what, "the service manager was not told");
        }
    }
}

/// Connects to a path, or to a name without a file (`@name`). A manager that does not read must not
/// make mail wait, so nothing blocks.
fn connect(place: &str) -> std::io::Result<UnixDatagram> {
    let socket = UnixDatagram::unbound()?;
    match place.strip_prefix('@') {
        Some(name) => socket.connect_addr(&SocketAddr::from_abstract_name(name)?)?,
        None => socket.connect(place)?,
    }
    socket.set_nonblocking(true)?;
    Ok(socket)
}

/// What `Type=notify-reload` compares a reload's beginning with, in microseconds.
fn monotonic_microseconds() -> i64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `now` is a plain C struct that lives through the call.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut now) };
    now.tv_sec * 1_000_000 + now.tv_nsec / 1_000
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(socket: &UnixDatagram) -> String {
        let mut buffer = [0; 4096];
        let length = socket.recv(&mut buffer).unwrap();
        String::from_utf8_lossy(&buffer[..length]).into_owned()
    }

    #[test]
    fn a_manager_hears_of_start_reload_and_stop() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("notify");
        let manager_side = UnixDatagram::bind(&path).unwrap();
        let socket = Some(connect(path.to_str().unwrap()).unwrap());
        let manager = ServiceManager { socket, watchdog: None };
        manager.ready();
        assert_eq!(told(&manager_side), "READY=1\nSTATUS=takes mail");
        manager.reloading();
        let said = told(&manager_side);
        let time = said.strip_prefix("RELOADING=1\nMONOTONIC_USEC=").unwrap();
        assert!(time.parse::<u64>().unwrap() > 0);
        manager.reloaded(Err("line 3:\nREADY=0".to_owned()));
        let said = told(&manager_side);
        assert_eq!(said.lines().count(), 2, "a reason is one line: {said}");
        assert!(said.contains("not reloaded: line 3: READY=0"), "{said}");
        manager.stopping(30);
        assert!(told(&manager_side).contains("EXTEND_TIMEOUT_USEC=90000000\n"));
    }

    #[test]
    fn a_manager_without_a_file_is_reached_by_its_name() {
        let name = format!("gauntlet-test-{}", std::process::id());
        let address = SocketAddr::from_abstract_name(&name).unwrap();
        let manager_side = UnixDatagram::bind_addr(&address).unwrap();
        let socket = Some(connect(&format!("@{name}")).unwrap());
        ServiceManager { socket, watchdog: None }.ready();
        assert!(told(&manager_side).starts_with("READY=1"));
    }

    /// Nobody reads; whoever is to be told must not wait for that.
    #[test]
    fn a_manager_that_does_not_read_costs_no_time() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("notify");
        let _never_read = UnixDatagram::bind(&path).unwrap();
        let socket = Some(connect(path.to_str().unwrap()).unwrap());
        let manager = ServiceManager { socket, watchdog: None };
        for _ in 0..10_000 {
            manager.tell("WATCHDOG=1");
        }
    }
}
