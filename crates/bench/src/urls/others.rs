//! How others look a URL up, beside ours: each line searched for, a sorted list, squidGuard.

use std::fs::File;
use std::hint::black_box;
use std::io::{BufWriter, Write as _};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::Context;
use gauntlet_mail::url::CanonicalUrl;
use gauntlet_urlfilter::sources::Source;

use crate::compare::server::program;

/// Bytes of a list that others are tried with.
const TEXT_BYTES_MAX: u64 = 64 << 20;
/// Entries of a list that squidGuard is tried with: it needs minutes to read more.
const SQUIDGUARD_ENTRIES_MAX: usize = 200_000;
/// URLs that squidGuard is asked.
const SQUIDGUARD_URLS: usize = 100_000;

/// The text of a list; none of a large one.
///
/// # Errors
/// If a source cannot be read.
pub(super) fn text_of(sources: &[Source]) -> anyhow::Result<Option<String>> {
    let mut text = String::new();
    for source in sources {
        let bytes = std::fs::metadata(&source.path)?.len();
        if text.len() as u64 + bytes > TEXT_BYTES_MAX {
            return Ok(None);
        }
        text.push_str(&String::from_utf8_lossy(&std::fs::read(&source.path)?));
    }
    Ok(Some(text))
}

/// Look-ups a second if the list is a text that is split for each of them, and each line searched
/// for in the URL (source system D shares the lines out over its CPUs).
pub(super) fn scan_rate(text: &str, urls: &[CanonicalUrl], time: Duration) -> f64 {
    let (start, mut count) = (Instant::now(), 0_u32);
    for url in urls.iter().cycle() {
        let is_in = |line: &str| !line.is_empty() && url.as_str().contains(line);
        black_box(text.split('\n').any(is_in));
        count += 1;
        if start.elapsed() >= time {
            break;
        }
    }
    f64::from(count) / start.elapsed().as_secs_f64()
}

/// The hosts and domains of a list, without its URLs.
fn domains(text: &str) -> Vec<&str> {
    let names = text.lines().map(|line| line.trim().trim_start_matches(['=', '.']));
    names.filter(|name| !name.is_empty() && !name.contains(['/', ' ', '#'])).collect()
}

/// Look-ups a second in a sorted list of hosts and domains, for the host and each domain above it
/// (e2guardian's way).
pub(super) fn sorted_rate(text: &str, urls: &[CanonicalUrl], time: Duration) -> f64 {
    let mut sorted = domains(text);
    sorted.sort_unstable();
    let is_in = |host: &str| {
        let above = host.match_indices('.').filter_map(|(dot, _)| host.get(dot + 1..));
        let mut names = std::iter::once(host).chain(above);
        names.any(|name| sorted.binary_search(&name).is_ok())
    };
    let (start, mut count) = (Instant::now(), 0_u64);
    while start.elapsed() < time {
        for url in urls.iter().take(super::BATCH) {
            black_box(is_in(url.host()));
        }
        count += urls.len().min(super::BATCH) as u64;
    }
    count as f64 / start.elapsed().as_secs_f64()
}

/// Look-ups a second of squidGuard itself with the hosts and domains of the list in its database,
/// as Squid asks it; none if it is not installed, or the list is large.
///
/// # Errors
/// If it is there and does not work.
pub(super) fn squidguard_rate(
    text: &str,
    urls: &[CanonicalUrl],
    folder: &Path,
) -> anyhow::Result<Option<f64>> {
    let Ok(program) = program("squidGuard", "squidguard") else { return Ok(None) };
    let domains = domains(text);
    if domains.len() > SQUIDGUARD_ENTRIES_MAX {
        return Ok(None);
    }
    let folder = tempfile::tempdir_in(folder).context("cannot make a folder")?;
    let at = |name: &str| folder.path().join(name);
    std::fs::write(at("domains"), domains.join("\n") + "\n").context("cannot write a list")?;
    let root = folder.path().display();
    let config = format!(
        "dbhome {root}\nlogdir {root}\ndest bad {{\n domainlist domains\n}}\n\
         acl {{\n default {{\n pass !bad any\n redirect 302:http://localhost/blocked\n }}\n}}\n"
    );
    std::fs::write(at("squidGuard.conf"), config).context("cannot write a configuration")?;
    let run = |further: &[&str], questions: Option<&Path>| -> anyhow::Result<Duration> {
        let start = Instant::now();
        let mut command = Command::new(&program);
        command.arg("-c").arg(at("squidGuard.conf")).args(further);
        command.stdin(match questions {
            Some(path) => Stdio::from(File::open(path)?),
            None => Stdio::null(),
        });
        let status = command.stdout(Stdio::null()).stderr(Stdio::null()).status();
        anyhow::ensure!(status.context("cannot start squidGuard")?.success(), "squidGuard failed");
        Ok(start.elapsed())
    };
    run(&["-C", "domains"], None)?;
    let ask = |name: &str, count: usize| -> anyhow::Result<(Duration, usize)> {
        let mut out = BufWriter::new(File::create(at(name))?);
        let mut asked = 0;
        for url in urls.iter().take(count) {
            writeln!(out, "{} 192.0.2.1/- - GET", url.as_str())?;
            asked += 1;
        }
        out.flush()?;
        drop(out);
        Ok((run(&[], Some(&at(name)))?, asked))
    };
    // Without the time to start.
    let (idle, _) = ask("none", 0)?;
    let (took, asked) = ask("questions", SQUIDGUARD_URLS)?;
    Ok(Some(asked as f64 / took.saturating_sub(idle).as_secs_f64().max(1e-9)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_a_list() {
        let text = "evil.example\n=www.a.example\n.b.example\nhttp://c.example/x\n# note\n\n";
        assert_eq!(domains(text), ["evil.example", "www.a.example", "b.example"]);
    }
}
