//! Private keys and the user database are in a process of their own: looked at from outside, byte
//! by byte.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use crate::common::{Node, Smtp, add_user, message, program, tokens};
use gauntlet_gateway::outbound::signing::{Algorithm, KeyRing};

/// Processes that this one started.
fn children(pid: u32) -> Vec<u32> {
    let parent = |status: &str| {
        let line = status.lines().find_map(|l| l.strip_prefix("PPid:"))?;
        line.trim().parse::<u32>().ok()
    };
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    let numbers = processes.filter_map(|e| e.file_name().to_str()?.parse::<u32>().ok());
    let ours = numbers.filter(|child| {
        let status = std::fs::read_to_string(format!("/proc/{child}/status"));
        status.ok().and_then(|s| parent(&s)) == Some(pid)
    });
    ours.collect()
}

fn secrets_process(node: &Node) -> u32 {
    let all = children(node.pid());
    assert_eq!(all.len(), 3, "secrets process, two supervisors of unpacking: {all:?}");
    let is_it = |pid: &&u32| {
        let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        contains(&line, b"secrets-process")
    };
    *all.iter().find(is_it).expect("a secrets process")
}

/// Which of these byte strings are in the memory of a process; none if we may not look.
fn in_memory(pid: u32, wanted: &[(&'static str, Vec<u8>)]) -> Option<Vec<&'static str>> {
    let maps = std::fs::read_to_string(format!("/proc/{pid}/maps")).ok()?;
    let mut memory = File::open(format!("/proc/{pid}/mem")).ok()?;
    let mut found = Vec::new();
    for line in maps.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        let (from, to) = words[0].split_once('-').unwrap();
        let [from, to] = [from, to].map(|n| u64::from_str_radix(n, 16).unwrap());
        if !words[1].starts_with("rw") || to - from > 1 << 30 {
            continue;
        }
        let mut bytes = vec![0; (to - from) as usize];
        if memory.seek(SeekFrom::Start(from)).is_err() || memory.read_exact(&mut bytes).is_err() {
            continue;
        }
        for (name, wanted) in wanted {
            if !found.contains(name) && contains(&bytes, wanted) {
                found.push(*name);
            }
        }
    }
    found.sort_unstable();
    Some(found)
}

fn contains(bytes: &[u8], wanted: &[u8]) -> bool {
    // The system's search: hundreds of megabytes are looked through, by a test that is not
    // optimised. SAFETY: both pointers are valid for the lengths beside them.
    let found = unsafe {
        libc::memmem(bytes.as_ptr().cast(), bytes.len(), wanted.as_ptr().cast(), wanted.len())
    };
    !found.is_null()
}

/// Files that a process has open or mapped.
fn open_files(pid: u32) -> Vec<PathBuf> {
    let links = std::fs::read_dir(format!("/proc/{pid}/fd")).unwrap().flatten();
    let mut files: Vec<PathBuf> = links.filter_map(|e| std::fs::read_link(e.path()).ok()).collect();
    let maps = std::fs::read_to_string(format!("/proc/{pid}/maps")).unwrap();
    files.extend(maps.lines().filter_map(|l| l.split_whitespace().nth(5)).map(PathBuf::from));
    files
}

/// The content of a DER element of this tag at the start, and what follows it.
fn der(bytes: &[u8], tag: u8) -> (&[u8], &[u8]) {
    assert_eq!(bytes[0], tag);
    let (length, head) = match bytes[1] {
        short @ 0..0x80 => (usize::from(short), 2),
        long => {
            let count = usize::from(long & 0x7f);
            (bytes[2..2 + count].iter().fold(0, |n, b| n << 8 | usize::from(*b)), 2 + count)
        }
    };
    bytes[head..].split_at(length)
}

fn pem(path: &Path) -> (String, Vec<u8>) {
    let text = std::fs::read_to_string(path).unwrap();
    let lines = text.lines().filter(|l| !l.starts_with("-----")).collect::<String>();
    (text, base64_of(&lines))
}

fn base64_of(text: &str) -> Vec<u8> {
    const LETTERS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let (mut out, mut bits, mut count) = (Vec::new(), 0u32, 0);
    for letter in text.bytes().filter(|b| *b != b'=') {
        let value = LETTERS.iter().position(|l| *l == letter).unwrap();
        bits = bits << 6 | value as u32;
        count += 6;
        if count >= 8 {
            count -= 8;
            out.push((bits >> count) as u8);
        }
    }
    out
}

/// A prime of an RSA key in PKCS#1, the way numbers are computed with: the lowest byte first.
fn prime_of(path: &Path) -> Vec<u8> {
    let (_, bytes) = pem(path);
    let (mut rest, _) = der(&bytes, 0x30);
    for _ in 0..4 {
        // Version, modulus, public and private exponent.
        rest = der(rest, 2).1;
    }
    let mut prime = der(rest, 2).0.to_vec();
    prime.reverse();
    prime.truncate(64);
    prime
}

/// Forms of a key in which its bytes could lie in memory.
fn forms(text: &'static str, bytes: &'static str, path: &Path) -> Vec<(&'static str, Vec<u8>)> {
    let (pem, der) = pem(path);
    let line = pem.lines().nth(1).unwrap().as_bytes().to_vec();
    // The end of the DER is in the private half of RSA's PKCS#1; PKCS#8 of curves starts with the
    // seed.
    let part = if der.len() > 500 { der[der.len() - 64..].to_vec() } else { der[..48].to_vec() };
    vec![(text, line), (bytes, part)]
}

const POLICY: &str = "[[rule]]\nname = \"sign\"\ndirection = \"outbound\"\n\
                      do = [\"dkim_sign\", \"deliver\"]\n";

/// A node that signs mail of example.org, offers TLS, and has a user.
fn node_with_keys() -> (Node, tempfile::TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let policy = folder.path().join("policy.toml");
    std::fs::write(&policy, POLICY).unwrap();
    let mut ring = KeyRing::load(&folder.path().join("dkim")).unwrap();
    ring.create("example.org", "s1", Algorithm::Rsa, 2_048).unwrap();
    ring.create("example.org", "e1", Algorithm::Ed25519, 0).unwrap();
    let keys = folder.path().join("dkim");
    let node = Node::start_listening(
        "role = \"outbound\"",
        &format!(
            "[policy]\npath = {policy:?}\n[dkim]\nkeys = {keys:?}\n[sender]\nretry_seconds = [1]\n"
        ),
    );
    (node, folder)
}

fn client(script: &str, port: u16) -> Option<Child> {
    let text = format!(
        "import smtplib, ssl\ncontext = ssl._create_unverified_context()\n\
         s = smtplib.SMTP('127.0.0.1', {port})\ns.starttls(context=context)\n{script}"
    );
    let mut command = Command::new(program("python3")?);
    Some(command.arg("-c").arg(text).stdin(Stdio::null()).spawn().unwrap())
}

#[test]
fn private_keys_are_not_in_the_memory_of_the_process_that_parses_mail() {
    let (node, folder) = node_with_keys();
    // The keys are at work: a handshake and two signatures.
    let script = "s.sendmail('a@example.org', ['b@example.net'], \
                  'From: a@example.org\\r\\nSubject: x\\r\\nX-Token: t\\r\\n\\r\\nhello\\r\\n')\n";
    let Some(mut sending) = client(script, node.smtp.port()) else { return };
    assert!(sending.wait().unwrap().success(), "{}", node.log());
    node.wait_for_empty_queue();
    let delivered = node.maildir();
    assert_eq!(tokens(&delivered)["t"], 1);
    let text = String::from_utf8_lossy(&delivered[0]).into_owned();
    assert_eq!(text.matches("DKIM-Signature:").count(), 2, "{text}");

    let domain = folder.path().join("dkim/example.org");
    let tls = node.data().join("tls/self-signed.key");
    let mut wanted = forms("tls pem", "tls der", &tls);
    wanted.extend(forms("rsa pem", "rsa der", &domain.join("s1.pem")));
    wanted.extend(forms("ed25519 pem", "ed25519 der", &domain.join("e1.pem")));
    wanted.push(("rsa prime", prime_of(&domain.join("s1.pem"))));
    let Some(found) = in_memory(node.pid(), &wanted) else { return };
    assert!(found.is_empty(), "the node's memory holds {found:?}");
    // The same look finds them where they are: it would have found them.
    let secrets = secrets_process(&node);
    if let Some(found) = in_memory(secrets, &wanted) {
        assert!(found.contains(&"rsa prime"), "{found:?}");
    }
    for file in open_files(node.pid()) {
        let name = file.display().to_string();
        assert!(!name.ends_with(".key") && !name.contains("/dkim/"), "{name} is open");
    }
}

#[test]
fn the_end_of_the_secrets_process_stops_the_node_and_loses_no_mail() {
    let (mut node, _folder) = node_with_keys();
    let mut smtp = Smtp::connect(node.smtp).unwrap();
    let mut accepted = Vec::new();
    let secrets = secrets_process(&node);
    for n in 0..40 {
        let token = format!("m{n}");
        let mail = [b"From: a@example.org\r\n".as_slice(), &message(&token, 500)].concat();
        match smtp.send("a@example.org", &["b@example.net"], &mail) {
            Ok(reply) if reply.starts_with("250") => accepted.push(token),
            _ => {}
        }
        if n == 20 {
            let killed = Command::new("kill").args(["-KILL", &secrets.to_string()]).status();
            assert!(killed.unwrap().success());
        }
    }
    assert!(accepted.len() > 20, "{accepted:?}");
    drop(smtp);
    let status = node.wait_for_end();
    assert_eq!(status.code(), Some(2), "{}", node.log());
    for part in
        ["the secrets process has ended", "start the node again", "mail in the spool is safe"]
    {
        assert!(node.log().contains(part), "{part}: {}", node.log());
    }
    node.run();
    node.wait_for_empty_queue();
    let delivered = node.maildir();
    let delivered_tokens = tokens(&delivered);
    for token in accepted {
        assert!(delivered_tokens.contains_key(&token), "{token} is lost");
    }
    for mail in delivered {
        assert!(mail.starts_with(b"DKIM-Signature:") || contains(&mail, b"DKIM-Signature:"));
    }
}

#[test]
fn the_secrets_process_ends_with_the_node() {
    let mut node = Node::start("");
    let secrets = secrets_process(&node);
    let runs = |pid: u32| {
        let status = std::fs::read_to_string(format!("/proc/{pid}/status"));
        status.is_ok_and(|s| !s.contains("State:\tZ"))
    };
    // A service manager signals all processes to end; this one waits until the node has no more to
    // ask.
    let signalled = Command::new("kill").args(["-TERM", &secrets.to_string()]).status().unwrap();
    assert!(signalled.success());
    let mut client = Smtp::connect(node.smtp).unwrap();
    assert!(client.say("NOOP").unwrap().starts_with("250"));
    assert!(runs(secrets));
    node.kill();
    node.wait_until("it has ended", || !runs(secrets));
    node.run();
    let secrets = secrets_process(&node);
    node.stop();
    node.wait_until("it has ended", || !runs(secrets));
}

#[test]
fn the_kernel_holds_both_processes() {
    let node = Node::start("");
    if !Path::new("/proc/sys/kernel/seccomp/actions_avail").exists() {
        eprintln!("this kernel has no seccomp");
        return;
    }
    for process in [node.pid(), secrets_process(&node)] {
        for task in std::fs::read_dir(format!("/proc/{process}/task")).unwrap().flatten() {
            let status = std::fs::read_to_string(task.path().join("status")).unwrap();
            for wanted in ["Seccomp:\t2", "NoNewPrivs:\t1"] {
                assert!(status.contains(wanted), "{wanted} is not in\n{status}");
            }
        }
    }
    // Off is off, and reported.
    let node = Node::start_as("sandbox = \"off\"");
    let status = std::fs::read_to_string(format!("/proc/{}/status", node.pid())).unwrap();
    assert!(status.contains("Seccomp:\t0"), "{status}");
    assert!(node.log().contains("switched off: node.sandbox"), "{}", node.log());
}

#[test]
fn a_person_cannot_start_the_secrets_process() {
    let output = Command::new(env!("CARGO_BIN_EXE_gauntlet"))
        .args(["secrets-process", "--connections", "2,7"])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(2));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("`gauntlet serve` starts this process by itself"), "{said}");
}

#[test]
fn a_login_is_checked_and_the_user_database_is_not_open_in_the_node() {
    let node = Node::start_listening("role = \"submission\"", "");
    add_user(&node.data(), &["--address", "a@example.org"]);
    let script = "s.login('ann', 'correct horse battery')\n";
    let Some(mut right) = client(script, node.smtp.port()) else { return };
    assert!(right.wait().unwrap().success(), "{}", node.log());
    let script = "s.login('ann', 'wrong horse battery')\n";
    assert!(!client(script, node.smtp.port()).unwrap().wait().unwrap().success());
    let has_users =
        |pid: u32| open_files(pid).iter().any(|f| f.to_string_lossy().contains("users.db"));
    assert!(!has_users(node.pid()), "{:?}", open_files(node.pid()));
    assert!(has_users(secrets_process(&node)));
}
