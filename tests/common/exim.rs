//! A real Exim for tests, in a folder of its own. Debian's exim4-daemon-heavy cannot be installed
//! beside Postfix: `check` unpacks it (tests/unpack-exim) and names it by GAUNTLET_EXIM.

use std::fs;
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use super::Node;

/// Exim in the foreground, ended with the value. What it delivers is in `mail/all`.
pub(crate) struct Exim {
    child: Child,
    folder: tempfile::TempDir,
}

impl Exim {
    /// The program, or says that the test is skipped.
    pub(crate) fn program() -> Option<PathBuf> {
        let named = std::env::var_os("GAUNTLET_EXIM").map(PathBuf::from);
        let found = named.filter(|path| path.is_file());
        if found.is_none() {
            let missing = "GAUNTLET_EXIM names no Exim (tests/unpack-exim makes one)";
            assert!(std::env::var_os("CI").is_none(), "{missing}");
            eprintln!("SKIPPED: {missing}");
        }
        found
    }

    /// Starts it beside a node, with these settings behind the general ones and these transports
    /// behind one named `maildir`.
    pub(crate) fn start(
        exim: &Path,
        address: SocketAddr,
        node: &Node,
        settings: &str,
        transports: &str,
    ) -> Self {
        // In /tmp, since Exim gives up its rights, and the temporary folder may be closed to
        // others.
        let folder = tempfile::Builder::new().prefix("exim").tempdir_in("/tmp").unwrap();
        for (name, mode) in [("", 0o755), ("spool", 0o777), ("mail", 0o777), ("log", 0o777)] {
            let path = folder.path().join(name);
            fs::create_dir_all(&path).unwrap();
            fs::set_permissions(path, PermissionsExt::from_mode(mode)).unwrap();
        }
        let root = folder.path().display();
        let text = format!(
            "primary_hostname = mx.test\nspool_directory = {root}/spool\n\
             log_file_path = {root}/log/%slog\npid_file_path = {root}/exim.pid\n\
             keep_environment = LD_LIBRARY_PATH\ndeliver_drop_privilege = true\nexim_path = {}\n\
             daemon_smtp_ports = {}\nlocal_interfaces = 127.0.0.1\ntls_advertise_hosts =\n\
             host_lookup =\nrfc1413_query_timeout = 0s\ndomainlist local_domains = example.net\n\
             {settings}\
             begin transports\nmaildir:\n  driver = appendfile\n  maildir_format\n\
             \x20 directory = {root}/mail/all\n  create_directory\n  user = Debian-exim\n\
             {transports}",
            exim.display(),
            address.port()
        );
        let file = folder.path().join("exim.conf");
        fs::write(&file, text).unwrap();
        // Exim reads none that others may write, as the mask of another test would make it.
        fs::set_permissions(&file, PermissionsExt::from_mode(0o644)).unwrap();
        let mut command = Command::new(exim);
        command.arg("-C").arg(&file).arg("-bdf").stdin(Stdio::null());
        let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let exim = Exim { child, folder };
        node.wait_until("Exim listens", || TcpStream::connect(address).is_ok());
        exim
    }

    /// What it has logged.
    pub(crate) fn log(&self) -> String {
        fs::read_to_string(self.folder.path().join("log/mainlog")).unwrap_or_default()
    }

    /// Files that it has delivered.
    pub(crate) fn delivered(&self) -> Vec<PathBuf> {
        let folder = self.folder.path().join("mail/all/new");
        if folder.is_dir() { super::files_below(&folder) } else { Vec::new() }
    }
}

impl Drop for Exim {
    fn drop(&mut self) {
        let _it_may_have_ended = Command::new("kill").arg(self.child.id().to_string()).status();
        let _reaped = self.child.wait();
    }
}
