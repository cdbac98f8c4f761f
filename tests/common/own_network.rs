//! A network of a test's own: loopback alone, with all of its ports free, and a `resolv.conf` that
//! names a DNS server there. For programs that look for port 53 and 25 and cannot be told others.

use std::path::Path;
use std::process::Command;

use super::program;

/// Does something in such a network, on a thread of its own: what it starts is there, too. The
/// network ends with the last process in it. None, with a note, where this cannot be made.
pub(crate) fn in_own_network<T: Send>(work: impl FnOnce() -> T + Send) -> Option<T> {
    let ip = program("ip")?;
    let folder = tempfile::tempdir().unwrap();
    let resolver = folder.path().join("resolv.conf");
    std::fs::write(&resolver, "nameserver 127.0.0.1\noptions timeout:5\n").unwrap();
    // Programs that have given up their rights read it.
    for (path, mode) in [(folder.path(), 0o755), (&resolver, 0o644)] {
        let mode = std::os::unix::fs::PermissionsExt::from_mode(mode);
        std::fs::set_permissions(path, mode).unwrap();
    }
    std::thread::scope(|scope| {
        let there = scope.spawn(|| enter(&ip, &resolver).then(work));
        match there.join() {
            Ok(done) => done,
            Err(panicked) => std::panic::resume_unwind(panicked),
        }
    })
}

/// Gives this thread the network and mounts of its own.
fn enter(ip: &Path, resolver: &Path) -> bool {
    let none = std::ptr::null();
    // SAFETY: the calls concern this thread alone; the strings end in NUL and outlive them.
    let is_alone = unsafe {
        libc::unshare(libc::CLONE_NEWNET | libc::CLONE_NEWNS) == 0
            && libc::mount(none, c"/".as_ptr(), none, libc::MS_REC | libc::MS_PRIVATE, none.cast())
                == 0
    };
    let does = |command: &mut Command| command.status().is_ok_and(|status| status.success());
    let is_made = is_alone
        && does(Command::new(ip).args(["link", "set", "lo", "up"]))
        && does(Command::new("mount").arg("--bind").arg(resolver).arg("/etc/resolv.conf"));
    if !is_made {
        assert!(std::env::var_os("CI").is_none(), "network namespaces cannot be made");
        eprintln!("SKIPPED: network namespaces are root's to make");
    }
    is_made
}
