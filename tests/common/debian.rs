//! A Debian 12 to try things in: a folder that is made once, and above it, for each test, a layer
//! of its own that takes what the test writes.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// `tests/make-debian-root` makes it, which `check` runs.
const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/target/peers/debian-root/root");

/// A root folder in which commands run.
pub(crate) struct Debian {
    folder: tempfile::TempDir,
    root: PathBuf,
}

impl Debian {
    /// A fresh one, or none with a note where that cannot be made.
    pub(crate) fn new() -> Option<Self> {
        let skipped = |why: &str| {
            assert!(std::env::var_os("CI").is_none(), "{why}");
            eprintln!("SKIPPED: {why}");
            None
        };
        if !rustix::process::geteuid().is_root() {
            return skipped("root folders are root's to make");
        }
        let root = PathBuf::from(ROOT);
        if !root.with_file_name("made").exists() {
            return skipped(
                "no Debian in target/peers/debian-root; tests/make-debian-root makes it",
            );
        }
        // In /tmp, since what runs in it may be another user, and the temporary folder be closed
        // to others.
        let folder = tempfile::Builder::new().prefix("debian").tempdir_in("/tmp").unwrap();
        let open = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        fs::set_permissions(folder.path(), open).unwrap();
        for name in ["upper", "work", "root"] {
            let path = folder.path().join(name);
            fs::create_dir(&path).unwrap();
            // Whatever mask another test has set for files at this moment.
            let open = std::os::unix::fs::PermissionsExt::from_mode(0o755);
            fs::set_permissions(&path, open).unwrap();
        }
        let debian = Debian { folder, root };
        if !debian.sh("true").status().unwrap().success() {
            return skipped("the kernel lets nothing be mounted here");
        }
        Some(debian)
    }

    /// A script in it, with the program under test as `gauntlet`. It has a mount namespace of its
    /// own, which ends with it.
    pub(crate) fn sh(&self, script: &str) -> Command {
        let inside = |name: &str| self.folder.path().join(name).display().to_string();
        let root = inside("root");
        let outer = format!(
            "mount -t overlay overlay -o lowerdir={},upperdir={},workdir={} {root}\n\
             touch {root}/usr/bin/gauntlet\n\
             mount --bind {} {root}/usr/bin/gauntlet\n\
             mount --bind /dev {root}/dev\n\
             mount -t proc proc {root}/proc\n\
             cd {root}/root\n\
             exec chroot {root} /bin/sh -euc \"cd /root; $1\"",
            self.root.display(),
            inside("upper"),
            inside("work"),
            env!("CARGO_BIN_EXE_gauntlet"),
        );
        let mut command = Command::new("unshare");
        command.args(["--mount", "/bin/sh", "-euc", &outer, "sh", script]);
        command.env_remove("GAUNTLET_CONFIG").env("HOME", "/root").stdin(Stdio::null());
        command
    }

    /// What a script says, and its exit code.
    pub(crate) fn run(&self, script: &str) -> (String, i32) {
        let output = self.sh(script).output().unwrap();
        let said = [output.stdout, output.stderr].concat();
        (String::from_utf8_lossy(&said).into_owned(), output.status.code().unwrap_or(-1))
    }

    /// What scripts wrote to a path.
    pub(crate) fn written(&self, path: &str) -> Option<String> {
        let path = self.folder.path().join("upper").join(path.trim_start_matches('/'));
        fs::read_to_string(path).ok()
    }
}
