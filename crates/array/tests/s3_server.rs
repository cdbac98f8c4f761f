//! An S3 server of a test's own (rclone's, which checks signatures), on a free port, in a temporary
//! folder.

use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use crate::port::free_port;

/// The server's secret as an address has it.
pub(crate) const SECRET: &str = "s3cr%2Fet%2Bkey";

/// A running server with the bucket `mail`; ended when it is dropped.
pub(crate) struct S3 {
    child: Child,
    pub(crate) port: u16,
    folder: tempfile::TempDir,
    options: Vec<String>,
}

impl Drop for S3 {
    fn drop(&mut self) {
        self.kill();
    }
}

fn program() -> Option<PathBuf> {
    let named = std::env::var_os("GAUNTLET_RCLONE").map(PathBuf::from);
    let own = Path::new(env!("CARGO_MANIFEST_DIR"));
    let usual = ["target", "../../target"].map(|t| own.join(t).join("peers/s3/bin/rclone"));
    named.into_iter().chain(usual).find(|path| path.is_file())
}

impl S3 {
    /// Starts a server. None, with a loud note, if it is not installed; then a test in CI fails.
    pub(crate) fn start() -> Option<S3> {
        Self::start_with(&[])
    }

    /// The same with a certificate: PEM files of it and of its key.
    #[allow(dead_code, reason = "tests of one of the two binaries that share this file use it")]
    pub(crate) fn start_encrypted(cert: &Path, key: &Path) -> Option<S3> {
        let [cert, key] = [cert, key].map(|path| path.display().to_string());
        Self::start_with(&["--cert", &cert, "--key", &key])
    }

    fn start_with(options: &[&str]) -> Option<S3> {
        if program().is_none() {
            let missing = "rclone is not installed (./check does it)";
            assert!(std::env::var_os("CI").is_none(), "{missing}");
            eprintln!("SKIPPED: {missing}");
            return None;
        }
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("mail")).unwrap();
        let port = free_port(&["127.0.0.1"]);
        let options: Vec<String> = options.iter().map(|option| (*option).to_owned()).collect();
        let child = launch(folder.path(), port, &options);
        let mut server = S3 { child, port, folder, options };
        server.wait();
        Some(server)
    }

    pub(crate) fn kill(&mut self) {
        let _it_may_be_gone = self.child.kill();
        let _it_may_be_gone = self.child.wait();
    }

    /// It answers nothing any more, and its connections stay.
    #[allow(dead_code, reason = "tests of one of the two binaries that share this file use it")]
    pub(crate) fn pause(&mut self) {
        signal(&[self.child.id()], "-STOP");
    }

    /// It is there after [`S3::kill`] or [`S3::pause`].
    #[allow(dead_code, reason = "tests of one of the two binaries that share this file use it")]
    pub(crate) fn mend(&mut self) {
        match self.child.try_wait() {
            Ok(None) => signal(&[self.child.id()], "-CONT"),
            _ => self.restart(),
        }
    }

    /// Starts it again; what was changed on its disk is seen then.
    pub(crate) fn restart(&mut self) {
        self.kill();
        self.child = launch(self.folder.path(), self.port, &self.options);
        self.wait();
    }

    fn wait(&mut self) {
        for _ in 0..600 {
            if TcpStream::connect(("127.0.0.1", self.port)).is_ok() {
                return;
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        panic!("the S3 server does not answer");
    }

    /// Copies the objects below this name into a folder, as somebody else's S3 client does it.
    #[allow(dead_code, reason = "tests of one of the two binaries that share this file use it")]
    pub(crate) fn download(&self, name: &str, into: &Path) {
        let copied = Command::new(program().unwrap())
            .args(["copy", &format!(":s3:mail/{name}")])
            .arg(into)
            .args(["--s3-provider", "Other", "--s3-access-key-id", "KEYID"])
            .args(["--s3-secret-access-key", "s3cr/et+key", "--config", "/dev/null"])
            .args(["--s3-endpoint", &format!("http://127.0.0.1:{}", self.port)])
            .output()
            .unwrap();
        assert!(copied.status.success(), "{}", String::from_utf8_lossy(&copied.stderr));
    }

    /// The files of all objects, sorted.
    #[allow(dead_code, reason = "tests of one of the two binaries that share this file use it")]
    pub(crate) fn files(&self) -> Vec<PathBuf> {
        let (mut found, mut folders) = (Vec::new(), vec![self.folder.path().join("mail")]);
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(folder).unwrap().flatten() {
                match entry.path().is_dir() {
                    true => folders.push(entry.path()),
                    false => found.push(entry.path()),
                }
            }
        }
        found.sort();
        found
    }
}

/// Sends a signal to these processes.
fn signal(pids: &[u32], name: &str) {
    let pids = pids.iter().map(u32::to_string);
    let _some_may_be_gone =
        Command::new("kill").arg(name).args(pids).stderr(Stdio::null()).status();
}

fn launch(folder: &Path, port: u16, options: &[String]) -> Child {
    Command::new(program().unwrap())
        .args(["serve", "s3", "--addr", &format!("127.0.0.1:{port}")])
        .args(["--auth-key", "KEYID,s3cr/et+key", "--vfs-cache-mode", "off"])
        .args(["--config", "/dev/null", "--log-level", "ERROR"])
        .args(options)
        .arg(folder)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}
