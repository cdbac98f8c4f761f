//! Any program that looks at one file and says by its exit code, or by what it prints, what it
//! found.
//!
//! A node that is confined can start no programs: a process of its own, started before
//! ([`serve`]), does, and starts the commands of the settings only. The file is the program's
//! standard input; where it wants a path, `{}` among its arguments is replaced by one that leads
//! there.

use std::fs::File;
use std::io::{self, IoSlice, IoSliceMut, Read, Seek, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use regex::Regex;
use rustix::fs::{MemfdFlags, memfd_create};
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};
use rustix::process::{Pid, Signal, kill_process_group};

use super::{Answer, Engine, EngineError, EngineItem};

/// Bytes of a request: number of the command, milliseconds.
const REQUEST_BYTES: usize = 8;
/// Bytes of what a program prints that are read.
const OUTPUT_BYTES_MAX: u64 = 16 << 10;
/// Stands for the path of the file.
const FILE_MARK: &str = "{}";
/// The path of a program's standard input.
const STDIN_PATH: &str = "/proc/self/fd/0";
/// Exit code that is sent for a program that was ended because of its time.
const OUT_OF_TIME: i32 = -1;
/// Exit code that is sent for a program that could not be started.
const NOT_STARTED: i32 = -2;
/// Exit code that is sent for a program that a signal ended.
const SIGNALLED: i32 = -3;
/// Time between two looks whether a program has ended.
const POLL_PAUSE: Duration = Duration::from_millis(5);
/// What the node waits longer than a program may take.
const GRACE: Duration = Duration::from_secs(1);

/// The process that starts commands.
#[derive(Debug)]
pub struct Launcher {
    control: Mutex<UnixStream>,
    /// Until a thread waits for its end.
    process: Mutex<Option<Child>>,
}

impl Launcher {
    /// Starts it. `command` runs [`serve`] on its standard input.
    ///
    /// # Errors
    /// If it cannot be started.
    pub fn start(mut command: Command) -> io::Result<Self> {
        let (control, theirs) = UnixStream::pair()?;
        command.stdin(Stdio::from(OwnedFd::from(theirs)));
        let process = Mutex::new(Some(command.spawn()?));
        Ok(Launcher { process, control: Mutex::new(control) })
    }

    /// Watches, on a thread of its own, for the end of the process; `told` gets its process id and
    /// what the kernel says of its end. Call it once this process has restricted itself: a thread
    /// that is older would not be restricted.
    ///
    /// # Errors
    /// If the thread cannot be started.
    pub fn watch(
        self: &Arc<Self>,
        told: impl FnOnce(u32, String) + Send + 'static,
    ) -> io::Result<()> {
        let process = self.process.lock().unwrap_or_else(PoisonError::into_inner).take();
        let (Some(mut process), launcher) = (process, Arc::downgrade(self)) else {
            return Ok(());
        };
        std::thread::Builder::new().name("launcher-end".to_owned()).spawn(move || {
            let how = match process.wait() {
                Ok(status) => status.to_string(),
                Err(error) => format!("it cannot be waited for: {error}"),
            };
            // One that is gone has ended the process itself.
            if launcher.strong_count() > 0 {
                told(process.id(), how);
            }
        })?;
        Ok(())
    }

    /// Has a command look at a file: its exit code and what it printed.
    fn run(&self, number: usize, bytes: &[u8], until: Instant) -> io::Result<(i32, Vec<u8>)> {
        let left = until.saturating_duration_since(Instant::now());
        let number = u32::try_from(number).map_err(io::Error::other)?;
        let millis = u32::try_from(left.as_millis()).unwrap_or(u32::MAX);
        if millis == 0 {
            return Err(io::ErrorKind::TimedOut.into());
        }
        let mut file = File::from(memfd_create("object", MemfdFlags::CLOEXEC)?);
        file.write_all(bytes)?;
        file.rewind()?;
        let (ours, theirs) = UnixStream::pair()?;
        {
            let files = [file.as_fd(), theirs.as_fd()];
            let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
            let mut ancillary = SendAncillaryBuffer::new(&mut space);
            ancillary.push(SendAncillaryMessage::ScmRights(&files));
            let mut request = [0; REQUEST_BYTES];
            request[..4].copy_from_slice(&number.to_le_bytes());
            request[4..].copy_from_slice(&millis.to_le_bytes());
            let control = self.control.lock().unwrap_or_else(PoisonError::into_inner);
            sendmsg(&*control, &[IoSlice::new(&request)], &mut ancillary, SendFlags::NOSIGNAL)?;
        }
        drop(theirs);
        ours.set_read_timeout(Some(left + GRACE))?;
        let (mut code, mut output) = ([0; 4], Vec::new());
        (&ours).read_exact(&mut code)?;
        (&ours).take(OUTPUT_BYTES_MAX).read_to_end(&mut output)?;
        Ok((i32::from_le_bytes(code), output))
    }
}

impl Drop for Launcher {
    fn drop(&mut self) {
        let control = self.control.get_mut().unwrap_or_else(PoisonError::into_inner);
        let _closed = control.shutdown(std::net::Shutdown::Both);
        let process = self.process.get_mut().unwrap_or_else(PoisonError::into_inner);
        // Where it is watched, another thread does.
        let _reaped = process.as_mut().map(Child::wait);
    }
}

/// The launcher's side: starts `commands`, each a program with its arguments, as requests come,
/// until the control socket is closed.
///
/// # Errors
/// The control socket's.
pub fn serve(control: &UnixStream, commands: &[Vec<String>]) -> io::Result<()> {
    loop {
        let mut request = [0; REQUEST_BYTES];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
        let mut ancillary = RecvAncillaryBuffer::new(&mut space);
        let buffers = &mut [IoSliceMut::new(&mut request)];
        let got = recvmsg(control, buffers, &mut ancillary, RecvFlags::CMSG_CLOEXEC)?.bytes;
        if got == 0 {
            return Ok(());
        }
        let mut files: Vec<OwnedFd> = Vec::new();
        for message in ancillary.drain() {
            if let RecvAncillaryMessage::ScmRights(sent) = message {
                files.extend(sent);
            }
        }
        let (Some(reply), Some(file)) = (files.pop(), files.pop()) else {
            return Err(io::ErrorKind::InvalidData.into());
        };
        let number = u32::from_le_bytes([request[0], request[1], request[2], request[3]]);
        let millis = u32::from_le_bytes([request[4], request[5], request[6], request[7]]);
        let command = usize::try_from(number).ok().and_then(|n| commands.get(n)).cloned();
        let time_max = Duration::from_millis(millis.into());
        let run = move || answer(&command.unwrap_or_default(), file, reply.into(), time_max);
        // No thread: the node sees that the answer is closed.
        let _started = std::thread::Builder::new().spawn(run);
    }
}

fn answer(command: &[String], file: OwnedFd, mut reply: UnixStream, time_max: Duration) {
    let (code, output) = match run(command, file, time_max) {
        Ok(done) => done,
        Err(error) => (NOT_STARTED, error.to_string().into_bytes()),
    };
    let _the_node_may_have_gone =
        reply.write_all(&code.to_le_bytes()).and_then(|()| reply.write_all(&output));
}

fn run(command: &[String], file: OwnedFd, time_max: Duration) -> io::Result<(i32, Vec<u8>)> {
    let [program, arguments @ ..] = command else {
        return Err(io::ErrorKind::NotFound.into());
    };
    let output = File::from(memfd_create("output", MemfdFlags::CLOEXEC)?);
    let mut child = Command::new(program)
        .args(arguments.iter().map(|a| a.replace(FILE_MARK, STDIN_PATH)))
        .env_clear()
        .env("PATH", "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin")
        .env("LC_ALL", "C.UTF-8")
        .stdin(file)
        .stdout(output.try_clone()?)
        .stderr(output.try_clone()?)
        .process_group(0)
        .spawn()?;
    let status = wait(&mut child, time_max)?;
    let mut printed = Vec::new();
    let mut output = output;
    output.rewind()?;
    output.take(OUTPUT_BYTES_MAX).read_to_end(&mut printed)?;
    let code = match status {
        None => OUT_OF_TIME,
        Some(status) => status.code().unwrap_or(SIGNALLED),
    };
    Ok((code, printed))
}

/// Waits for a program; one that takes too long is ended with all that it started.
fn wait(child: &mut Child, time_max: Duration) -> io::Result<Option<ExitStatus>> {
    let until = Instant::now() + time_max;
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        if Instant::now() >= until {
            if let Some(group) = i32::try_from(child.id()).ok().and_then(Pid::from_raw) {
                let _it_may_have_ended = kill_process_group(group, Signal::KILL);
            }
            child.wait()?;
            return Ok(None);
        }
        std::thread::sleep(POLL_PAUSE);
    }
}

/// What a command's exit codes mean.
#[derive(Debug, Clone)]
pub struct CommandMeaning {
    /// Exit codes that mean that nothing was found, unless `name_pattern` matches.
    pub clean_codes: Vec<i32>,
    /// Exit codes that mean a finding, with or without a name.
    pub infected_codes: Vec<i32>,
    /// Where the name stands in what the program prints: the first group, else all that matches.
    /// With a pattern and the code of a clean file, a match is a finding, too.
    pub name_pattern: Option<Regex>,
}

/// A command as an engine.
#[derive(Debug)]
pub struct CommandEngine {
    launcher: Arc<Launcher>,
    number: usize,
    argv: Vec<String>,
    meaning: CommandMeaning,
}

impl CommandEngine {
    /// The command of this number among those that the launcher was started with.
    pub fn new(
        launcher: Arc<Launcher>,
        number: usize,
        argv: Vec<String>,
        meaning: CommandMeaning,
    ) -> Self {
        CommandEngine { launcher, number, argv, meaning }
    }
}

impl CommandMeaning {
    fn answer(&self, code: i32, output: &[u8]) -> Result<Answer, EngineError> {
        let output = String::from_utf8_lossy(output);
        let name = self.name_pattern.as_ref().and_then(|pattern| {
            let groups = pattern.captures(&output)?;
            groups.get(1).or_else(|| groups.get(0)).map(|m| m.as_str().trim().to_owned())
        });
        let first_line = || output.lines().next().unwrap_or_default().chars().take(120).collect();
        if self.infected_codes.contains(&code) {
            return Ok(Answer::Found(vec![name.unwrap_or_else(|| format!("exit code {code}"))]));
        }
        if self.clean_codes.contains(&code) {
            return Ok(name.map_or(Answer::Clean, |name| Answer::Found(vec![name])));
        }
        let line: String = first_line();
        Err(match code {
            OUT_OF_TIME => EngineError::OutOfTime,
            NOT_STARTED => EngineError::Unreachable(line),
            SIGNALLED => EngineError::Failed("a signal ended it".to_owned()),
            _ => EngineError::Failed(format!("exit code {code}: {line}")),
        })
    }
}

impl Engine for CommandEngine {
    fn version(&self, _: Instant) -> Result<String, EngineError> {
        Ok(self.argv.join(" "))
    }

    fn scan(&self, item: &EngineItem<'_>, until: Instant) -> Result<Answer, EngineError> {
        let (code, output) = self.launcher.run(self.number, item.bytes, until)?;
        self.meaning.answer(code, &output)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_and_patterns() {
        let meaning = CommandMeaning {
            clean_codes: vec![0],
            infected_codes: vec![1, 10],
            name_pattern: Some(Regex::new("Virus: (.*)").unwrap()),
        };
        let found = |name: &str| Ok(Answer::Found(vec![name.to_owned()]));
        assert_eq!(meaning.answer(0, b"all is well\n"), Ok(Answer::Clean));
        assert_eq!(meaning.answer(0, b"Virus: X \n"), found("X"));
        assert_eq!(meaning.answer(10, b"a\nVirus: Y\n"), found("Y"));
        assert_eq!(meaning.answer(1, b""), found("exit code 1"));
        let failed = EngineError::Failed("exit code 2: no licence".to_owned());
        assert_eq!(meaning.answer(2, b"no licence\n"), Err(failed));
        assert_eq!(meaning.answer(OUT_OF_TIME, b""), Err(EngineError::OutOfTime));
    }

    fn run_here(argv: &[&str], bytes: &[u8], time_max: Duration) -> (i32, String) {
        let mut file = File::from(memfd_create("test", MemfdFlags::CLOEXEC).unwrap());
        file.write_all(bytes).unwrap();
        file.rewind().unwrap();
        let argv: Vec<String> = argv.iter().map(|a| (*a).to_owned()).collect();
        let (code, output) = run(&argv, file.into(), time_max).unwrap();
        (code, String::from_utf8(output).unwrap())
    }

    #[test]
    fn programs_read_the_file_and_end_in_time() {
        let long = Duration::from_secs(20);
        assert_eq!(run_here(&["cat"], b"by input", long), (0, "by input".to_owned()));
        assert_eq!(run_here(&["cat", "{}"], b"by path", long), (0, "by path".to_owned()));
        assert_eq!(run_here(&["sh", "-c", "exit 7"], b"", long).0, 7);
        assert_eq!(run_here(&["sh", "-c", "kill -9 $$"], b"", long).0, SIGNALLED);
        let short = Duration::from_millis(30);
        assert_eq!(run_here(&["sh", "-c", "sleep 100 & wait"], b"", short).0, OUT_OF_TIME);
        let missing = ["/nonexistent/scanner".to_owned()];
        let file = memfd_create("test", MemfdFlags::CLOEXEC).unwrap();
        assert_eq!(run(&missing, file, long).unwrap_err().kind(), io::ErrorKind::NotFound);
    }

    #[test]
    fn a_launcher_over_its_socket() {
        let (control, theirs) = UnixStream::pair().unwrap();
        let commands = vec![vec!["wc".to_owned(), "-c".to_owned()]];
        let server = std::thread::spawn(move || serve(&theirs, &commands));
        // Stands in for the launcher's process, which `tests/` of the program run.
        let process = Mutex::new(Some(Command::new("true").spawn().unwrap()));
        let launcher = Launcher { control: Mutex::new(control), process };
        let until = Instant::now() + Duration::from_secs(20);
        let (code, output) = launcher.run(0, &[b'x'; 100_000], until).unwrap();
        assert_eq!((code, output.trim_ascii()), (0, b"100000".as_slice()));
        assert_eq!(launcher.run(5, b"", until).unwrap().0, NOT_STARTED, "no such command");
        drop(launcher);
        server.join().unwrap().unwrap();
    }
}
