//! `gauntlet bench packets --experiment`: the packet path for the experiment of the paper.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::Context;
use gauntlet_bench::packets::{self, Files, Function, Options, Replay};
use gauntlet_ids::config::Settings;
use gauntlet_ids::eve::Finder;
use gauntlet_ids::replay::{self, Finders, Replayer};
use gauntlet_urlfilter::compile;
use gauntlet_urlfilter::sources;

use crate::bench::finish;
use crate::ips::inspection::{Judges, ScanArgs};

/// What a record of something that is on a list says.
const FINDING: &str = "\"event_type\":\"gauntlet\"";

pub(super) fn run(
    options: &Options,
    report: Option<&PathBuf>,
    json: bool,
) -> anyhow::Result<ExitCode> {
    let version = env!("CARGO_PKG_VERSION");
    let measured = packets::run(options, version, &prepare, &mut |what| eprintln!("{what}"))?;
    let sheet = packets::sheet(&measured);
    finish((&sheet, &measured), report.map(PathBuf::as_path), json, true)
}

fn prepare(function: Function, files: &Files<'_>) -> anyhow::Result<Box<Replay<'static>>> {
    let args = match function {
        Function::Urls => {
            let compiled = files.list.with_extension("urls");
            compile(&sources::collect(files.list, None, None)?.files, &compiled)?;
            ScanArgs::of_urls(&compiled)
        }
        Function::Words => ScanArgs::of_words(files.list),
    };
    let judges = args.open()?.context("nothing is judged")?;
    let capture = files.capture.to_owned();
    Ok(Box::new(move |threads| replay(&capture, &judges, threads)))
}

/// The capture through all layers, without rules.
fn replay(
    capture: &std::path::Path,
    judges: &Judges,
    threads: usize,
) -> anyhow::Result<(u64, u64)> {
    let options = replay::Options {
        settings: Settings::stock(),
        directory: PathBuf::new(),
        rules: Vec::new(),
        inline: false,
        // The capture was composed without them.
        checksums: Some(false),
    };
    let replayer = Replayer::new(&options)?.on_threads(threads.try_into()?);
    let replayer = replayer.telling(judges.wishes(), judges.mail_limits());
    let found = AtomicU64::new(0);
    let mut count = |line: &str| {
        found.fetch_add(u64::from(line.contains(FINDING)), Ordering::Relaxed);
    };
    let finders = || Ok(Box::new(judges.inspector(false)?) as Box<dyn Finder + Send>);
    let finders = &finders as &Finders<'_>;
    let summary = replayer.run_beside(capture, &mut count, Some(finders))?;
    Ok((summary.frames, found.into_inner()))
}
