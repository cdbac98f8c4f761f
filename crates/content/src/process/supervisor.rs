//! The supervisor: forks workers and tools, hands their sockets to the node, kills them.
//!
//! It has one thread, so that a fork is a whole process, and reads no content itself.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, IoSlice, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;

use gauntlet_sandbox::landlock::{EXECUTE, READ, Ruleset};
use gauntlet_sandbox::seccomp;
use gauntlet_sniff::FileKind;
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
use rustix::process::{Pid, Signal, WaitOptions, kill_process, setpriority_process, waitpid};

pub use super::protocol::Settings;
use super::protocol::{COMMAND_BYTES, KILL, START_TOOL, START_WORKER};
use super::tool;
use super::worker::{self, MessageReader};

/// Serves the control socket until it is closed. Call it while the process has one thread. Standard
/// input, which the control socket came as, is given up.
///
/// # Errors
/// The control socket's, or that there is no `/dev/null`.
pub fn serve(
    mut control: UnixStream,
    settings: &Settings,
    reader: MessageReader,
) -> io::Result<()> {
    give_up_standard_input()?;
    let lacks = confine();
    if !lacks.is_empty() && !settings.allow_uncaged {
        return Err(io::Error::other(lacks.join("; ")));
    }
    let mut children = BTreeSet::new();
    let mut command = [0; COMMAND_BYTES];
    loop {
        match control.read_exact(&mut command) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => break,
            Err(error) => return Err(error),
        }
        reap(&mut children);
        let nice = i32::from_le_bytes([command[4], command[5], command[6], command[7]]);
        match command[0] {
            START_WORKER => {
                let run = |socket| run_worker(socket, settings, reader);
                start(&mut control, &mut children, nice, run)?;
            }
            START_TOOL => {
                let kind = tool::kind_of(command[1]);
                let run = |socket| run_tool(socket, kind, settings);
                start(&mut control, &mut children, nice, run)?;
            }
            KILL => {
                let number = i32::from_le_bytes([command[1], command[2], command[3], command[4]]);
                // Only children of ours that have not been waited for: the number is still theirs.
                if children.contains(&number) {
                    kill(number);
                }
            }
            _ => return Err(io::ErrorKind::InvalidData.into()),
        }
    }
    // The node has exited: nobody waits for their answers.
    children.iter().for_each(|number| kill(*number));
    Ok(())
}

/// Leaves the control socket open once: a child that kept another copy of it would hide the end of
/// this process from the node, which would wait for an answer for ever.
fn give_up_standard_input() -> io::Result<()> {
    let nothing = File::open("/dev/null")?;
    // SAFETY: both descriptors are open; nothing of this process reads the one that is replaced.
    match unsafe { libc::dup2(nothing.as_raw_fd(), libc::STDIN_FILENO) } {
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}

/// What the supervisor and all that it starts may use: what a tool needs of the system. Result:
/// what the kernel does not do.
fn confine() -> Vec<String> {
    let files = || -> io::Result<()> {
        let rules = Ruleset::new()?;
        for path in tool::READABLE {
            rules.allow(Path::new(path), READ | EXECUTE)?;
        }
        rules.allow(Path::new("/proc"), READ)?;
        rules.enforce()
    };
    let done = [
        ("privileges", gauntlet_sandbox::no_new_privileges()),
        ("Landlock", files()),
        ("seccomp", seccomp::enforce_supervisor()),
    ];
    let lacks = done.into_iter().filter_map(|(what, done)| done.err().map(|e| (what, e)));
    lacks.map(|(what, error)| format!("{what}: {error}")).collect()
}

fn kill(number: i32) {
    if let Some(pid) = Pid::from_raw(number) {
        let _it_may_have_ended = kill_process(pid, Signal::KILL);
    }
}

/// Forgets the children that have ended.
fn reap(children: &mut BTreeSet<i32>) {
    while let Ok(Some((pid, _))) = waitpid(None, WaitOptions::NOHANG) {
        children.remove(&pid.as_raw_nonzero().get());
    }
}

/// Forks a child that runs, by this nice value, with one end of a socket pair; the other goes to
/// the node.
fn start(
    control: &mut UnixStream,
    children: &mut BTreeSet<i32>,
    nice: i32,
    run: impl FnOnce(UnixStream),
) -> io::Result<()> {
    let (ours, theirs) = UnixStream::pair()?;
    // SAFETY: this process has one thread; the child runs on in a copy of it.
    match unsafe { libc::fork() } {
        -1 => {
            let error = io::Error::last_os_error();
            let code = error.raw_os_error().unwrap_or(libc::EAGAIN);
            control.write_all(&(-code).to_le_bytes())
        }
        0 => {
            drop(ours);
            // SAFETY: the child's copy of the control socket is closed once, by this call; its
            // owner is never dropped, since the child ends by `_exit`.
            unsafe { libc::close(control.as_raw_fd()) };
            // One that may not be as low as the node's thread is no reason to unpack nothing.
            let _refused = setpriority_process(None, nice);
            run(theirs);
            // SAFETY: ends the child at once, without the parent's handlers and buffers.
            unsafe { libc::_exit(0) }
        }
        number => {
            children.insert(number);
            drop(theirs);
            send_socket(control, number, ours.as_fd())
        }
    }
}

/// Sends the child's number with its socket.
fn send_socket(control: &UnixStream, number: i32, socket: BorrowedFd<'_>) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    let sockets = [socket];
    ancillary.push(SendAncillaryMessage::ScmRights(&sockets));
    let number = number.to_le_bytes();
    sendmsg(control, &[IoSlice::new(&number)], &mut ancillary, SendFlags::empty())?;
    Ok(())
}

fn run_worker(socket: UnixStream, settings: &Settings, reader: MessageReader) {
    let lacks = worker::enter_cage(settings.memory_bytes_max);
    if lacks.is_empty() || settings.allow_uncaged {
        let _the_node_sees_that_it_is_closed = worker::serve(socket, reader);
    }
}

fn run_tool(socket: UnixStream, kind: Option<FileKind>, settings: &Settings) {
    let _the_node_sees_that_it_is_closed = tool::serve(socket, kind, settings);
}
