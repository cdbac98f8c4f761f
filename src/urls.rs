//! `gauntlet urls`: compile lists of URLs, check them, look URLs up.

use std::collections::BTreeMap;
use std::io::{BufRead as _, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context, bail};
use gauntlet_mail::url::canonical;
use gauntlet_urlfilter::formats::Format;
use gauntlet_urlfilter::problem::{Problems, Severity};
use gauntlet_urlfilter::sources::{self, Sources};
use gauntlet_urlfilter::{
    Built, Match, Matches, OpenError, Origin, ReadReport, Role, UrlList, UrlLists, check, compile,
};
use serde_json::{Value, json};

/// Where copies of lists are that are open for long: on the disk, unlike what `/tmp` often is.
pub(crate) const COPIES: &str = "/var/tmp";
/// Exit code of `check` if a line is bad, and of `look-up` if a URL is listed.
const EXIT_FOUND: u8 = 1;
/// Exit code of `look-up` if something is no URL: "nothing listed" would be no answer.
const EXIT_USAGE: u8 = 2;

const AFTER_HELP: &str = "\
Sources are files, or folders with a folder for each category (CATEGORY/domains, CATEGORY/urls,
CATEGORY/expressions). Formats: plain, hosts, adblock, dstdomain, url_regex, domains, urls,
expressions, rpz, csv; without --format the first lines say which.

Exit codes: 0 good, or nothing listed; 1 `check` met a bad line, `look-up` a URL that is listed;
2 wrong usage, something that is no URL, or a file that cannot be used.

Examples:
  gauntlet urls compile --out bad.urls /srv/blacklists
  gauntlet urls check easylist.txt
  gauntlet urls look-up --list bad.urls http://evil.example/";

/// Arguments of `gauntlet urls`.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, clap::Subcommand)]
enum Action {
    /// Read lists and write one compiled file, which replaces the one that is there
    Compile {
        #[command(flatten)]
        input: Input,
        /// The compiled file
        #[arg(short, long, value_name = "FILE")]
        out: PathBuf,
    },
    /// Read lists, or compiled files, and say what is wrong with them
    Check {
        #[command(flatten)]
        input: Input,
    },
    /// Say which lists have a URL, and where
    LookUp {
        /// URLs, or `-` for one a line on standard input
        #[arg(required = true)]
        urls: Vec<String>,
        /// A compiled file; its matches bear its name
        #[arg(short, long = "list", value_name = "FILE", required = true)]
        lists: Vec<PathBuf>,
        /// A compiled file of what is allowed in spite of all lists
        #[arg(long = "allow", value_name = "FILE")]
        allow: Vec<PathBuf>,
        /// URL of the page that asks, for rules about third parties
        #[arg(long, value_name = "URL")]
        page: Option<String>,
        /// Print one JSON object a line
        #[arg(long)]
        json: bool,
    },
}

#[derive(Debug, clap::Args)]
struct Input {
    /// Files or folders
    #[arg(required = true)]
    sources: Vec<PathBuf>,
    /// Format of all files [default: by their names and first lines]
    #[arg(short, long, value_name = "NAME", value_parser = format)]
    format: Option<Format>,
    /// Category of entries that say none [default: name of the folder or file]
    #[arg(long, value_name = "NAME")]
    category: Option<String>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

fn format(name: &str) -> Result<Format, String> {
    Format::named(name).ok_or_else(|| {
        let names: Vec<&str> = Format::ALL.iter().map(|format| format.name()).collect();
        format!("no such format; there are {}", names.join(", "))
    })
}

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    match &args.action {
        Action::Compile { input, out } => compile_lists(input, out),
        Action::Check { input } => check_lists(input),
        Action::LookUp { urls, lists, allow, page, json } => {
            let lists = open(lists, allow)?;
            look_up(urls, &lists, page.as_deref(), *json)
        }
    }
}

fn collect(input: &Input) -> anyhow::Result<Sources> {
    let mut all = Sources::default();
    for path in &input.sources {
        let found = sources::collect(path, input.format, input.category.as_deref())?;
        if found.files.is_empty() {
            bail!("no lists in {}: name files, or see docs/url-lists.md", path.display());
        }
        all.files.extend(found.files);
        all.ignored.extend(found.ignored);
    }
    Ok(all)
}

fn compile_lists(input: &Input, out: &Path) -> anyhow::Result<ExitCode> {
    let sources = collect(input)?;
    let same = |path: &Path| path.canonicalize().ok().filter(|_| path.is_file());
    if let Some(own) = same(out)
        && sources.files.iter().any(|source| same(&source.path).as_ref() == Some(&own))
    {
        bail!("{} is one of the sources: name another file with --out", out.display());
    }
    // What is in force stays until there is something better.
    let made = out.with_added_extension("new");
    let (built, report) = compile(&sources.files, &made)?;
    // A download that failed often leaves an empty file: it must not end what a list blocks.
    if built.entries == 0 && (report.problems.total() > 0 || out.exists()) {
        std::fs::remove_file(&made).with_context(|| made.display().to_string())?;
        print_report(&mut std::io::stderr().lock(), &report, &sources)?;
        bail!(
            "no line of the sources is an entry: {} is left as it was; remove it first if an empty \
             list is meant",
            out.display()
        );
    }
    std::fs::rename(&made, out).with_context(|| out.display().to_string())?;
    let mut to = std::io::stdout().lock();
    if input.json {
        let mut line = report_json(&report, &sources);
        line["compiled"] = built_json(&built, out);
        writeln!(to, "{line}")?;
        return Ok(ExitCode::SUCCESS);
    }
    print_report(&mut to, &report, &sources)?;
    let Built { entries, duplicates, crowded, regexes, categories, file_bytes } = built;
    writeln!(
        to,
        "{}: {entries} entries ({regexes} expressions) in {categories} categories, {duplicates} \
         doubles left out; {file_bytes} bytes",
        out.display()
    )?;
    if crowded > 0 {
        writeln!(to, "LEFT OUT: {crowded} entries whose key has 64 others")?;
    }
    Ok(ExitCode::SUCCESS)
}

fn built_json(built: &Built, out: &Path) -> Value {
    json!({
        "file": out.display().to_string(), "entries": built.entries, "regexes": built.regexes,
        "duplicates": built.duplicates, "crowded": built.crowded,
        "categories": built.categories, "bytes": built.file_bytes,
    })
}

fn check_lists(input: &Input) -> anyhow::Result<ExitCode> {
    let mut to = std::io::stdout().lock();
    let is_compiled = |path: &Path| path.is_file() && UrlList::is_compiled(path);
    let (compiled, lists): (Vec<PathBuf>, Vec<PathBuf>) =
        input.sources.iter().cloned().partition(|path| is_compiled(path));
    for path in &compiled {
        let list = UrlList::open(path, "", Role::Match)?;
        let hash = blake3_hex(&list.sources_hash());
        let (file, entries, bytes) = (path.display(), list.entries(), list.file_bytes());
        let (categories, regexes) = (list.categories(), list.regexes());
        if input.json {
            let file = file.to_string();
            let line = json!({ "file": file, "entries": entries, "regexes": regexes, "bytes": bytes,
                "categories": categories, "sources": list.sources(), "sources_blake3": hash });
            writeln!(to, "{line}")?;
        } else {
            writeln!(
                to,
                "{file}: sound; {entries} entries ({regexes} expressions) in {} categories from \
                 {} files, {bytes} bytes; sources {}",
                categories.len(),
                list.sources().len(),
                &hash[..16]
            )?;
        }
    }
    if lists.is_empty() {
        return Ok(ExitCode::SUCCESS);
    }
    let Input { format, category, json, .. } = input;
    let input = Input { sources: lists, format: *format, category: category.clone(), json: *json };
    let sources = collect(&input)?;
    let report = check(&sources.files)?;
    if input.json {
        writeln!(to, "{}", report_json(&report, &sources))?;
    } else {
        print_report(&mut to, &report, &sources)?;
    }
    let bad = report.problems.count(Severity::Bad);
    Ok(if bad == 0 { ExitCode::SUCCESS } else { ExitCode::from(EXIT_FOUND) })
}

fn blake3_hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn print_report(to: &mut impl Write, report: &ReadReport, all: &Sources) -> anyhow::Result<()> {
    for source in &report.sources {
        writeln!(
            to,
            "{}: {} ({}), category {}: {} lines, {} entries, {} problems",
            source.path.display(),
            source.format,
            source.format_by,
            source.category,
            source.lines,
            source.entries,
            source.problems
        )?;
    }
    for path in &all.ignored {
        writeln!(to, "{}: not read: its name is none of a list", path.display())?;
    }
    print_problems(to, &report.problems)
}

fn print_problems(to: &mut impl Write, problems: &Problems) -> anyhow::Result<()> {
    for problem in &problems.shown {
        writeln!(to, "{problem}")?;
    }
    for ((severity, what), count) in &problems.counts {
        writeln!(to, "{count:>9} {}: {what}", severity.name())?;
    }
    Ok(())
}

fn report_json(report: &ReadReport, all: &Sources) -> Value {
    let sources = report.sources.iter().map(|source| {
        json!({
            "file": source.path.display().to_string(), "format": source.format.name(),
            "format_by": source.format_by, "category": source.category, "lines": source.lines,
            "entries": source.entries, "problems": source.problems,
        })
    });
    let problems = report.problems.shown.iter().map(|problem| {
        json!({
            "file": problem.file, "line": problem.line,
            "severity": problem.fault.severity.name(), "what": problem.fault.what,
            "remedy": problem.fault.remedy, "text": problem.quoted,
        })
    });
    let mut counts: BTreeMap<&str, BTreeMap<&str, u64>> = BTreeMap::new();
    for ((severity, what), count) in &report.problems.counts {
        counts.entry(severity.name()).or_default().insert(what, *count);
    }
    let ignored: Vec<String> = all.ignored.iter().map(|path| path.display().to_string()).collect();
    let (sources, problems): (Vec<_>, Vec<_>) = (sources.collect(), problems.collect());
    json!({ "sources": sources, "problems": problems, "counts": counts, "ignored": ignored })
}

/// Opens compiled lists, which are named by their files.
pub(crate) fn open(lists: &[PathBuf], allow: &[PathBuf]) -> anyhow::Result<UrlLists> {
    open_by(lists, allow, UrlList::open)
}

/// The same for what runs for long: of copies, so that a file that is cut in place does not end it.
pub(crate) fn open_to_keep(lists: &[PathBuf], allow: &[PathBuf]) -> anyhow::Result<UrlLists> {
    open_by(lists, allow, |path, name, role| {
        UrlList::open_copied(path, Path::new(COPIES), name, role)
    })
}

fn open_by(
    lists: &[PathBuf],
    allow: &[PathBuf],
    open: impl Fn(&Path, &str, Role) -> Result<UrlList, OpenError>,
) -> anyhow::Result<UrlLists> {
    let all = lists.iter().map(|path| (path, Role::Match));
    let all = all.chain(allow.iter().map(|path| (path, Role::Allow)));
    let opened = all.map(|(path, role)| {
        let name = path.file_stem().unwrap_or_default().to_string_lossy();
        Ok(Arc::new(open(path, &name, role)?))
    });
    Ok(UrlLists::new(opened.collect::<anyhow::Result<_>>()?))
}

fn look_up(
    urls: &[String],
    lists: &UrlLists,
    page: Option<&str>,
    json: bool,
) -> anyhow::Result<ExitCode> {
    let mut to = std::io::stdout().lock();
    let page = page.map(|page| canonical(page).context("--page is no URL")).transpose()?;
    let (mut any, mut is_wrong) = (false, false);
    let mut one = |text: &str| {
        let Some(url) = canonical(text) else {
            is_wrong = true;
            eprintln!("gauntlet: {text:?} is no URL with a host");
            return Ok(());
        };
        let origin = page.as_ref().map_or(Origin::Unknown, |page| {
            match page.registrable_domain() == url.registrable_domain() {
                true => Origin::SameSite,
                false => Origin::OtherSite,
            }
        });
        let matches = lists.look_up_from(&url, origin);
        any |= matches.first().is_some();
        match json {
            true => writeln!(to, "{}", matches_json(url.as_str(), &matches)),
            false => print_matches(&mut to, url.as_str(), &matches),
        }
    };
    for url in urls {
        if url == "-" {
            for line in std::io::stdin().lock().lines() {
                one(&line.context("standard input")?)?;
            }
        } else {
            one(url)?;
        }
    }
    Ok(match (is_wrong, any) {
        (true, _) => ExitCode::from(EXIT_USAGE),
        (false, true) => ExitCode::from(EXIT_FOUND),
        (false, false) => ExitCode::SUCCESS,
    })
}

fn print_matches(to: &mut impl Write, url: &str, matches: &Matches<'_>) -> std::io::Result<()> {
    let said = match (matches.is_empty(), matches.first()) {
        (true, _) => "not listed",
        (false, Some(_)) => "listed",
        (false, None) => "allowed",
    };
    writeln!(to, "{url}: {said}")?;
    for found in matches.all() {
        let note = match (found.role, found.is_exception, matches.undone_by(found)) {
            (Role::Allow, ..) => " [allows]".to_owned(),
            (_, true, _) => " [exception]".to_owned(),
            (_, _, Some(by)) => format!(" [undone by {}:{}]", by.source, by.line),
            (_, _, None) => String::new(),
        };
        writeln!(to, "  {found}{note}")?;
    }
    Ok(())
}

fn matches_json(url: &str, matches: &Matches<'_>) -> Value {
    let one = |found: &Match<'_>| {
        json!({
            "list": found.list, "category": found.category, "kind": found.pattern.kind(),
            "pattern": found.pattern.text(), "source": found.source, "line": found.line,
            "is_exception": found.is_exception, "allows": found.role == Role::Allow,
            "counts": matches.effective().any(|effective| effective == found),
        })
    };
    let all: Vec<Value> = matches.all().iter().map(one).collect();
    json!({ "url": url, "listed": matches.first().is_some(), "matches": all })
}
