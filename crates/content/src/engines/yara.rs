//! YARA rules, matched in this process (crate `boreal`).
//!
//! A file with a mistake loses the rule that has it, and no other: each rule is compiled by itself
//! ([`split`]).

mod split;

use std::collections::HashSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Instant;

use boreal::scanner::{ScanError, ScanParams};
use boreal::{Compiler, Scanner};

use super::{Answer, Engine, EngineError, EngineItem};
use split::Statement;

/// Files that include each other.
const INCLUDE_DEPTH_MAX: usize = 16;
/// Bytes of one file of rules.
const FILE_BYTES_MAX: u64 = 256 << 20;
/// Files of rules that are read, included ones among them; more are ignored.
const FILES_MAX: usize = 10_000;
/// Problems that are kept.
const PROBLEMS_MAX: usize = 100;
/// Names of one file that is scanned.
const NAMES_MAX: usize = 16;
/// Variables that rule sets in wide use expect to be given, empty here where they are unknown.
const TEXT_VARIABLES: [&str; 5] = ["filename", "filepath", "extension", "filetype", "owner"];

/// An engine that matches compiled YARA rules.
#[derive(Debug)]
pub struct Yara {
    scanner: Scanner,
    version: String,
}

/// How loading went: what was compiled and what was left out.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct YaraReport {
    /// Files that were read.
    pub files: usize,
    /// Rules that were compiled.
    pub rules: usize,
    /// File, line (beginning with 1) and mistake.
    pub problems: Vec<YaraProblem>,
    /// Mistakes in all; `problems` has the first 100.
    pub problems_all: usize,
}

/// A mistake in a file of rules.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct YaraProblem {
    /// The file with the mistake, which may be an included one.
    pub path: PathBuf,
    /// The line, 0 if it is the whole file.
    pub line: usize,
    /// What the compiler says, or why an include cannot be read.
    pub text: String,
}

impl std::fmt::Display for YaraProblem {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}: {}", self.path.display(), self.line, self.text)
    }
}

struct Loader {
    compiler: Compiler,
    report: YaraReport,
    context: ring::digest::Context,
    /// Files that were read, so that rules are not loaded twice.
    seen: HashSet<PathBuf>,
}

impl Yara {
    /// Compiles the rules of files, and of the files `*.yar` and `*.yara` of folders, in the order
    /// of their names. Rules with mistakes are left out and reported.
    ///
    /// # Errors
    /// If a path cannot be read.
    pub fn load(paths: &[PathBuf]) -> io::Result<(Self, YaraReport)> {
        let mut loader = Loader {
            compiler: Compiler::new(),
            report: YaraReport::default(),
            context: ring::digest::Context::new(&ring::digest::SHA256),
            seen: HashSet::new(),
        };
        for name in TEXT_VARIABLES {
            loader.compiler.define_symbol(name, "");
        }
        let at = |path: &Path, error: io::Error| {
            io::Error::new(error.kind(), format!("{}: {error}", path.display()))
        };
        for path in paths {
            for file in files_of(path).map_err(|e| at(path, e))? {
                let text = read(&file).map_err(|e| at(&file, e))?;
                loader.add_file(&file, &text, 0);
            }
        }
        let digest = loader.context.finish();
        let mark: String = digest.as_ref()[..6].iter().map(|b| format!("{b:02x}")).collect();
        let version = format!("{} YARA rules, {mark}", loader.report.rules);
        Ok((Yara { scanner: loader.compiler.finalize(), version }, loader.report))
    }
}

impl Loader {
    fn add_file(&mut self, path: &Path, text: &str, depth: usize) {
        if !self.seen.insert(path.to_owned()) || self.report.files >= FILES_MAX {
            return;
        }
        self.report.files += 1;
        self.context.update(text.as_bytes());
        // Names of rules need be unique within a file only.
        let namespace = path.display().to_string();
        for statement in split::statements(text) {
            match statement {
                Statement::Include { line, path: included } => {
                    let file = path.parent().unwrap_or(Path::new("")).join(included);
                    match read(&file) {
                        Ok(_) if depth >= INCLUDE_DEPTH_MAX => {
                            self.problem(path, line, "includes nested too deeply".to_owned());
                        }
                        Ok(text) => self.add_file(&file, &text, depth + 1),
                        Err(error) => {
                            self.problem(path, line, format!("include {included:?}: {error}"));
                        }
                    }
                }
                Statement::Code { line, text } => {
                    match self.compiler.add_rules_str_in_namespace(text, &namespace) {
                        Ok(_) => self.report.rules += usize::from(!text.starts_with("import")),
                        Err(error) => {
                            let (lines_down, why) = position(&error.to_string());
                            self.problem(path, line + lines_down, why);
                        }
                    }
                }
            }
        }
    }

    fn problem(&mut self, path: &Path, line: usize, text: String) {
        self.report.problems_all += 1;
        if self.report.problems.len() < PROBLEMS_MAX {
            self.report.problems.push(YaraProblem { path: path.to_owned(), line, text });
        }
    }
}

/// `mem:3:5: error: why` as lines below the first, and why.
fn position(error: &str) -> (usize, String) {
    let first = error.lines().next().unwrap_or_default();
    let mut parts = first.splitn(4, ':');
    let numbers = (parts.next(), parts.next().map(str::parse::<usize>), parts.next(), parts.next());
    match numbers {
        (Some(_), Some(Ok(line)), Some(_), Some(why)) => {
            let why = why.trim().trim_start_matches("error:").trim();
            (line.saturating_sub(1), why.to_owned())
        }
        _ => (0, first.to_owned()),
    }
}

fn files_of(path: &Path) -> io::Result<Vec<PathBuf>> {
    if !fs::metadata(path)?.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let mut files = Vec::new();
    for entry in fs::read_dir(path)? {
        let file = entry?.path();
        let extension = file.extension().and_then(|e| e.to_str()).unwrap_or_default();
        if ["yar", "yara"].contains(&extension) {
            files.push(file);
        }
    }
    files.sort();
    Ok(files)
}

fn read(path: &Path) -> io::Result<String> {
    if fs::metadata(path)?.len() > FILE_BYTES_MAX {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "larger than a file of rules"));
    }
    Ok(String::from_utf8_lossy(&fs::read(path)?).into_owned())
}

impl Engine for Yara {
    fn version(&self, _: Instant) -> Result<String, EngineError> {
        Ok(self.version.clone())
    }

    fn scan(&self, item: &EngineItem<'_>, until: Instant) -> Result<Answer, EngineError> {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(EngineError::OutOfTime);
        }
        // Shares what was compiled; the time and the names are this file's.
        let mut scanner = self.scanner.clone();
        let params = ScanParams::default().compute_full_matches(false).timeout_duration(Some(left));
        scanner.set_scan_params(params);
        let name = item.path.rsplit('/').next().unwrap_or_default();
        let extension = name.rsplit_once('.').map_or("", |(_, e)| e);
        for (variable, value) in [
            ("filename", name),
            ("filepath", item.path),
            ("extension", extension),
            ("filetype", item.kind.media_type()),
        ] {
            let _it_was_defined = scanner.define_symbol(variable, value);
        }
        let (result, error) = match scanner.scan_mem(item.bytes) {
            Ok(result) => (result, None),
            Err((error, result)) => (result, Some(error)),
        };
        let mut names: Vec<String> = result.rules.iter().map(|r| r.name.to_owned()).collect();
        names.truncate(NAMES_MAX);
        match error {
            _ if !names.is_empty() => Ok(Answer::Found(names)),
            None => Ok(Answer::Clean),
            // A file on which rules take too long is that file's problem, not the engine's.
            Some(ScanError::Timeout) => Err(EngineError::Failed("YARA ran out of time".to_owned())),
            Some(error) => Err(EngineError::Failed(error.to_string())),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use gauntlet_sniff::FileKind;

    use super::*;

    fn scan(yara: &Yara, bytes: &[u8], path: &str) -> Answer {
        let item = EngineItem { path, kind: FileKind::Unknown, bytes, sha256: "", md5: "" };
        yara.scan(&item, Instant::now() + Duration::from_secs(20)).unwrap()
    }

    #[test]
    fn mistakes_cost_their_rule_only() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
        write(
            "a.yar",
            "import \"math\"\ninclude \"more/b.inc\"\n/* rule x { */\nrule one {\n  strings: $a = \
             \"evil{\" condition: $a and base\n}\n\nrule broken {\n  condition:\n    nothing\n}\n\
             private rule hidden { condition: true }\nrule two : tag { strings: $h = { 41 [1-2] 42 } \
             $r = /x}\\/y\"/ condition: hidden and ($h or $r) }\nrule unfinished { condition: true\n",
        );
        fs::create_dir(folder.path().join("more")).unwrap();
        write("more/b.inc", "rule elsewhere { condition: filename == \"b.exe\" }");
        write(
            "z.yara",
            "rule base { condition: false }\nrule one { strings: $a = \"also\" condition: $a }",
        );
        write("readme.txt", "no rules");
        let (yara, report) = Yara::load(&[folder.path().to_owned()]).unwrap();
        let problems: Vec<(usize, &str)> =
            report.problems.iter().map(|p| (p.line, p.text.as_str())).collect();
        assert_eq!((report.files, report.rules), (3, 5), "{problems:?}");
        let lines: Vec<usize> = problems.iter().map(|p| p.0).collect();
        // `one` uses a rule of another file; `broken` a name that nothing defines.
        assert_eq!(lines, [5, 10, 15], "{problems:?}");
        assert_eq!(scan(&yara, b"x}/y\"", "a"), Answer::Found(vec!["two".to_owned()]));
        assert_eq!(scan(&yara, b"A.B", "a"), Answer::Found(vec!["two".to_owned()]));
        assert_eq!(scan(&yara, b"also", "a"), Answer::Found(vec!["one".to_owned()]));
        assert_eq!(scan(&yara, b"", "x.zip/b.exe"), Answer::Found(vec!["elsewhere".to_owned()]));
        assert_eq!(scan(&yara, b"nothing", "a"), Answer::Clean);
        assert!(Yara::load(&[folder.path().join("none.yar")]).is_err());
    }
}
