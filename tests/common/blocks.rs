//! Blocks of code in the pages: the mark above each, and the commands in it.
//!
//! A mark is a comment of HTML on a line of its own right above the block, which neither mdBook nor
//! a reader on the web shows:
//!
//! | Mark | Means |
//! |---|---|
//! | `<!-- run -->` | `tests/handbook.rs` runs the commands and compares what they print |
//! | `<!-- run: exit 1 -->` | the same; the last command ends with this status |
//! | `<!-- run with a node -->` | the same, beside a node, one for the page |
//! | `<!-- file: NAME -->` | the block is a file for the commands after it |
//! | `<!-- config -->` | `gauntlet config check` accepts it |
//! | `<!-- policy -->` | `gauntlet policy check` does, without a warning |
//! | `<!-- not run: WHY -->` | somebody has to do it by hand, or another test does it |

use std::path::{Path, PathBuf};

/// A fenced or indented block of code.
#[derive(Debug)]
pub(crate) struct Block {
    /// The page, from the root of the repository.
    pub(crate) page: PathBuf,
    /// Number of its first line.
    pub(crate) line: usize,
    /// The word behind the fence; empty for none and for an indented block.
    pub(crate) language: String,
    /// Its lines, without the indentation.
    pub(crate) text: String,
    /// Text of the comment above it.
    pub(crate) mark: Option<String>,
}

/// A command of a block, and the lines that the page says it prints.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Step {
    pub(crate) command: String,
    pub(crate) output: Vec<String>,
}

/// The root of the repository.
pub(crate) fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// All Markdown pages of this folder and those below it, sorted.
pub(crate) fn pages(folder: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![PathBuf::from(folder)];
    while let Some(folder) = folders.pop() {
        let entries = std::fs::read_dir(root().join(&folder)).expect("a folder of pages");
        for entry in entries.flatten() {
            let path = folder.join(entry.file_name());
            if entry.path().is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|e| e == "md") {
                found.push(path);
            }
        }
    }
    found.sort();
    found
}

/// The blocks of a page.
pub(crate) fn blocks(page: &Path) -> Vec<Block> {
    let text = std::fs::read_to_string(root().join(page));
    let text = text.unwrap_or_else(|e| panic!("{}: {e}", page.display()));
    let (mut found, mut mark, mut is_prose) = (Vec::new(), None, true);
    let mut lines = text.lines().enumerate().peekable();
    while let Some((at, line)) = lines.next() {
        let trimmed = line.trim();
        let comment = trimmed.strip_prefix("<!--").and_then(|rest| rest.strip_suffix("-->"));
        if let Some(comment) = comment {
            (mark, is_prose) = (Some(comment.trim().to_owned()), false);
            continue;
        }
        let indent = line.len() - line.trim_start().len();
        let fence = trimmed.strip_prefix("```");
        let mut body: Vec<&str> = Vec::new();
        if fence.is_some() {
            for (_, inside) in lines.by_ref() {
                if inside.trim() == "```" {
                    break;
                }
                body.push(inside.get(indent..).unwrap_or(inside.trim_start()));
            }
        } else if indent >= 4 && !is_prose {
            body.push(&line[indent..]);
            while let Some((_, next)) =
                lines.next_if(|(_, next)| next.starts_with("    ") || next.trim().is_empty())
            {
                body.push(next.get(indent..).unwrap_or(next.trim_start()));
            }
        }
        if fence.is_some() || !body.is_empty() {
            let language = fence.unwrap_or_default().trim().to_owned();
            let (page, text) = (page.to_owned(), body.join("\n").trim_end().to_owned() + "\n");
            found.push(Block { page, line: at + 1, language, text, mark: mark.take() });
            is_prose = false;
        } else if !trimmed.is_empty() {
            (mark, is_prose) = (None, true);
        } else {
            is_prose = false;
        }
    }
    found
}

impl Block {
    /// Where it stands, for messages.
    pub(crate) fn place(&self) -> String {
        format!("{}:{}", self.page.display(), self.line)
    }

    fn is_console(&self) -> bool {
        self.text.lines().any(|line| line.starts_with("$ "))
    }

    /// Whether a reader would type something of it into a shell.
    pub(crate) fn has_commands(&self) -> bool {
        match self.language.as_str() {
            "sh" | "console" => true,
            "" | "text" => self.is_console() || self.text.lines().any(is_typed),
            _ => false,
        }
    }

    /// Its commands, each whole, with what is printed. A block of `sh` prints nothing; of one
    /// without a language and without `$` only the lines that begin with our name are commands.
    pub(crate) fn steps(&self) -> Vec<Step> {
        let is_console = self.is_console();
        let is_all = self.language == "sh" && !is_console;
        let mut steps: Vec<Step> = Vec::new();
        let mut lines = self.text.lines();
        while let Some(line) = lines.next() {
            let first = match line.strip_prefix("$ ") {
                Some(command) if is_console => Some(command),
                None if !is_console && (is_all || is_call(line)) => Some(line),
                _ => None,
            };
            let Some(first) = first else {
                if let Some(step) = steps.last_mut().filter(|_| is_console) {
                    step.output.push(line.to_owned());
                }
                continue;
            };
            let mut command = first.to_owned();
            while !is_whole(&command) {
                let Some(more) = lines.next() else { break };
                command = format!("{command}\n{more}");
            }
            if !command.trim_start().starts_with('#') && !command.trim().is_empty() {
                steps.push(Step { command, output: Vec::new() });
            }
        }
        steps
    }
}

/// Programs beside ours that pages call, by the beginning of a line.
const PROGRAMS: [&str; 28] = [
    "apt",
    "cargo",
    "cd",
    "certbot",
    "curl",
    "dig",
    "docker",
    "dpkg",
    "git",
    "htpasswd",
    "install",
    "ip",
    "journalctl",
    "kubectl",
    "minisign",
    "nft",
    "openssl",
    "podman",
    "podman-compose",
    "postconf",
    "postfix",
    "promtool",
    "psql",
    "sha256sum",
    "sudo",
    "systemctl",
    "tar",
    "useradd",
];

/// Whether a line of a block without a language of commands would be typed into a shell.
fn is_typed(line: &str) -> bool {
    let first = line.split_once(' ').map(|(first, _)| first);
    is_call(line)
        || line.starts_with("packaging/")
        || first.is_some_and(|first| PROGRAMS.contains(&first))
}

/// Whether a line calls our program, and is none that it prints (`gauntlet 0.1.0 is ready`).
fn is_call(line: &str) -> bool {
    let rest = line.strip_prefix("gauntlet ");
    rest.is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_lowercase() || c == '-'))
}

/// Whether a shell would run it, and not wait for more lines.
fn is_whole(command: &str) -> bool {
    let quote = open_quote(command);
    let words: Vec<&str> = command.split(|c: char| c.is_whitespace() || c == ';').collect();
    let count = |word: &str| words.iter().filter(|w| **w == word).count();
    let here = command.split("<<'").nth(1).and_then(|rest| rest.split('\'').next());
    let has_end = here.is_none_or(|end| command.lines().skip(1).any(|line| line == end));
    let is_open = command.trim_end().ends_with(['\\', '|']) || command.trim_end().ends_with("&&");
    quote.is_none() && !is_open && count("do") <= count("done") && has_end
}

/// The quote that is not closed.
fn open_quote(command: &str) -> Option<char> {
    let mut quote = None;
    let mut escaped = false;
    for c in command.chars() {
        match (quote, c) {
            _ if escaped => escaped = false,
            (None | Some('"'), '\\') => escaped = true,
            (None, '\'' | '"') => quote = Some(c),
            (Some(open), c) if open == c => quote = None,
            _ => {}
        }
    }
    quote
}

/// Words of the simple commands of a line of shell: parted at `|`, `;`, `&` and line ends, without
/// redirections and comments.
fn simple_commands(command: &str) -> Vec<Vec<String>> {
    let mut all = vec![Vec::new()];
    let mut word: Option<String> = None;
    let (mut quote, mut drop_word) = (None, false);
    let mut chars = command.chars().peekable();
    let end = |word: &mut Option<String>, drop_word: &mut bool, all: &mut Vec<Vec<String>>| {
        let Some(word) = word.take() else { return };
        if !std::mem::take(drop_word) {
            all.last_mut().expect("one at least").push(word);
        }
    };
    while let Some(c) = chars.next() {
        match (quote, c) {
            // What another command prints: a number, as most options want that get one.
            (None | Some('"'), '$') if chars.peek() == Some(&'(') => {
                while chars.next_if(|c| *c != ')').is_some() {}
                chars.next();
                word.get_or_insert_default().push('1');
            }
            (Some(open), c) if open == c => quote = None,
            (Some(_), c) => word.get_or_insert_default().push(c),
            (None, '\'' | '"') => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            (None, '\\') => match chars.next() {
                Some('\n') | None => {}
                Some(next) => word.get_or_insert_default().push(next),
            },
            (None, '#') if word.is_none() => while chars.next_if(|c| *c != '\n').is_some() {},
            (None, '>' | '<') => {
                if word.as_ref().is_some_and(|w| w.bytes().all(|b| b.is_ascii_digit())) {
                    word = None;
                }
                end(&mut word, &mut drop_word, &mut all);
                while chars.next_if(|c| matches!(c, '>' | '&' | '<')).is_some() {}
                drop_word = true;
            }
            (None, '|' | ';' | '&' | '\n' | '(' | ')') => {
                end(&mut word, &mut drop_word, &mut all);
                drop_word = false;
                all.push(Vec::new());
            }
            (None, c) if c.is_whitespace() => end(&mut word, &mut drop_word, &mut all),
            (None, c) => word.get_or_insert_default().push(c),
        }
    }
    end(&mut word, &mut drop_word, &mut all);
    all.retain(|words| !words.is_empty());
    all
}

/// The calls of our program in a line of shell, as arguments with the program's name first.
pub(crate) fn calls(command: &str) -> Vec<Vec<String>> {
    let is_ours = |word: &str| {
        let name = word.rsplit('/').next().unwrap_or(word);
        name == "gauntlet" || name == "gauntlet-new"
    };
    let mut found = Vec::new();
    for words in simple_commands(command) {
        let passes = |word: &str| {
            matches!(word, "do" | "then" | "sudo" | "exec" | "time" | "!") || word.contains('=')
        };
        let first = words.iter().position(|word| !passes(word)).unwrap_or(words.len());
        let rest = &words[first..];
        let cargo = rest.iter().position(|word| word == "--");
        let arguments = match rest {
            [name, ..] if is_ours(name) => Some(&rest[1..]),
            [cargo_name, run, ..] if cargo_name == "cargo" && run == "run" => {
                cargo.map(|at| &rest[at + 1..])
            }
            _ => None,
        };
        if let Some(arguments) = arguments {
            let mut call = vec!["gauntlet".to_owned()];
            call.extend_from_slice(arguments);
            found.push(call);
        }
    }
    found
}
