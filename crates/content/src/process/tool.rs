//! Programs of the system that read what no safe decoder reads: `bsdtar` of libarchive turns RAR,
//! LHA and others into a tar archive, without writing a file.

use std::fs::File;
use std::io::{self, Read, Seek, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use gauntlet_sandbox::landlock::{EXECUTE, READ, Ruleset};
use gauntlet_sandbox::{Resource, limit, seccomp};
use gauntlet_sniff::FileKind;
use rustix::fs::{MemfdFlags, memfd_create};

use super::protocol::{self, Kind, Settings};
use crate::host::ConvertError;

/// Kinds that tools read, by their number in a command.
const KINDS: [FileKind; 5] =
    [FileKind::Rar, FileKind::Lha, FileKind::Cab, FileKind::DiskImage, FileKind::SevenZip];
/// Folders in which programs are looked for.
const PROGRAM_FOLDERS: [&str; 3] = ["/usr/bin", "/bin", "/usr/local/bin"];
/// What a tool may read and start: its libraries.
pub(super) const READABLE: [&str; 5] = ["/usr", "/lib", "/lib64", "/etc/ld.so.cache", "/dev/null"];
/// Bytes of memory that a tool may map.
const MEMORY_BYTES_MAX: u64 = 1 << 30;
/// Bytes of what a tool says about its failure.
const COMPLAINT_BYTES_MAX: u64 = 4_096;
/// Bytes of an archive that is given to a tool.
const ARCHIVE_BYTES_MAX: u64 = 1 << 32;

/// The number of a kind; of a kind that no tool reads, one that [`kind_of`] does not know.
pub(super) fn number_of(kind: FileKind) -> u8 {
    let number = KINDS.iter().position(|k| *k == kind).and_then(|n| u8::try_from(n + 1).ok());
    number.unwrap_or(0)
}

pub(super) fn kind_of(number: u8) -> Option<FileKind> {
    usize::from(number).checked_sub(1).and_then(|n| KINDS.get(n)).copied()
}

/// A program, where it is installed.
pub fn find(program: &str) -> Option<PathBuf> {
    PROGRAM_FOLDERS.iter().map(|folder| Path::new(folder).join(program)).find(|path| path.is_file())
}

/// The tool that reads a kind: its name, and the Debian package that has it.
pub fn tool_of(kind: FileKind) -> Option<(&'static str, &'static str)> {
    KINDS.contains(&kind).then_some(("bsdtar", "libarchive-tools"))
}

/// Reads an archive from the socket, has it converted, writes the answer.
///
/// # Errors
/// The socket's.
pub(super) fn serve(
    mut socket: UnixStream,
    kind: Option<FileKind>,
    settings: &Settings,
) -> io::Result<()> {
    let (_, archive) = protocol::read(&mut socket, ARCHIVE_BYTES_MAX)?;
    match convert(kind, &archive, settings) {
        Ok(tar) => protocol::write(&mut socket, Kind::Bytes, &tar),
        Err(why) => protocol::write_value(&mut socket, Kind::NotConverted, &why),
    }
}

fn convert(
    kind: Option<FileKind>,
    archive: &[u8],
    settings: &Settings,
) -> Result<Vec<u8>, ConvertError> {
    let failed = |error: io::Error| ConvertError::Failed(error.to_string());
    let tool = kind.and_then(tool_of);
    let (name, package) = tool.ok_or_else(|| {
        let kind = kind.unwrap_or(FileKind::Unknown);
        ConvertError::Missing(format!("a program that reads {}", kind.media_type()))
    })?;
    let missing = || ConvertError::Missing(format!("{name} (Debian package {package})"));
    let program = find(name).ok_or_else(missing)?;
    // A file in memory: some formats are read from their end.
    let input = memfd_create("archive", MemfdFlags::CLOEXEC).map_err(|e| failed(e.into()))?;
    let mut input = File::from(input);
    input.write_all(archive).and_then(|()| input.rewind()).map_err(failed)?;
    confine(settings).map_err(failed)?;
    let mut command = Command::new(program);
    command.args(["-c", "-f", "-", "--format", "pax", "@-"]).env_clear().env("LC_ALL", "C.UTF-8");
    command.stdin(OwnedFd::from(input)).stdout(Stdio::piped()).stderr(Stdio::piped());
    // SAFETY: the closure makes system calls only, and allocates what the filter needs in a process
    // that has one thread.
    unsafe { command.pre_exec(seccomp::enforce_tool) };
    let mut child = command.spawn().map_err(failed)?;
    let (mut tar, mut complaint) = (Vec::new(), String::new());
    if let Some(out) = child.stdout.take() {
        let most = settings.tool_bytes_max.saturating_add(1);
        out.take(most).read_to_end(&mut tar).map_err(failed)?;
    }
    if tar.len() as u64 > settings.tool_bytes_max {
        return Err(ConvertError::TooLarge);
    }
    if let Some(errors) = child.stderr.take() {
        let _none_of_it_is_needed = errors.take(COMPLAINT_BYTES_MAX).read_to_string(&mut complaint);
    }
    let status = child.wait().map_err(failed)?;
    let encrypted = complaint.to_ascii_lowercase().contains("encrypt");
    if status.success() {
        Ok(tar)
    } else if encrypted {
        Err(ConvertError::Encrypted)
    } else {
        Err(ConvertError::Failed(complaint.lines().next().unwrap_or("failed").to_owned()))
    }
}

/// What this process and the program that it starts may use.
fn confine(settings: &Settings) -> io::Result<()> {
    limit(Resource::CoreFile, 0)?;
    limit(Resource::AddressSpace, MEMORY_BYTES_MAX.saturating_add(settings.tool_bytes_max * 4))?;
    limit(Resource::CpuSeconds, settings.tool_time_max.as_secs().max(1))?;
    let rules = match Ruleset::new() {
        Ok(rules) => rules,
        // A kernel without Landlock: `doctor` says so.
        Err(_) => return Ok(()),
    };
    for path in READABLE {
        rules.allow(Path::new(path), READ | EXECUTE)?;
    }
    rules.enforce()
}
