//! A worker: unpacks what comes over its socket, and can do nothing else.

use std::io::{self, Write};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use gauntlet_sandbox::{Resource, landlock, limit, seccomp};
use gauntlet_sniff::FileKind;

use super::protocol::{self, DisarmRequest, Kind, Request, VALUE_BYTES_MAX};
use crate::disarm::Disarmed;
use crate::host::{Child, ConvertError, Host, Root};
use crate::limits::Limits;
use crate::object::Object;

/// Bytes of one root: those of the largest message that is taken, and more.
const ROOT_BYTES_MAX: u64 = 1 << 32;
/// Roots of one request.
const ROOTS_MAX: usize = 4_096;
/// Time that a request may take above its own limit before the kernel ends the worker.
const GRACE: Duration = Duration::from_secs(2);

/// The same for its CPU time: decoders look at their budget more often than this.
const CPU_GRACE: Duration = Duration::from_millis(500);

/// Reads the parts of a message, decoded: [`Host::message`] of the program around.
pub type MessageReader = fn(&[u8]) -> Vec<(Child, Vec<u8>)>;

/// Gives up everything but memory, time and the open socket.
///
/// Result: what the kernel does not do, empty if it does all.
pub fn enter_cage(memory_bytes_max: u64) -> Vec<String> {
    let mut lacks = Vec::new();
    let mut note = |what: &str, done: io::Result<()>| {
        if let Err(error) = done {
            lacks.push(format!("{what}: {error}"));
        }
    };
    note("core files", limit(Resource::CoreFile, 0));
    note("file sizes", limit(Resource::FileSize, 0));
    // What the allocator has reserved so far is no memory of a request.
    let memory = mapped_bytes().saturating_add(memory_bytes_max);
    note("memory", limit(Resource::AddressSpace, memory));
    note("Landlock", landlock::Ruleset::new().and_then(landlock::Ruleset::enforce));
    note("open files", limit(Resource::OpenFiles, 0));
    note("seccomp", seccomp::enforce_worker());
    lacks
}

/// Bytes that this process has mapped now.
fn mapped_bytes() -> u64 {
    let pages = std::fs::read_to_string("/proc/self/statm").ok();
    let pages = pages.and_then(|text| text.split(' ').next().and_then(|n| n.parse::<u64>().ok()));
    // The page of every machine that Debian runs on is at least this long.
    pages.unwrap_or(1 << 20).saturating_mul(4_096)
}

/// Answers requests until the socket is closed.
///
/// # Errors
/// The socket's, or that a request is none.
pub fn serve(mut socket: UnixStream, reader: MessageReader) -> io::Result<()> {
    loop {
        let (kind, body) = match protocol::read(&mut socket, VALUE_BYTES_MAX) {
            Ok(frame) => frame,
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(()),
            Err(error) => return Err(error),
        };
        match kind {
            Kind::Request => {
                let request: Request = protocol::value(&body)?;
                alarms(&request.limits);
                answer(&mut socket, &request, reader)?;
            }
            Kind::Disarm => {
                let request: DisarmRequest = protocol::value(&body)?;
                alarms(&request.limits);
                disarm(&mut socket, &request)?;
            }
            _ => return Err(io::ErrorKind::InvalidData.into()),
        }
        alarm(Clock::Wall, Duration::ZERO);
        alarm(Clock::Cpu, Duration::ZERO);
    }
}

fn answer(socket: &mut UnixStream, request: &Request, reader: MessageReader) -> io::Result<()> {
    if request.roots.len() > ROOTS_MAX {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let mut bodies = Vec::new();
    for _ in &request.roots {
        match protocol::read(socket, ROOT_BYTES_MAX)? {
            (Kind::Bytes, body) => bodies.push(body),
            _ => return Err(io::ErrorKind::InvalidData.into()),
        }
    }
    let roots: Vec<Root<'_>> = request
        .roots
        .iter()
        .zip(&bodies)
        .map(|((name, declared_type), bytes)| Root { name, declared_type, bytes })
        .collect();
    let mut host =
        SocketHost { socket, wants_objects: request.wants_objects, reader, failed: None };
    let tree = crate::unpack(&roots, &request.limits, &request.passwords, &mut host);
    if let Some(error) = host.failed {
        return Err(error);
    }
    protocol::write_value(socket, Kind::Tree, &tree)?;
    socket.flush()
}

fn disarm(socket: &mut UnixStream, request: &DisarmRequest) -> io::Result<()> {
    let (Kind::Bytes, file) = protocol::read(socket, ROOT_BYTES_MAX)? else {
        return Err(io::ErrorKind::InvalidData.into());
    };
    let disarmed = {
        let root =
            Root { name: &request.name, declared_type: &request.declared_type, bytes: &file };
        crate::disarm::disarm(&root, request.is_page, &request.limits)
    };
    protocol::write_value(socket, Kind::Disarmed, &disarmed)?;
    if let Disarmed::Changed(harmless) = &disarmed {
        protocol::write(socket, Kind::Bytes, &harmless.bytes)?;
    }
    socket.flush()
}

/// Has the kernel end this process where its own checks do not, behind either time of a request.
fn alarms(limits: &Limits) {
    alarm(Clock::Wall, limits.time_max + GRACE);
    alarm(Clock::Cpu, limits.cpu_time_max + CPU_GRACE);
}

/// Clocks of the kernel's timers (setitimer(2)).
#[derive(Debug, Clone, Copy)]
enum Clock {
    Wall,
    /// CPU time of this process, in the kernel too.
    Cpu,
}

/// Has the kernel end this process after a time, zero for never.
fn alarm(clock: Clock, after: Duration) {
    let value = libc::timeval {
        tv_sec: libc::time_t::try_from(after.as_secs()).unwrap_or(libc::time_t::MAX),
        tv_usec: libc::suseconds_t::from(after.subsec_micros()),
    };
    let once =
        libc::itimerval { it_interval: libc::timeval { tv_sec: 0, tv_usec: 0 }, it_value: value };
    let which = match clock {
        Clock::Wall => libc::ITIMER_REAL,
        Clock::Cpu => libc::ITIMER_PROF,
    };
    // SAFETY: both structures are valid for the call, the second is not asked for.
    unsafe { libc::setitimer(which, &raw const once, std::ptr::null_mut()) };
}

/// Asks the node over the socket.
struct SocketHost<'s> {
    socket: &'s mut UnixStream,
    wants_objects: bool,
    reader: MessageReader,
    failed: Option<io::Error>,
}

impl SocketHost<'_> {
    fn ask(&mut self, kind: FileKind, bytes: &[u8], max: u64) -> io::Result<(Kind, Vec<u8>)> {
        protocol::write_value(self.socket, Kind::Convert, &kind)?;
        protocol::write(self.socket, Kind::Bytes, bytes)?;
        protocol::read(self.socket, max)
    }
}

impl Host for SocketHost<'_> {
    fn object(&mut self, object: &Object, bytes: &[u8]) {
        if !self.wants_objects || self.failed.is_some() {
            return;
        }
        let sent = protocol::write_value(self.socket, Kind::Object, object)
            .and_then(|()| protocol::write(self.socket, Kind::Bytes, bytes));
        self.failed = sent.err();
    }

    fn convert(
        &mut self,
        kind: FileKind,
        bytes: &[u8],
        bytes_max: u64,
    ) -> Result<Vec<u8>, ConvertError> {
        match self.ask(kind, bytes, bytes_max) {
            Ok((Kind::Bytes, tar)) => Ok(tar),
            Ok((Kind::NotConverted, why)) => {
                Err(protocol::value(&why).unwrap_or(ConvertError::OutOfTime))
            }
            Ok(_) => Err(ConvertError::Failed("no answer of the node".to_owned())),
            Err(error) => {
                let why = ConvertError::Failed(error.to_string());
                self.failed = Some(error);
                Err(why)
            }
        }
    }

    fn message(&mut self, bytes: &[u8]) -> Vec<(Child, Vec<u8>)> {
        (self.reader)(bytes)
    }
}
