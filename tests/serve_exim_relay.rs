//! Exim as client and as next hop: it hands mail to a node (CHUNKING, PIPELINING, STARTTLS) and takes mail
//! from it. `check` unpacks Exim (tests/unpack-exim) and names it by GAUNTLET_EXIM.

mod common;

use std::path::Path;
use std::process::{Child, Command, Stdio};

use common::postfix::free_address;
use common::{Node, Smtp, message, token_of};

/// Exim in the foreground, ended with the value.
struct Exim(Child);

impl Drop for Exim {
    fn drop(&mut self) {
        let _it_may_have_ended = Command::new("kill").arg(self.0.id().to_string()).status();
        let _reaped = self.0.wait();
    }
}

/// Exim keeps mail for example.net and hands all other to the node.
fn settings(exim: &Path, root: &Path, port: u16, node: u16) -> String {
    let root = root.display();
    format!(
        "primary_hostname = mx.test\nspool_directory = {root}/spool\n\
         log_file_path = {root}/log/%slog\npid_file_path = {root}/exim.pid\n\
         keep_environment = LD_LIBRARY_PATH\ndeliver_drop_privilege = true\nexim_path = {}\n\
         daemon_smtp_ports = {port}\nlocal_interfaces = 127.0.0.1\ntls_advertise_hosts =\n\
         host_lookup =\nrfc1413_query_timeout = 0s\ndomainlist local_domains = example.net\n\
         prdr_enable = false\nacl_smtp_rcpt = check_rcpt\n\
         begin acl\ncheck_rcpt:\n  accept\n\
         begin routers\nlocal:\n  driver = accept\n  domains = +local_domains\n  transport = maildir\n\
         node:\n  driver = manualroute\n  route_list = * 127.0.0.1\n  self = send\n  transport = node\n\
         begin transports\nmaildir:\n  driver = appendfile\n  maildir_format\n\
         \x20 directory = {root}/mail/all\n  create_directory\n  user = Debian-exim\n\
         node:\n  driver = smtp\n  port = {node}\n  allow_localhost\n  hosts_try_chunking = *\n\
         \x20 tls_try_verify_hosts = :\n  hosts_require_tls = *\n\
         begin retry\n* * F,1h,1s\n",
        exim.display(),
    )
}

#[test]
fn exim_hands_mail_over_and_takes_it() {
    let named = std::env::var_os("GAUNTLET_EXIM").map(std::path::PathBuf::from);
    let Some(exim) = named.filter(|path| path.is_file()) else {
        let missing = "GAUNTLET_EXIM names no Exim (tests/unpack-exim makes one)";
        assert!(std::env::var_os("CI").is_none(), "{missing}");
        eprintln!("SKIPPED: {missing}");
        return;
    };
    let address = free_address();
    let node = Node::start(&format!(
        "[facts]\nenabled = false\n[sender]\nretry_seconds = [1]\n\
         [[next_hop]]\nfor = [\"example.net\"]\nhosts = [\"{address}\"]\n"
    ));
    let folder = tempfile::Builder::new().prefix("exim").tempdir_in("/tmp").unwrap();
    for (name, mode) in [("", 0o755), ("spool", 0o777), ("mail", 0o777), ("log", 0o777)] {
        let path = folder.path().join(name);
        std::fs::create_dir_all(&path).unwrap();
        let mode = std::os::unix::fs::PermissionsExt::from_mode(mode);
        std::fs::set_permissions(path, mode).unwrap();
    }
    let file = folder.path().join("exim.conf");
    let text = settings(&exim, folder.path(), address.port(), node.smtp.port());
    std::fs::write(&file, text).unwrap();
    let mut command = Command::new(&exim);
    command.arg("-C").arg(&file).arg("-bdf").stdin(Stdio::null());
    let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let _exim = Exim(child);
    node.wait_until("Exim listens", || std::net::TcpStream::connect(address).is_ok());
    let log = || std::fs::read_to_string(folder.path().join("log/mainlog")).unwrap_or_default();

    // Exim is the client.
    let mut client = Smtp::connect(address).unwrap();
    for (token, bytes) in [("small", 100), ("large", 300_000)] {
        let mut body = message(token, bytes);
        body.extend_from_slice(b".\r\n..two dots\r\n.\r\nthe end\r\n");
        let reply = client.send("ann@example.org", &["bob@example.com"], &body).unwrap();
        assert!(reply.starts_with("250"), "{reply}\n{}", log());
        node.wait_until("Exim handed it over", || {
            let told = log();
            assert!(!told.contains("==") && !told.contains("TLS session failure"), "{told}");
            node.maildir().iter().any(|m| token_of(m).as_deref() == Some(token))
        });
        let delivered = node.maildir();
        let is = |m: &&Vec<u8>| token_of(m).as_deref() == Some(token);
        let text =
            String::from_utf8_lossy(delivered.iter().find(is).unwrap()).replace("\r\n", "\n");
        assert!(text.contains(" with ESMTPS id "), "{text}");
        assert!(text.ends_with("\n.\n..two dots\n.\nthe end\n"), "the body is whole");
    }
    // "K": Exim sent the body by BDAT; "X=": over TLS.
    let told = log();
    let handed = told.lines().find(|l| l.contains("=> bob@example.com")).unwrap_or_default();
    assert!(handed.contains(" K ") && handed.contains(" X=TLS"), "{told}");

    // Exim is the next hop.
    let mut client = Smtp::connect(node.smtp).unwrap();
    for i in 0..5 {
        let body = message(&format!("hop{i}"), i * 30_000);
        let reply = client.send("ann@example.org", &["bob@example.net"], &body).unwrap();
        assert!(reply.starts_with("250"), "{reply}");
    }
    let delivered = folder.path().join("mail/all/new");
    node.wait_until("Exim delivered", || {
        delivered.is_dir() && common::files_below(&delivered).len() == 5
    });
    node.wait_for_empty_queue();
}
