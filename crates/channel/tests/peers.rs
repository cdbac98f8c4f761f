//! Other programs that read what we write, and the other way round: The Update Framework's own
//! client in Python, OpenSSL, Zstandard.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use gauntlet_channel::delta;
use gauntlet_channel::keys::SigningKey;
use gauntlet_channel::metadata::RoleName;
use gauntlet_channel::repository::{Change, Lifetimes, Repository};

use crate::site::Site;

/// The client of python-tuf, reading a folder. Prints the target's content.
const CLIENT: &str = r#"
import os, sys, datetime
from tuf.ngclient import Updater
from tuf.ngclient.fetcher import FetcherInterface
from tuf.api.exceptions import DownloadHTTPError

class Folder(FetcherInterface):
    def _fetch(self, url):
        path = url.removeprefix("file://")
        if not os.path.isfile(path):
            raise DownloadHTTPError("missing", 404)
        return iter([open(path, "rb").read()])

channel, work, target, now = sys.argv[1:]
os.makedirs(work + "/targets", exist_ok=True)
options = dict(metadata_base_url="file://" + channel, target_dir=work + "/targets",
               target_base_url="file://" + channel + "/targets/", fetcher=Folder())
try:
    root = open(channel + "/1.root.json", "rb").read()
    updater = Updater(work, bootstrap=root, **options)
except TypeError:
    open(work + "/root.json", "wb").write(root)
    updater = Updater(work, **options)
updater._trusted_set.reference_time = datetime.datetime.fromtimestamp(int(now), datetime.timezone.utc)
updater.refresh()
info = updater.get_targetinfo(target)
print(open(updater.download_target(info)).read(), end="")
"#;

/// A Python that has python-tuf: `$GAUNTLET_TUF_PYTHON`, else the system's.
fn python() -> Option<PathBuf> {
    let named = std::env::var_os("GAUNTLET_TUF_PYTHON").map(PathBuf::from);
    let python = named.unwrap_or_else(|| PathBuf::from("python3"));
    let has = Command::new(&python).args(["-c", "import tuf.ngclient"]).output();
    if has.is_ok_and(|out| out.status.success()) {
        return Some(python);
    }
    eprintln!("SKIPPED: no python-tuf (pip install tuf; GAUNTLET_TUF_PYTHON names its Python)");
    None
}

fn read_by_python_tuf(python: &Path, site: &Site, work: &str, target: &str) -> String {
    let work = site.path(work);
    fs::create_dir_all(&work).unwrap();
    let out = Command::new(python)
        .args(["-c", CLIENT])
        .args([site.channel().as_os_str(), work.as_os_str(), target.as_ref()])
        .arg(site.now_s.to_string())
        .output()
        .unwrap();
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    String::from_utf8(out.stdout).unwrap()
}

#[test]
fn python_tuf_reads_a_channel_and_follows_its_keys() {
    let Some(python) = python() else { return };
    let site = Site::new();
    site.publish(&[("rules/a.cf", "body Ä /\"ü\\/\n".as_bytes()), ("urls/spam/today", b"x\n")]);
    let read = |target: &str| read_by_python_tuf(&python, &site, "python", target);
    assert_eq!(read("rules/a.cf"), "body Ä /\"ü\\/\n");
    assert_eq!(read("urls/spam/today"), "x\n");
    let keys = site.keys();
    let mut channel = Repository::open(&site.channel()).unwrap();
    for role in RoleName::ALL {
        let change = match role {
            RoleName::Root => Change::Add(role, keys.create(role).unwrap().public()),
            other => Change::Replace(other, keys.create(role).unwrap().public()),
        };
        channel.change_keys(&[change], &keys, Lifetimes::default(), site.now_s).unwrap();
    }
    channel.refresh(&keys, Lifetimes::default(), site.now_s).unwrap();
    drop(channel);
    site.publish(&[("rules/a.cf", b"two\n")]);
    assert_eq!(read("rules/a.cf"), "two\n");
}

#[test]
fn keys_of_openssl_sign() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("key.pem");
    let made = Command::new("openssl")
        .args(["genpkey", "-algorithm", "ed25519", "-out"])
        .arg(&path)
        .output()
        .expect("openssl");
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let key = SigningKey::load(&path).unwrap();
    assert!(key.public().verifies(b"text", &key.sign(b"text")));
    assert!(!key.public().verifies(b"texts", &key.sign(b"text")));
    // And openssl reads ours.
    let ours = folder.path().join("ours.pem");
    SigningKey::create(&ours).unwrap();
    assert!(SigningKey::create(&ours).is_err(), "never replaced");
    let shown =
        Command::new("openssl").args(["pkey", "-noout", "-in"]).arg(&ours).output().unwrap();
    assert!(shown.status.success(), "{}", String::from_utf8_lossy(&shown.stderr));
    for bad in ["", "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n"] {
        fs::write(&path, bad).unwrap();
        assert!(SigningKey::load(&path).is_err());
    }
}

#[test]
fn zstd_makes_and_reads_the_same_deltas() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let line = |n: u32| format!("{:x}\n", n.wrapping_mul(2_654_435_761));
    let old: String = (0..60_000).map(line).collect();
    let new = old.replace("e1\n", "changed\n");
    fs::write(path("old"), &old).unwrap();
    fs::write(path("new"), &new).unwrap();
    let run = |arguments: &[&str]| {
        let out = Command::new("zstd").args(arguments).current_dir(folder.path()).output();
        let Ok(out) = out else {
            assert!(std::env::var_os("CI").is_none(), "zstd is missing");
            eprintln!("SKIPPED: zstd is not installed");
            return false;
        };
        assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
        true
    };
    fs::write(path("ours"), delta::make(old.as_bytes(), new.as_bytes()).unwrap()).unwrap();
    if !run(&["-q", "-d", "--patch-from=old", "ours", "-o", "made"]) {
        return;
    }
    assert_eq!(fs::read_to_string(path("made")).unwrap(), new);
    run(&["-q", "-19", "--patch-from=old", "new", "-o", "theirs"]);
    let mut out = Vec::new();
    let theirs = fs::read(path("theirs")).unwrap();
    delta::apply(old.as_bytes(), &mut &theirs[..], &mut out, new.len() as u64).unwrap();
    assert!(out == new.as_bytes());
}
