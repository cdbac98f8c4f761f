//! Rules of SpamAssassin's own channels: as a folder, as a signed archive, and by DNS and mirrors.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::common::channels::{Nginx, bad, gauntlet, good};
use crate::common::program;
use crate::common::zone::Zone;

/// What publishes a channel of SpamAssassin's kind: a key, and what a mirror serves.
struct SaChannel {
    folder: tempfile::TempDir,
    gpg: PathBuf,
}

impl SaChannel {
    /// With a key; none without gpg.
    fn new() -> Option<Self> {
        let (gpg, _) = (program("gpg")?, program("gpgv")?);
        let channel = SaChannel { folder: tempfile::tempdir().unwrap(), gpg };
        fs::create_dir(channel.path("home")).unwrap();
        fs::create_dir(channel.path("www")).unwrap();
        channel.gpg(&["--quick-gen-key", "updates@sa.example", "ed25519", "sign", "never"]);
        channel.gpg(&["--output", &channel.text("keys.gpg"), "--export"]);
        Some(channel)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn text(&self, name: &str) -> String {
        self.path(name).to_str().unwrap().to_owned()
    }

    fn gpg(&self, arguments: &[&str]) {
        let mut command = Command::new(&self.gpg);
        command.arg("--homedir").arg(self.path("home"));
        command.args(["--batch", "--yes", "--passphrase", ""]);
        let out = command.args(arguments).output().unwrap();
        assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    }

    /// Writes the archive `www/NUMBER.tar.gz`, its hash and its signature.
    fn archive(&self, number: u32, rules: &[(&str, &str)]) -> PathBuf {
        let path = self.path(&format!("www/{number}.tar.gz"));
        let packer = flate2::write::GzEncoder::new(
            fs::File::create(&path).unwrap(),
            flate2::Compression::fast(),
        );
        let mut archive = tar::Builder::new(packer);
        for (name, content) in rules {
            let mut header = tar::Header::new_gnu();
            header.set_size(content.len() as u64);
            header.set_mode(0o644);
            archive.append_data(&mut header, name, content.as_bytes()).unwrap();
        }
        archive.into_inner().unwrap().finish().unwrap();
        self.write_hash(&path);
        let signature = format!("{}.asc", path.display());
        let archive = path.to_str().unwrap();
        self.gpg(&["--output", &signature, "--armor", "--detach-sign", archive]);
        path
    }

    fn write_hash(&self, path: &Path) {
        let out = Command::new("sha512sum").arg(path).output().unwrap();
        fs::write(format!("{}.sha512", path.display()), out.stdout).unwrap();
    }
}

impl Drop for SaChannel {
    fn drop(&mut self) {
        // gpg leaves a process behind that keeps keys.
        let mut end = Command::new("gpgconf");
        let _ended = end.arg("--homedir").arg(self.path("home")).args(["--kill", "all"]).status();
    }
}

const RULES: [(&str, &str); 3] =
    [("10_a.cf", "body A /a/\n"), ("./20_b.cf", "body B /b/\n"), ("x.pre", "loadplugin X")];

#[test]
fn rules_of_spamassassins_channels_are_taken_if_they_are_signed() {
    let Some(channel) = SaChannel::new() else { return };
    let archive = channel.archive(1, &RULES);
    let import = |more: &[&str]| {
        let (archive, into) = (archive.to_str().unwrap(), channel.text("out"));
        gauntlet(&[&["channel", "import", archive, "--into", &into], more].concat())
    };
    assert!(bad(&import(&[])).contains("--keyring"));
    let said = good(&import(&["--keyring", &channel.text("keys.gpg")]));
    assert!(said.contains("2 rule files with 22 bytes"), "{said}");
    let taken = channel.path("out/spamassassin");
    assert_eq!(fs::read_to_string(taken.join("20_b.cf")).unwrap(), "body B /b/\n");
    // As a folder of sa-update, and published.
    let (folder, again) = (taken.to_str().unwrap(), channel.text("again"));
    let said = good(&gauntlet(&["channel", "import", folder, "--into", &again]));
    assert!(said.contains("2 rule files"), "{said}");
    // One byte changed: the old files stay.
    let mut bytes = fs::read(&archive).unwrap();
    let last = bytes.len() - 1;
    bytes[last] ^= 1;
    fs::write(&archive, &bytes).unwrap();
    let said = bad(&import(&["--keyring", &channel.text("keys.gpg")]));
    assert!(said.contains("not signed by a key of the keyring"), "{said}");
    assert!(taken.join("10_a.cf").is_file());
}

/// A channel of SpamAssassin's kind with its mirrors and its DNS.
struct Served {
    channel: SaChannel,
    nginx: Nginx,
    archive: PathBuf,
    _zone: Zone,
}

/// The channel that is served.
const NAME: &str = "updates.sa.example";

impl Served {
    /// With version 1928000; none without nginx, gpg or the DNS server.
    fn start() -> Option<Self> {
        let channel = SaChannel::new()?;
        let archive = channel.archive(1_928_000, &RULES);
        fs::create_dir(channel.path("www/broken")).unwrap();
        fs::copy(&archive, channel.path("www/broken/1928000.tar.gz")).unwrap();
        let wrong = "00ff  1928000.tar.gz\n";
        fs::write(channel.path("www/broken/1928000.tar.gz.sha512"), wrong).unwrap();
        let nginx = Nginx::start(&channel.path("www"))?;
        let web = &nginx.1;
        let list = format!("# mirrors\n{web}/broken/ weight=100\n{web}/gone/ weight=100\n{web}/\n");
        fs::write(channel.path("www/MIRRORED.BY"), list).unwrap();
        let records = format!(
            "1.0.4.updates.sa.example TXT \"1928000\"\n\
             2.4.3.updates.sa.example CNAME 1.0.4.updates.sa.example\n\
             3.0.4.updates.sa.example TXT \"1927000\"\n\
             9.9.9.updates.sa.example TXT \"../../etc\"\n\
             mirrors.updates.sa.example TXT \"{web}/MIRRORED.BY\"\n\
             1.0.4.lonely.sa.example TXT \"7\"\n\
             mirrors.lonely.sa.example TXT \"file:///etc/passwd\"\n"
        );
        let zone = Zone::serve(&records)?;
        let config = format!("[dns]\nservers = [\"{}\"]\n", zone.address());
        fs::write(channel.path("gauntlet.toml"), config).unwrap();
        Some(Served { channel, nginx, archive, _zone: zone })
    }

    fn import_unsigned(&self, name: &str, more: &[&str]) -> std::process::Output {
        let (config, into) = (self.channel.text("gauntlet.toml"), self.channel.text("out"));
        let arguments = ["channel", "--config", &config, "import", "--sa-channel", name, "--into"];
        gauntlet(&[&arguments[..], &[&into], more].concat())
    }

    fn import(&self, name: &str, more: &[&str]) -> std::process::Output {
        self.import_unsigned(name, &[more, &["--keyring", &self.channel.text("keys.gpg")]].concat())
    }

    fn asked(&self) -> Vec<String> {
        let log = fs::read_to_string(self.nginx.2.path().join("access.log")).unwrap();
        log.lines().map(str::to_owned).collect()
    }

    fn forget(&self) {
        fs::remove_file(self.channel.path("out.sa-channels.json")).unwrap();
    }
}

#[test]
fn the_dns_says_which_version_and_a_mirror_that_lies_is_passed_over() {
    let Some(served) = Served::start() else { return };
    for _ in 0..4 {
        let said = good(&served.import(NAME, &[]));
        assert!(said.contains("updates.sa.example version 1928000\n2 rule files"), "{said}");
        served.forget();
    }
    good(&served.import(NAME, &["--sa-version", "3.4.2"]));
    for (name, more, why) in [
        (NAME, &["--sa-version", "9.9.9"][..], "which is no version of a channel"),
        (NAME, &["--sa-version", "4.0"], "a version of SpamAssassin"),
        (NAME, &["--sa-version", "4.0.2"], "2.0.4.updates.sa.example: the DNS has no TXT record"),
        ("lonely.sa.example", &[], "mirrors.lonely.sa.example: file:///etc/passwd: url"),
    ] {
        let said = bad(&served.import(name, more));
        assert!(said.contains(why), "{said}");
    }
    assert!(bad(&served.import_unsigned(NAME, &[])).contains("--keyring"));
    served.forget();
    // Another archive with its hash, and the signature of the first: what a mirror could do.
    let channel = &served.channel;
    let signature = fs::read(channel.path("www/1928000.tar.gz.asc")).unwrap();
    channel.archive(1_928_000, &[("10_a.cf", "body EVIL /a/\n")]);
    fs::write(channel.path("www/1928000.tar.gz.asc"), signature).unwrap();
    let said = bad(&served.import(NAME, &[]));
    assert!(said.contains("not signed by a key of the keyring"), "{said}");
    fs::write(channel.path("www/1928000.tar.gz.sha512"), "").unwrap();
    let said = bad(&served.import(NAME, &[]));
    assert!(said.contains("no mirror has version 1928000"), "{said}");
    let kept = fs::read_to_string(channel.path("out/spamassassin/10_a.cf")).unwrap();
    assert_eq!(kept, "body A /a/\n", "what was there stays");
}

#[test]
fn what_was_taken_is_not_fetched_again_and_an_older_version_is_refused() {
    let Some(served) = Served::start() else { return };
    good(&served.import(NAME, &[]));
    assert!(served.archive.is_file());
    // Nothing new: the DNS is asked, and no mirror.
    let before = served.asked().len();
    let said = good(&served.import(NAME, &[]));
    assert!(said.contains("nothing new, version 1928000"), "{said}");
    assert_eq!(served.asked().len(), before);
    // An older version than what was taken, as who answers for the DNS could name it.
    served.channel.archive(1_927_000, &RULES[..1]);
    let older = ["--sa-version", "4.0.3"];
    let said = bad(&served.import(NAME, &older));
    assert!(said.contains("1927000, and 1928000 was taken before"), "{said}");
    assert_eq!(served.asked().len(), before);
    let said = good(&served.import(NAME, &[&older[..], &["--allow-older"]].concat()));
    assert!(said.contains("version 1927000\n1 rule files"), "{said}");
    // The list of mirrors is known: the archive, its hash and its signature are fetched.
    let before = served.asked().len();
    good(&served.import(NAME, &[]));
    let lines = served.asked();
    assert!(!lines[before..].iter().any(|line| line.contains("MIRRORED.BY")), "{lines:?}");
    // What somebody removed is fetched again.
    fs::remove_file(served.channel.path("out/spamassassin/20_b.cf")).unwrap();
    assert!(good(&served.import(NAME, &[])).contains("2 rule files"));
}
