//! What mail programs read in different ways, and programs under whatever name, reach nobody: the
//! messages of an attack, through the program itself and the policy that ships.

use std::path::{Path, PathBuf};
use std::process::Command;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The final disposition of each message, inbound and outbound, by `gauntlet policy test`.
fn dispositions(name: &str, messages: &[PathBuf]) -> Vec<(String, String)> {
    let mut cases = String::new();
    for message in messages {
        for direction in ["inbound", "outbound"] {
            let message = message.display();
            cases += &format!(
                "[[case]]\nmessage = {:?}\ndirection = {direction:?}\nexpect = \"none\"\n",
                message.to_string()
            );
        }
    }
    let file = std::env::temp_dir().join(format!("{name}-{}.toml", std::process::id()));
    std::fs::write(&file, cases).expect("a writable folder");
    let mut command = Command::new(env!("CARGO_BIN_EXE_gauntlet"));
    let output = command.args(["policy", "test"]).arg(&file).output().expect("the program runs");
    let _ = std::fs::remove_file(&file);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let read = |line: &str| {
        let (message, end) = line.strip_prefix("FAIL ")?.split_once(" for ")?;
        let name = Path::new(message).file_name()?.to_string_lossy().into_owned();
        Some((name, end.split_once(": ")?.1.to_owned()))
    };
    let found: Vec<(String, String)> = text.lines().filter_map(read).collect();
    assert_eq!(
        found.len(),
        2 * messages.len(),
        "{text}{}",
        String::from_utf8_lossy(&output.stderr)
    );
    found
}

fn samples(prefix: &str) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(root().join("samples")).expect("samples/").flatten();
    let is_one = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        name.starts_with(prefix) && name.ends_with(".eml")
    };
    let mut found: Vec<PathBuf> = entries.map(|e| e.path()).filter(is_one).collect();
    found.sort();
    found
}

#[test]
fn ambiguous_messages_are_held_and_programs_quarantined() {
    let ambiguous = samples("ambiguous-");
    assert!(ambiguous.len() >= 22);
    for (name, end) in dispositions("ambiguous", &ambiguous) {
        assert!(end.starts_with("hold:unscannable by"), "{name}: {end}");
    }
    let programs = samples("program-");
    assert!(programs.len() >= 14);
    for (name, end) in dispositions("programs", &programs) {
        assert!(end.starts_with("quarantine:programs by"), "{name}: {end}");
    }
    for (name, end) in dispositions("harmless", &samples("ham-mime-")) {
        assert!(end.starts_with("deliver by"), "{name}: {end}");
    }
}

/// Of the corpus' nasty messages only those are delivered that hide nothing.
#[test]
fn nasty_messages_are_not_delivered_unless_they_are_harmless() {
    let Some(corpus) = std::env::var_os("GAUNTLET_CORPUS") else {
        eprintln!("GAUNTLET_CORPUS is not set: no nasty messages");
        return;
    };
    let folder = Path::new(&corpus).join("fixtures/synth-nasty");
    let entries = std::fs::read_dir(folder).expect("the corpus").flatten().map(|e| e.path());
    let mut messages: Vec<PathBuf> =
        entries.filter(|p| p.extension().is_some_and(|e| e == "eml")).collect();
    messages.sort();
    let delivered: Vec<String> = dispositions("nasty", &messages)
        .into_iter()
        .filter(|(_, end)| end.starts_with("deliver by"))
        .map(|(name, _)| name)
        .collect();
    let is_known = |name: &str| HARMLESS.contains(&name) || ARCHIVES.contains(&name);
    let unexpected: Vec<&String> = delivered.iter().filter(|name| !is_known(name)).collect();
    assert!(unexpected.is_empty(), "{unexpected:?}");
}

/// Nasty messages that hide nothing.
const HARMLESS: [&str; 10] = [
    // Bare line ends in the middle of words: every reading is one text. The Receiver refuses it.
    "bare-cr-lf.eml",
    "lf-only.eml",
    "only-newlines.eml",
    "empty.eml",
    "no-body.eml",
    // Their text is one whatever the fields say.
    "encword-broken.eml",
    "from-dup.eml",
    "from-multi-addr.eml",
    "nul-in-header.eml",
    // One field, read whole.
    "header-folds-50000.eml",
];

/// Archives: not unpacked, and no more than their entries' names are judged.
const ARCHIVES: [&str; 11] = [
    "eicar-gzip.eml",
    "eicar-targz.eml",
    "eicar-zip.eml",
    "eicar-zip-nested2.eml",
    "eicar-zip-nested5.eml",
    "eicar-zip-nested10.eml",
    "eicar-zip-nested30.eml",
    "zip-truncated.eml",
    "gzipbomb-100MB.eml",
    "zipbomb-10MB.eml",
    "zipbomb-nested-5GB.eml",
];
