//! `gauntlet unpack`: print what is in a file, and in what is in it.

use std::fs::OpenOptions;
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context;
use gauntlet_content::process::supervisor::Settings;
use gauntlet_content::{Limits, Object, Password, Root, Tree};

use crate::content_process;

/// Bytes of the longest file name that `--extract` makes.
const NAME_BYTES_MAX: usize = 120;
/// Objects could not be read, or not in full.
const EXIT_UNREAD: u8 = 1;

const AFTER_HELP: &str = "\
Prints the tree of objects: archives, documents, messages and disk images are opened, and what
is in them, too. Each line is an object: type by its bytes, size, SHA-256 (the first 12 digits;
all with --json), path, then what was found in it and what could not be read. The work is done
in a process that has no files, no network and a limit of memory.

JSON: one object a file:
{\"file\",\"objects\":[{\"parent\",\"path\",\"name\",\"declared_type\",\"kind\",\"size\",
\"sha256\",\"md5\",\"properties\":[{\"kind\",\"detail\"}],\"defects\":[{\"kind\",\"detail\"}],\"text\",\"urls\"}]}

--extract writes each object into the folder, as NUMBER-NAME with a safe name: no folders, no
links, nothing is overwritten. They may be malware: the files are for their owner only and not
executable.

Exit codes: 0 all was read; 1 something could not be read (a limit, a password, a missing
program); 2 wrong usage or a file that cannot be opened.

Examples:
  gauntlet unpack invoice.zip
  gauntlet unpack --json message.eml | jq '.objects[].path'
  gauntlet unpack --password infected sample.zip
  gauntlet unpack --extract out/ message.eml";

/// Time that is waited for a file, as a multiple of the CPU time that it may take.
const WALL_TIMES: u64 = 6;

/// Arguments of `gauntlet unpack`.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Args {
    /// Files to unpack, or `-` for standard input
    #[arg(required = true)]
    files: Vec<PathBuf>,
    /// Print one JSON object a line
    #[arg(long)]
    json: bool,
    /// Write each object into this folder, which is made if it is not there
    #[arg(long, value_name = "DIR")]
    extract: Option<PathBuf>,
    /// Try this password on what is encrypted (may be given several times)
    #[arg(long = "password", value_name = "WORD")]
    passwords: Vec<String>,
    /// Containers inside each other that are opened
    #[arg(long, value_name = "N", default_value_t = Limits::default().depth_max)]
    max_depth: u32,
    /// Objects that are read of a file
    #[arg(long, value_name = "N", default_value_t = Limits::default().objects_max)]
    max_objects: u32,
    /// Bytes that are unpacked of a file
    #[arg(long, value_name = "BYTES", default_value_t = Limits::default().bytes_max)]
    max_bytes: u64,
    /// Seconds of CPU time that a file may take; six times as long by the clock
    #[arg(long, value_name = "SECONDS", default_value_t = Limits::default().cpu_time_max.as_secs())]
    max_seconds: u64,
    /// Bytes of memory for the process that unpacks, above what the program needs
    #[arg(long, value_name = "BYTES", default_value_t = Settings::default().memory_bytes_max)]
    max_memory: u64,
}

/// Unpacks every file and prints its tree.
pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let settings = Settings { memory_bytes_max: args.max_memory, ..Settings::default() };
    let pool = content_process::start(&settings, 1)?;
    let limits = Limits {
        depth_max: args.max_depth,
        objects_max: args.max_objects,
        bytes_max: args.max_bytes,
        cpu_time_max: Duration::from_secs(args.max_seconds.max(1)),
        time_max: Duration::from_secs(args.max_seconds.clamp(1, 1 << 30) * WALL_TIMES),
        ..Limits::default()
    };
    let password = |word: &String| Password { word: word.clone(), source: "--password".to_owned() };
    let passwords: Vec<Password> = args.passwords.iter().map(password).collect();
    if let Some(folder) = &args.extract {
        std::fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
    }
    let mut unread = false;
    let mut written = 0_u32;
    for file in &args.files {
        let bytes = read(file)?;
        let name = file.file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default();
        let root = Root { name: &name, declared_type: "", bytes: &bytes };
        let mut failed = None;
        let mut extract = |object: &Object, bytes: &[u8]| {
            if let (Some(folder), None) = (&args.extract, &failed) {
                written += 1;
                failed = write_object(folder, written, object, bytes).err();
            }
        };
        let wanted: Option<&mut gauntlet_content::process::client::OnObject<'_>> =
            if args.extract.is_some() { Some(&mut extract) } else { None };
        let tree = pool.unpack(&[root], &limits, &passwords, wanted);
        if let Some(error) = failed {
            return Err(error);
        }
        unread |= tree.objects.iter().any(|object| !object.defects.is_empty());
        print(&file.display().to_string(), &tree, args.json)?;
    }
    Ok(if unread { ExitCode::from(EXIT_UNREAD) } else { ExitCode::SUCCESS })
}

fn read(file: &Path) -> anyhow::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    if file.as_os_str() == "-" {
        io::stdin().lock().read_to_end(&mut bytes).context("standard input")?;
        return Ok(bytes);
    }
    std::fs::read(file).with_context(|| file.display().to_string())
}

fn print(file: &str, tree: &Tree, json: bool) -> anyhow::Result<()> {
    let mut out = io::stdout().lock();
    if json {
        let objects = tree.objects.iter().map(json_object).collect::<Result<Vec<_>, _>>()?;
        let line = serde_json::json!({ "file": file, "objects": objects });
        serde_json::to_writer(&mut out, &line)?;
        writeln!(out)?;
        return Ok(());
    }
    for object in &tree.objects {
        let depth = std::iter::successors(tree.parent(object), |o| tree.parent(o)).count();
        let kind = object.kind.media_type();
        let sha = object.sha256.get(..12).unwrap_or_default();
        writeln!(
            out,
            "{:>10}  {sha}  {kind:<28}  {}{}",
            object.size,
            "  ".repeat(depth),
            object.path
        )?;
        let indent = " ".repeat(26 + 30);
        let named = |name: String, detail: &str| match detail {
            "" => name,
            _ => format!("{name}: {}", shown(detail)),
        };
        for property in &object.properties {
            writeln!(out, "{indent}{}", named(word(&property.kind), &property.detail))?;
        }
        for url in &object.urls {
            writeln!(out, "{indent}url ({}): {}", word(&url.source), shown(&url.url))?;
        }
        for defect in &object.defects {
            writeln!(out, "{indent}NOT READ: {}", named(word(&defect.kind), &defect.detail))?;
        }
    }
    Ok(())
}

/// An object with all its keys, whatever it has.
fn json_object(object: &Object) -> serde_json::Result<serde_json::Value> {
    use serde_json::json;
    let mut value = serde_json::to_value(object)?;
    if let Some(keys) = value.as_object_mut() {
        for (key, none) in [
            ("parent", json!(null)),
            ("declared_type", json!("")),
            ("properties", json!([])),
            ("defects", json!([])),
            ("text", json!("")),
            ("urls", json!([])),
        ] {
            keys.entry(key).or_insert(none);
        }
    }
    Ok(value)
}

/// A kind as JSON has it.
fn word(kind: &impl serde::Serialize) -> String {
    serde_json::to_value(kind).ok().and_then(|v| v.as_str().map(str::to_owned)).unwrap_or_default()
}

/// What a terminal may be shown.
fn shown(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect()
}

/// Writes one object under a name of our own making.
fn write_object(folder: &Path, number: u32, object: &Object, bytes: &[u8]) -> anyhow::Result<()> {
    let last = object.name.rsplit(['/', '\\']).next().unwrap_or_default();
    let safe: String = last
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_') { c } else { '_' })
        .take(NAME_BYTES_MAX)
        .collect();
    let path = folder.join(format!("{number:04}-{}", safe.trim_start_matches(['.', '-'])));
    let mut options = OpenOptions::new();
    let opened = options.write(true).create_new(true).mode(0o600).open(&path);
    let mut file = opened.with_context(|| path.display().to_string())?;
    file.write_all(bytes).with_context(|| path.display().to_string())
}
