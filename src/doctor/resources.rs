//! What is on this machine: disks, certificates, the queue.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use gauntlet_gateway::clock::now_ms;
use gauntlet_gateway::config::{Config, SpoolBackend};
use gauntlet_gateway::control::{self, Answer, Request};
use gauntlet_gateway::ids;
use gauntlet_gateway::net::acme;
use gauntlet_gateway::net::tls;
use gauntlet_gateway::secrets::{Life, Secrets};
use gauntlet_mail::date::DAY_SECONDS;
use gauntlet_store::{Log, Quarantine};

use super::{Findings, Status};
use crate::denied::is_denied;

/// Free share of a disk below which there is a warning.
const DISK_FREE_WARNING: f64 = 0.10;
/// Days before a certificate's end from which on it is a warning, and an error.
const CERTIFICATE_DAYS_WARNING: i64 = 21;
const CERTIFICATE_DAYS_ERROR: i64 = 5;
/// Days that are named; beyond, a number says nothing.
const DAYS_NAMED_MAX: i64 = 3_652;
/// Age of the oldest message that waits, in minutes, from which on it is a warning.
const QUEUE_MINUTES_WARNING: i64 = 60;

/// A disk that data is on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Disk {
    /// What the node keeps on it: `data`, `spool`.
    pub(crate) what: &'static str,
    /// The folder whose file system it is.
    pub(crate) path: PathBuf,
    /// Bytes free for us.
    pub(crate) free: u64,
    /// Bytes of the file system, used ones included.
    pub(crate) total: u64,
}

/// Free and total bytes of a disk, in MiB if it has less than a GiB: for `gauntlet status` and
/// `gauntlet doctor` alike.
pub(crate) fn describe_room(free: u64, total: u64) -> String {
    let (unit, bytes_of_unit) = match total < 1 << 30 {
        true => ("MiB", 1 << 20),
        false => ("GiB", 1 << 30),
    };
    let in_unit = |bytes: u64| bytes as f64 / f64::from(bytes_of_unit);
    format!("{:.1} of {:.1} {unit} free", in_unit(free), in_unit(total))
}

/// The disks of data and spool; one line if they are the same.
pub(crate) fn disks(config: &Config) -> Vec<Disk> {
    let data = room(&config.node.data).map(|r| ("data", config.node.data.clone(), r));
    let spool = config.node.inside(&config.spool.path);
    let apart = config.spool.backend == SpoolBackend::Disk;
    let spool = room(&spool).filter(|_| apart).map(|r| ("spool", spool, r));
    let same = |a: &Room, b: &Room| a.device == b.device;
    let spool = match (&data, spool) {
        (Some((_, _, data)), Some((_, _, room))) if same(data, &room) => None,
        (_, spool) => spool,
    };
    let found = data.into_iter().chain(spool);
    found
        .map(|(what, path, room)| Disk { what, path, free: room.free, total: room.total })
        .collect()
}

struct Room {
    device: u64,
    free: u64,
    total: u64,
}

fn room(path: &Path) -> Option<Room> {
    use std::os::unix::ffi::OsStrExt;
    use std::os::unix::fs::MetadataExt;
    let device = std::fs::metadata(path).ok()?.dev();
    let name = std::ffi::CString::new(path.as_os_str().as_bytes()).ok()?;
    let mut found = std::mem::MaybeUninit::<libc::statvfs>::uninit();
    // SAFETY: `name` ends in NUL and lives through the call; statvfs fills the struct it is given,
    // and it is read only if the call says that it did.
    let found = unsafe {
        if libc::statvfs(name.as_ptr(), found.as_mut_ptr()) != 0 {
            return None;
        }
        found.assume_init()
    };
    let bytes = |blocks: u64| blocks.saturating_mul(found.f_frsize);
    Some(Room { device, free: bytes(found.f_bavail), total: bytes(found.f_blocks) })
}

/// There is room for mail.
pub(super) fn disk(config: &Config, found: &mut Findings) {
    for disk in disks(config) {
        let text = format!("{}: {}", disk.path.display(), describe_room(disk.free, disk.total));
        let min = config.spool.free_bytes_min;
        if disk.free < min {
            let hint =
                format!("under spool.free_bytes_min ({min} bytes): new mail gets 452; make room");
            found.add(Status::Error, "disk", format!("{text}, {hint}"));
        } else if (disk.free as f64) < DISK_FREE_WARNING * disk.total as f64 {
            found.add(Status::Warning, "disk", format!("{text}; make room before it is full"));
        } else {
            found.add(Status::Ok, "disk", text);
        }
    }
}

/// Certificates of listeners go with their keys; the days until they expire.
pub(super) fn certificates(config: &Config, secrets: Option<&Arc<Secrets>>, found: &mut Findings) {
    let now = now_ms() / 1_000;
    let given = acme::certificate(&config.node.data);
    // A node that runs may not read its keys, and has read them when it started.
    let problems = if secrets.is_none() { tls::problems(config) } else { Vec::new() };
    let told: Vec<String> = problems.iter().map(|error| format!("{error:#}")).collect();
    for (error, text) in problems.iter().zip(&told) {
        let (status, text) = match is_denied(error) {
            true => (Status::Warning, format!("{text}: not checked; run this as the node's user")),
            false => (Status::Error, format!("{text}: the node does not start")),
        };
        found.add(status, "certificate", text);
    }
    for (path, life) in lives(config, secrets) {
        let place = path.display();
        let (start, end) = match life {
            Ok(life) => life,
            Err(_) if told.iter().any(|text| text.contains(&place.to_string())) => continue,
            Err(error) => {
                found.add(Status::Error, "certificate", format!("{place}: {error}"));
                continue;
            }
        };
        let days = (end - now).div_euclid(DAY_SECONDS);
        let (warning_days, error_days) = match path == given {
            true => given_days(start, end),
            false => (CERTIFICATE_DAYS_WARNING, CERTIFICATE_DAYS_ERROR),
        };
        let (status, text) = if days < 0 {
            (Status::Error, format!("{place} expired {} days ago; renew it", -days))
        } else if days < error_days {
            (Status::Error, format!("{place} expires in {days} days; renew it"))
        } else if days < warning_days {
            (Status::Warning, format!("{place} expires in {days} days; is its renewal under way?"))
        } else {
            (Status::Ok, format!("{place} is valid for {}", span(days)))
        };
        found.add(status, "certificate", text);
    }
}

/// Days in words: a certificate that never ends says year 9999.
fn span(days: i64) -> String {
    if days > DAYS_NAMED_MAX { "more than 10 years".to_owned() } else { format!("{days} days") }
}

/// Days before the end of an authority's certificate from which on it is a warning and an error: it
/// is renewed when a third of its life is left, which may be as short as two days.
fn given_days(start: i64, end: i64) -> (i64, i64) {
    let life = (end - start) / DAY_SECONDS;
    (life / 5, life / 20)
}

/// The node has nothing to ask: whether its clock is right, whether much of what is held may go,
/// when it may be restarted to have all its processes again.
pub(super) fn questions(config: &Config, found: &mut Findings) {
    let Ok(Answer::Status(status)) = control::ask(&config.node.data, &Request::Status) else {
        return;
    };
    for problem in &status.problems {
        // Somebody wanted it so.
        let drains = status.draining_since_ms.is_some() && problem.starts_with("draining");
        found.add(if drains { Status::Warning } else { Status::Error }, "node", problem.as_str());
    }
    // Damaged days have a check of their own.
    for question in status.questions.iter().filter(|text| !is_about_log(text)) {
        let what = if question.starts_with("unpacking") { "unpacking" } else { "clock" };
        found.add(Status::Error, what, question.as_str());
    }
}

/// What a node asks is about a day of its message log.
fn is_about_log(question: &str) -> bool {
    question.starts_with("a day of the message log")
}

/// No day of the message log is damaged.
pub(super) fn message_log(config: &Config, found: &mut Findings) {
    let folder = config.node.data.join("log");
    if !folder.is_dir() {
        return;
    }
    let damaged = match control::ask(&config.node.data, &Request::Status) {
        // It has the files open.
        Ok(Answer::Status(status)) => {
            Ok(status.questions.into_iter().filter(|text| is_about_log(text)).collect())
        }
        _ => Log::examine(&folder),
    };
    match damaged {
        Ok(days) if days.is_empty() => found.add(Status::Ok, "message log", "no day is damaged"),
        Ok(days) => days.into_iter().for_each(|day| found.add(Status::Error, "message log", day)),
        Err(error) => found.add(Status::Error, "message log", error.to_string()),
    }
}

/// When certificates are valid, from the process that may read their files.
fn lives(config: &Config, secrets: Option<&Arc<Secrets>>) -> Vec<Life> {
    let Some(secrets) = secrets else {
        let read = tls::expiry::lives(config).into_iter();
        return read.map(|(path, life)| (path, life.map_err(|e| format!("{e:#}")))).collect();
    };
    let failed = |e| vec![(config.node.data.clone(), Err(format!("{e:#}")))];
    secrets.certificate_lives().unwrap_or_else(failed)
}

/// The files of held mail are there, as long as the index says.
pub(super) fn held_mail(config: &Config, found: &mut Findings) {
    let folder = config.node.data.join("quarantine");
    if !folder.join("quarantine.db").exists() {
        return;
    }
    let seen = Quarantine::open_shared(&folder)
        .and_then(|quarantine| Ok((quarantine.damaged_packs()?, quarantine.pack_totals()?)));
    match seen {
        Ok((damaged, totals)) if damaged.is_empty() => {
            let text = format!("{} packs, {} bytes, all there", totals.packs, totals.bytes);
            found.add(Status::Ok, "quarantine", text);
        }
        Ok((damaged, _)) => {
            damaged.into_iter().for_each(|text| found.add(Status::Error, "quarantine", text));
        }
        Err(error) => found.add(Status::Error, "quarantine", error.to_string()),
    }
}

/// The queue drains: how long its oldest message has waited.
pub(super) fn queue(config: &Config, found: &mut Findings) {
    let oldest = match control::ask(&config.node.data, &Request::List { max: 1 }) {
        Ok(Answer::Messages(waiting)) => waiting.into_iter().next(),
        _ => {
            found.add(
                Status::Warning,
                "queue",
                "no node answers there; is `gauntlet serve` running?",
            );
            return;
        }
    };
    let Some(oldest) = oldest else {
        found.add(Status::Ok, "queue", "nothing waits");
        return;
    };
    let since = ids::parse(&oldest.id).map_or(0, |id| now_ms() - ids::time_of(id));
    let minutes = since.max(0) / 60_000;
    let text = format!("the oldest message waits for {minutes} minutes: {}", oldest.reply);
    let is_late = minutes >= QUEUE_MINUTES_WARNING;
    found.add(
        if is_late { Status::Warning } else { Status::Ok },
        "queue",
        text.trim_end_matches(": "),
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_and_times_are_readable() {
        assert_eq!(describe_room(3 << 29, 10 << 30), "1.5 of 10.0 GiB free");
        assert_eq!(describe_room(3 << 20, 24 << 20), "3.0 of 24.0 MiB free");
        assert_eq!(span(3_652), "3652 days");
        assert_eq!(span(755_725), "more than 10 years");
    }
}
