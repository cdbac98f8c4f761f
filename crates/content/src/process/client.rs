//! The node's side: a pool of workers.

use std::io::{self, IoSliceMut, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::process::{Child as Process, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use gauntlet_sniff::FileKind;
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};

use super::protocol::{
    self, COMMAND_BYTES, DisarmRequest, KILL, Kind, Request, START_TOOL, START_WORKER,
    VALUE_BYTES_MAX,
};
use super::{answer, tool};
use crate::digest;
use crate::disarm::Disarmed;
use crate::host::{ConvertError, Root};
use crate::limits::Limits;
use crate::object::{DefectKind, Object, ObjectDefect, Tree};
use crate::unpack::Password;

/// Requests that a worker answers before another takes its place: a leak stays small.
const REQUESTS_PER_WORKER_MAX: u32 = 1_000;
/// Time that a worker has above the limit of its request before it is killed.
const GRACE: Duration = Duration::from_secs(1);

/// Supervisors: a node that is confined cannot start one later, so that one waits in case the other
/// is killed.
const SUPERVISORS: usize = 2;

/// Looks at each object as it is found; its bytes come with it.
pub type OnObject<'c> = dyn FnMut(&Object, &[u8]) + 'c;

/// Workers, and the supervisor that starts them.
#[derive(Debug)]
pub struct Pool {
    supervisors: Mutex<Supervisors>,
    /// How many are left, for those who must not wait while one starts a process.
    supervisors_left: AtomicUsize,
    workers: Mutex<Workers>,
    freed: Condvar,
    workers_max: usize,
    /// Nice value of the process: a thread with a larger one stands back.
    nice: i32,
}

#[derive(Debug, Default)]
struct Workers {
    free: Vec<Worker>,
    /// How many run at all, and how many of those stand back.
    running: usize,
    standing_back: usize,
}

/// Nice value of the thread that calls. Who asks for a worker lends it its own: what unpacks a
/// large message for a thread that stands back stands back, too.
fn nice() -> i32 {
    rustix::process::getpriority_process(None).unwrap_or(0)
}

/// The supervisors that still run; the last one gets the requests.
#[derive(Debug, Default)]
struct Supervisors(Vec<Supervisor>);

#[derive(Debug)]
struct Supervisor {
    control: UnixStream,
    /// Its process id: no later one is ever the same, since the node starts none.
    id: u32,
    /// Until a thread waits for its end.
    process: Option<Process>,
}

/// A supervisor has ended by itself.
#[derive(Debug, Clone)]
pub struct SupervisorEnd {
    /// Its process id.
    pub id: u32,
    /// What the kernel says of its end.
    pub how: String,
    /// How many are left.
    pub left: usize,
}

/// A process that a supervisor has started.
#[derive(Debug, Clone, Copy)]
struct Started {
    /// Process id, as fork(2) gave it to the supervisor.
    number: i32,
    /// Process id of the supervisor whose child it is.
    supervisor: u32,
}

#[derive(Debug)]
struct Worker {
    socket: UnixStream,
    process: Started,
    /// It cannot become smaller again.
    nice: i32,
    requests: u32,
}

/// Why a worker gave no tree.
#[derive(Debug, thiserror::Error)]
pub enum WorkerError {
    /// It took longer than its limit, and was killed.
    #[error("the worker ran out of time")]
    OutOfTime,
    /// It ended or sent what is no answer.
    #[error("the worker failed: {0}")]
    Failed(io::Error),
    /// None could be started.
    #[error("no worker can be started: {0}")]
    NotStarted(io::Error),
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Pool {
    /// Starts the supervisors. `command` runs [`super::supervisor::serve`] on its standard input.
    /// At most `workers_max` workers run at once; a request that finds none free waits.
    ///
    /// # Errors
    /// If it cannot be started.
    pub fn start(mut command: Command, workers_max: usize) -> io::Result<Self> {
        let mut supervisors = Supervisors::default();
        for _ in 0..SUPERVISORS {
            let (control, theirs) = UnixStream::pair()?;
            command.stdin(Stdio::from(OwnedFd::from(theirs)));
            let process = command.spawn()?;
            supervisors.0.push(Supervisor { control, id: process.id(), process: Some(process) });
        }
        Ok(Pool {
            supervisors: Mutex::new(supervisors),
            supervisors_left: AtomicUsize::new(SUPERVISORS),
            workers: Mutex::default(),
            freed: Condvar::new(),
            workers_max: workers_max.max(1),
            nice: nice(),
        })
    }

    /// Watches, on a thread for each, for the end of supervisors: each is waited for, and `told` is
    /// called. Call it once the process has restricted itself: a thread that is older would not be
    /// restricted.
    ///
    /// # Errors
    /// If a thread cannot be started.
    pub fn watch(
        self: &Arc<Self>,
        told: impl Fn(&SupervisorEnd) + Clone + Send + 'static,
    ) -> io::Result<()> {
        let watched = |supervisor: &mut Supervisor| supervisor.process.take();
        let processes: Vec<Process> =
            lock(&self.supervisors).0.iter_mut().filter_map(watched).collect();
        for mut process in processes {
            let (pool, told, id) = (Arc::downgrade(self), told.clone(), process.id());
            let watch = move || {
                let how = match process.wait() {
                    Ok(status) => status.to_string(),
                    Err(error) => format!("it cannot be waited for: {error}"),
                };
                // A pool that is gone has ended its supervisors itself.
                if let Some(pool) = pool.upgrade() {
                    let left = pool.forget(id);
                    told(&SupervisorEnd { id, how, left });
                }
            };
            std::thread::Builder::new().name("unpacking-end".to_owned()).spawn(watch)?;
        }
        Ok(())
    }

    /// Forgets a supervisor that has ended. Result: how many are left.
    fn forget(&self, id: u32) -> usize {
        let mut supervisors = lock(&self.supervisors);
        supervisors.0.retain(|supervisor| supervisor.id != id);
        let left = supervisors.0.len();
        self.supervisors_left.store(left, Ordering::Relaxed);
        left
    }

    /// How many supervisors have ended, and how many there were at the start.
    pub fn supervisors_ended(&self) -> (usize, usize) {
        let left = self.supervisors_left.load(Ordering::Relaxed);
        (SUPERVISORS.saturating_sub(left), SUPERVISORS)
    }

    /// How many workers run at most.
    pub fn workers_max(&self) -> usize {
        self.workers_max
    }

    /// How many of them work at most for threads that stand back: as long as that takes, all others
    /// would wait.
    pub fn standing_back_max(&self) -> usize {
        (self.workers_max / 2).max(1)
    }

    /// Unpacks files in a worker. Blocks while it works, at most for the time of the limits and a
    /// little more, and before that while no worker is free. Whatever happens to the worker, there
    /// is a tree: with a defect at every file if it failed.
    pub fn unpack(
        &self,
        roots: &[Root<'_>],
        limits: &Limits,
        passwords: &[Password],
        on_object: Option<&mut OnObject<'_>>,
    ) -> Tree {
        match self.try_unpack(roots, limits, passwords, on_object) {
            Ok(tree) => tree,
            Err(error) => {
                let kind = match error {
                    WorkerError::OutOfTime => DefectKind::OutOfTime,
                    WorkerError::Failed(_) | WorkerError::NotStarted(_) => {
                        DefectKind::DecoderFailed
                    }
                };
                failed(roots, kind, &error.to_string())
            }
        }
    }

    fn try_unpack(
        &self,
        roots: &[Root<'_>],
        limits: &Limits,
        passwords: &[Password],
        on_object: Option<&mut OnObject<'_>>,
    ) -> Result<Tree, WorkerError> {
        self.with_worker(limits, |worker| self.ask(worker, roots, limits, passwords, on_object))
    }

    /// Disarms a file in a worker; blocks as [`Pool::unpack`] does. A worker that fails refuses.
    pub fn disarm(&self, file: &Root<'_>, is_page: bool, limits: &Limits) -> Disarmed {
        let done = self.with_worker(limits, |worker| ask_disarm(worker, file, is_page, limits));
        done.unwrap_or_else(|error| Disarmed::Refused(error.to_string()))
    }

    /// Has a worker answer one request; one that fails is replaced.
    fn with_worker<T>(
        &self,
        limits: &Limits,
        ask: impl FnOnce(&mut Worker) -> io::Result<T>,
    ) -> Result<T, WorkerError> {
        let mut worker = self.take()?;
        let began = Instant::now();
        let asked = ask(&mut worker);
        let done = asked.map_err(|error| match error.kind() {
            io::ErrorKind::TimedOut | io::ErrorKind::WouldBlock => WorkerError::OutOfTime,
            // One that took all its CPU time was ended by the kernel. Whatever else ended it so
            // late: what it leaves unread is the same.
            _ if is_gone(&error) && began.elapsed() >= limits.cpu_time_max => {
                WorkerError::OutOfTime
            }
            _ => WorkerError::Failed(error),
        });
        worker.requests += 1;
        if done.is_ok() && worker.requests < REQUESTS_PER_WORKER_MAX {
            lock(&self.workers).free.push(worker);
            self.freed.notify_all();
        } else {
            self.kill(worker.process);
            self.ended(worker.nice);
        }
        done
    }

    /// A worker of the caller's nice value that is free, or a new one.
    fn take(&self) -> Result<Worker, WorkerError> {
        let nice = nice();
        let stands_back = nice > self.nice;
        let mut workers = lock(&self.workers);
        let other = loop {
            if let Some(at) = workers.free.iter().rposition(|worker| worker.nice == nice) {
                return Ok(workers.free.swap_remove(at));
            }
            let may_start = !stands_back || workers.standing_back < self.standing_back_max();
            if may_start && workers.running < self.workers_max {
                break None;
            }
            // One of another nice value leaves its place.
            if let Some(other) = workers.free.pop_if(|_| may_start) {
                break Some(other);
            }
            workers = self.freed.wait(workers).unwrap_or_else(PoisonError::into_inner);
        };
        workers.running += 1;
        workers.standing_back += usize::from(stands_back);
        drop(workers);
        if let Some(other) = other {
            self.kill(other.process);
            self.ended(other.nice);
        }
        let started = self.start_process(START_WORKER, 0);
        if started.is_err() {
            self.ended(nice);
        }
        let (process, socket) = started.map_err(WorkerError::NotStarted)?;
        Ok(Worker { socket, process, nice, requests: 0 })
    }

    /// A worker of this nice value runs no longer.
    fn ended(&self, nice: i32) {
        let mut workers = lock(&self.workers);
        workers.running -= 1;
        workers.standing_back -= usize::from(nice > self.nice);
        drop(workers);
        self.freed.notify_all();
    }

    /// Has a supervisor start a process by the caller's nice value, a tool for archives of this
    /// kind or a worker; that one, and its socket. A supervisor that has exited is replaced by the
    /// one in reserve.
    fn start_process(&self, what: u8, kind: u8) -> io::Result<(Started, UnixStream)> {
        let mut command = [0; COMMAND_BYTES];
        (command[0], command[1]) = (what, kind);
        command[4..8].copy_from_slice(&nice().to_le_bytes());
        let mut supervisors = lock(&self.supervisors);
        loop {
            let Some(supervisor) = supervisors.0.last_mut() else {
                let why = "no process that unpacks is left; restart the node";
                return Err(io::Error::new(io::ErrorKind::NotConnected, why));
            };
            match supervisor.start(command) {
                Err(error) if is_gone(&error) => {
                    // Where it is watched, another thread does.
                    let _reaped = supervisor.process.as_mut().map(Process::wait);
                    supervisors.0.pop();
                    self.supervisors_left.store(supervisors.0.len(), Ordering::Relaxed);
                }
                started => {
                    let supervisor = supervisor.id;
                    let of = |number| Started { number, supervisor };
                    return started.map(|(number, socket)| (of(number), socket));
                }
            }
        }
    }

    fn kill(&self, process: Started) {
        let mut supervisors = lock(&self.supervisors);
        // Of a supervisor that has exited the id may be another process's by now. What it had
        // started ends with its socket, or by the kernel's timer.
        let its_own = supervisors.0.iter_mut().find(|s| s.id == process.supervisor);
        if let Some(supervisor) = its_own {
            supervisor.kill(process.number);
        }
    }

    fn ask(
        &self,
        worker: &mut Worker,
        roots: &[Root<'_>],
        limits: &Limits,
        passwords: &[Password],
        mut on_object: Option<&mut OnObject<'_>>,
    ) -> io::Result<Tree> {
        let until = Instant::now() + limits.time_max + GRACE;
        let request = Request {
            limits: *limits,
            passwords: passwords.to_vec(),
            roots: roots.iter().map(|r| (r.name.to_owned(), r.declared_type.to_owned())).collect(),
            wants_objects: on_object.is_some(),
        };
        let mut socket = Timed { socket: &worker.socket, until };
        protocol::write_value(&mut socket, Kind::Request, &request)?;
        for root in roots {
            protocol::write(&mut socket, Kind::Bytes, root.bytes)?;
        }
        let object_max = answer::size_max(limits, largest(roots));
        // Each object is sent once, and asks for one conversion at most.
        let mut frames_left = limits.objects_max.saturating_mul(2).saturating_add(1);
        loop {
            frames_left = frames_left.checked_sub(1).ok_or(io::ErrorKind::InvalidData)?;
            match protocol::read(&mut socket, VALUE_BYTES_MAX)? {
                (Kind::Tree, body) => {
                    let tree: Tree = protocol::value(&body)?;
                    return answer::check(&tree, roots, limits).map(|()| tree);
                }
                (Kind::Object, body) => {
                    let object: Object = protocol::value(&body)?;
                    answer::check_object(&object, roots, limits)?;
                    let bytes = expect_bytes(&mut socket, object.size)?;
                    if bytes.len() as u64 != object.size {
                        return Err(io::ErrorKind::InvalidData.into());
                    }
                    if let Some(callback) = on_object.as_deref_mut() {
                        callback(&object, &bytes);
                    }
                }
                (Kind::Convert, body) => {
                    let kind: FileKind = protocol::value(&body)?;
                    let bytes = expect_bytes(&mut socket, object_max)?;
                    match self.convert(kind, &bytes, limits.object_bytes_max, until) {
                        Ok(tar) => protocol::write(&mut socket, Kind::Bytes, &tar)?,
                        Err(why) => protocol::write_value(&mut socket, Kind::NotConverted, &why)?,
                    }
                }
                _ => return Err(io::ErrorKind::InvalidData.into()),
            }
        }
    }

    /// Has a tool turn an archive into a tar archive.
    fn convert(
        &self,
        kind: FileKind,
        bytes: &[u8],
        bytes_max: u64,
        until: Instant,
    ) -> Result<Vec<u8>, ConvertError> {
        let failed = |error: io::Error| match error.kind() {
            io::ErrorKind::TimedOut | io::ErrorKind::WouldBlock => ConvertError::OutOfTime,
            io::ErrorKind::InvalidData => ConvertError::TooLarge,
            _ => ConvertError::Failed(error.to_string()),
        };
        let kind = tool::number_of(kind);
        let (number, stream) = self.start_process(START_TOOL, kind).map_err(failed)?;
        let mut socket = Timed { socket: &stream, until };
        let answer = protocol::write(&mut socket, Kind::Bytes, bytes)
            .and_then(|()| protocol::read(&mut socket, bytes_max));
        self.kill(number);
        match answer.map_err(failed)? {
            (Kind::Bytes, tar) => Ok(tar),
            (Kind::NotConverted, why) => {
                Err(protocol::value(&why).unwrap_or(ConvertError::OutOfTime))
            }
            _ => Err(ConvertError::Failed("no answer of the tool".to_owned())),
        }
    }
}

impl Supervisor {
    /// Has it start a process: number and socket.
    fn start(&mut self, command: [u8; COMMAND_BYTES]) -> io::Result<(i32, UnixStream)> {
        self.control.write_all(&command)?;
        let mut number = [0; 4];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut ancillary = RecvAncillaryBuffer::new(&mut space);
        let buffers = &mut [IoSliceMut::new(&mut number)];
        let got = recvmsg(&self.control, buffers, &mut ancillary, RecvFlags::CMSG_CLOEXEC)?.bytes;
        if got < 4 {
            self.control.read_exact(&mut number[got..])?;
        }
        let number = i32::from_le_bytes(number);
        if number < 0 {
            return Err(io::Error::from_raw_os_error(-number));
        }
        for message in ancillary.drain() {
            if let RecvAncillaryMessage::ScmRights(mut sockets) = message
                && let Some(socket) = sockets.next()
            {
                return Ok((number, UnixStream::from(socket)));
            }
        }
        Err(io::Error::new(io::ErrorKind::InvalidData, "a process without a socket"))
    }

    fn kill(&mut self, number: i32) {
        let mut command = [0; COMMAND_BYTES];
        command[0] = KILL;
        command[1..5].copy_from_slice(&number.to_le_bytes());
        let _a_dead_supervisor_has_no_children = self.control.write_all(&command);
    }
}

fn is_gone(error: &io::Error) -> bool {
    use io::ErrorKind::{BrokenPipe, ConnectionReset, UnexpectedEof};
    matches!(error.kind(), BrokenPipe | ConnectionReset | UnexpectedEof)
}

impl Drop for Pool {
    fn drop(&mut self) {
        // A supervisor ends when its control socket does, and its children with it.
        for supervisor in &mut lock(&self.supervisors).0 {
            let _closed = supervisor.control.shutdown(std::net::Shutdown::Both);
            let _reaped = supervisor.process.as_mut().map(Process::wait);
        }
    }
}

fn ask_disarm(
    worker: &Worker,
    file: &Root<'_>,
    is_page: bool,
    limits: &Limits,
) -> io::Result<Disarmed> {
    let until = Instant::now() + limits.time_max + GRACE;
    let mut socket = Timed { socket: &worker.socket, until };
    let (name, declared_type) = (file.name.to_owned(), file.declared_type.to_owned());
    let request = DisarmRequest { limits: *limits, is_page, name, declared_type };
    protocol::write_value(&mut socket, Kind::Disarm, &request)?;
    protocol::write(&mut socket, Kind::Bytes, file.bytes)?;
    let (Kind::Disarmed, body) = protocol::read(&mut socket, VALUE_BYTES_MAX)? else {
        return Err(io::ErrorKind::InvalidData.into());
    };
    let mut disarmed = answer::checked(protocol::value(&body)?)?;
    if let Disarmed::Changed(harmless) = &mut disarmed {
        // Names and tags only become fewer; a package may be compressed less well.
        let bytes_max = (file.bytes.len() as u64).saturating_mul(2).max(limits.object_bytes_max);
        harmless.bytes = expect_bytes(&mut socket, bytes_max)?;
    }
    Ok(disarmed)
}

fn largest(roots: &[Root<'_>]) -> u64 {
    roots.iter().map(|root| root.bytes.len() as u64).max().unwrap_or(0)
}

fn expect_bytes(socket: &mut Timed<'_>, bytes_max: u64) -> io::Result<Vec<u8>> {
    match protocol::read(socket, bytes_max)? {
        (Kind::Bytes, bytes) => Ok(bytes),
        _ => Err(io::ErrorKind::InvalidData.into()),
    }
}

/// The tree of files that no worker could read: their kinds come from their first bytes.
pub fn failed(roots: &[Root<'_>], kind: DefectKind, why: &str) -> Tree {
    let objects = roots.iter().zip(0u32..).map(|(root, index)| {
        let (sha256, md5) = digest::of(root.bytes);
        let shown = if root.name.is_empty() { "unnamed" } else { root.name };
        Object {
            parent: None,
            root: index,
            path: crate::text::printable(shown),
            name: root.name.to_owned(),
            declared_type: root.declared_type.to_ascii_lowercase(),
            kind: gauntlet_sniff::sniff(root.bytes),
            size: root.bytes.len() as u64,
            sha256,
            md5,
            properties: Vec::new(),
            defects: vec![ObjectDefect { kind, detail: crate::text::bounded(why, 200) }],
            text: String::new(),
            urls: Vec::new(),
        }
    });
    Tree { objects: objects.collect(), ..Tree::default() }
}

/// A socket whose reads and writes end at one time.
struct Timed<'s> {
    socket: &'s UnixStream,
    until: Instant,
}

impl Timed<'_> {
    fn left(&self) -> io::Result<Duration> {
        let left = self.until.saturating_duration_since(Instant::now());
        if left.is_zero() { Err(io::ErrorKind::TimedOut.into()) } else { Ok(left) }
    }
}

impl Read for Timed<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.socket.set_read_timeout(Some(self.left()?))?;
        (&mut &*self.socket).read(buffer)
    }
}

impl Write for Timed<'_> {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        self.socket.set_write_timeout(Some(self.left()?))?;
        (&mut &*self.socket).write(buffer)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
