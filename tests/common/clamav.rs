//! A real clamd, with a database of one signature of our own, and c-icap in front of it.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Bytes that the signature knows; by themselves they mean nothing to any other scanner.
pub(crate) const MARKER: &str = "gauntlet-test-pattern-7f3a91";
/// What clamd calls a file with the marker.
pub(crate) const SIGNATURE: &str = "Gauntlet.Test.Marker";

/// How long a program may take to start.
const PATIENCE: Duration = Duration::from_secs(60);

/// clamd in a folder of its own.
pub(crate) struct Clamd {
    folder: tempfile::TempDir,
    child: Option<Child>,
}

impl Clamd {
    /// Starts it; none if it is not installed.
    pub(crate) fn start() -> Option<Self> {
        let folder = tempfile::tempdir().unwrap();
        super::program("clamd")?;
        std::fs::create_dir(folder.path().join("db")).unwrap();
        let hex: String = MARKER.bytes().map(|b| format!("{b:02x}")).collect();
        let signature = format!("{SIGNATURE}:0:*:{hex}\n");
        std::fs::write(folder.path().join("db/test.ndb"), signature).unwrap();
        let user = if gauntlet_gateway::privileges::is_root() { "User root\n" } else { "" };
        let config = format!(
            "DatabaseDirectory {0}/db\nLocalSocket {0}/clamd.sock\nForeground yes\nScanMail yes\n\
             FixStaleSocket yes\nStreamMaxLength 1M\nTemporaryDirectory {0}\n{user}",
            folder.path().display()
        );
        std::fs::write(folder.path().join("clamd.conf"), config).unwrap();
        let mut clamd = Clamd { folder, child: None };
        clamd.run();
        Some(clamd)
    }

    /// Path of its socket.
    pub(crate) fn socket(&self) -> PathBuf {
        self.folder.path().join("clamd.sock")
    }

    pub(crate) fn run(&mut self) {
        let program = super::program("clamd").unwrap();
        let config = format!("--config-file={}/clamd.conf", self.folder.path().display());
        let child = Command::new(program)
            .arg(config)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        self.child = Some(child);
        let ping = || -> std::io::Result<Vec<u8>> {
            let mut socket = UnixStream::connect(self.socket())?;
            socket.write_all(b"zPING\0")?;
            let mut said = Vec::new();
            socket.read_to_end(&mut said)?;
            Ok(said)
        };
        wait("clamd", || ping().is_ok_and(|said| said == b"PONG\0"));
    }

    pub(crate) fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            child.kill().unwrap();
            child.wait().unwrap();
        }
    }

    /// Stops and goes on without answering.
    pub(crate) fn signal(&self, name: &str) {
        let id = self.child.as_ref().unwrap().id().to_string();
        assert!(Command::new("kill").args([&format!("-{name}"), &id]).status().unwrap().success());
    }
}

impl Drop for Clamd {
    fn drop(&mut self) {
        self.kill();
    }
}

fn wait(what: &str, mut done: impl FnMut() -> bool) {
    let start = Instant::now();
    while !done() {
        assert!(start.elapsed() < PATIENCE, "{what} did not start");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// c-icap with its service `avscan`, which asks a clamd.
pub(crate) struct CIcap {
    _folder: tempfile::TempDir,
    child: Child,
    pub(crate) address: SocketAddr,
}

impl CIcap {
    /// Starts it; none if it or its module is not installed.
    pub(crate) fn start(clamd: &Clamd) -> Option<Self> {
        let program = super::program("c-icap")?;
        let modules = "/usr/lib/x86_64-linux-gnu/c_icap";
        if !Path::new(modules).join("virus_scan.so").is_file() {
            assert!(std::env::var_os("CI").is_none(), "libc-icap-mod-virus-scan is missing");
            eprintln!("skipped: libc-icap-mod-virus-scan is not installed");
            return None;
        }
        let folder = tempfile::tempdir().unwrap();
        // A program of others cannot be given a socket: the port is free for the moment.
        let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let config = format!(
            "PidFile {0}/pid\nCommandsSocket {0}/ctl\nPort 127.0.0.1:{1}\nTmpDir {0}\nModulesDir {modules}\n\
             ServicesDir {modules}\nTemplateDir /usr/share/c_icap/templates/\n\
             LoadMagicFile /etc/c-icap/c-icap.magic\nServerLog {0}/server.log\nAccessLog {0}/access.log\n\
             StartServers 1\nMaxServers 2\nThreadsPerChild 4\nMinSpareThreads 1\nMaxSpareThreads 8\n\
             Service echo srv_echo.so\nModule common clamd_mod.so\nclamd_mod.ClamdSocket {2}\n\
             Service antivirus_module virus_scan.so\nServiceAlias avscan virus_scan?allow204=on&sizelimit=off&mode=simple\n\
             virus_scan.ScanFileTypes TEXT DATA EXECUTABLE ARCHIVE GIF JPEG MSOFFICE\n\
             virus_scan.MaxObjectSize 5M\nvirus_scan.DefaultEngine clamd\n",
            folder.path().display(),
            address.port(),
            clamd.socket().display()
        );
        let path = folder.path().join("c-icap.conf");
        std::fs::write(&path, config).unwrap();
        let child = Command::new(program)
            .args(["-N", "-f", path.to_str().unwrap()])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let server = CIcap { _folder: folder, child, address };
        wait("c-icap", || TcpStream::connect(address).is_ok());
        Some(server)
    }
}

impl Drop for CIcap {
    fn drop(&mut self) {
        // It ends its children when it is asked to.
        let id = self.child.id().to_string();
        let _ended = Command::new("kill").args(["-TERM", &id]).status();
        let _ended = self.child.wait();
    }
}
