//! Scratch.
use clap::Parser;
use gauntlet_engine::{RuleEffect, Scratch, Snapshot, scan};
use gauntlet_mail::{Envelope, Facts, Message, address};
use gauntlet_verdict::{Class, Verdict};
use serde::Serialize;
use std::path::{Path, PathBuf};
#[derive(Parser)]
#[allow(clippy::large_enum_variant)]
enum Cli {
    Train(gauntlet_lab::train::Args),
    Evaluate(gauntlet_lab::evaluate::Args),
    Fit(gauntlet_lab::fit::Args),
    Bless { root: PathBuf, model: PathBuf },
    Judge { model: PathBuf, files: Vec<PathBuf> },
}
#[derive(Serialize)]
struct Golden {
    class: Class,
    score: f64,
    rules: Vec<(String, f64)>,
    defects: Vec<(String, u16)>,
}
fn judge(raw: &[u8], snapshot: &Snapshot) -> Verdict {
    let message = Message::parse(raw);
    let sender = message.header("return-path").map(|f| address::mailboxes(&f.unfolded(), 1));
    let mail_from =
        sender.and_then(|s| s.into_iter().next()).map_or_else(String::new, |m| m.address);
    let envelope = Envelope { mail_from, ..Envelope::default() };
    scan(&message, &envelope, &Facts::default(), snapshot, &mut Scratch::default())
}
fn with(model: &Path) -> anyhow::Result<Snapshot> {
    let m = gauntlet_engine::classifier::Model::from_bytes(&std::fs::read(model)?)?;
    Ok(Snapshot::build(&gauntlet_engine::Settings {
        model: Some(std::sync::Arc::new(m)),
        ..Default::default()
    })?)
}
fn bless(root: &Path, model: &Path) -> anyhow::Result<()> {
    let snapshot = with(model)?;
    for entry in std::fs::read_dir(root.join("samples"))?.flatten() {
        let path = entry.path();
        if path.extension().is_none_or(|e| e != "eml") {
            continue;
        }
        let v = judge(&std::fs::read(&path)?, &snapshot);
        let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let class = v.class;
        let right = match name.split('-').next().unwrap_or_default() {
            "ham" | "bulk" => class <= Class::Bulk,
            "spam" => matches!(class, Class::Suspect | Class::Spam | Class::Phishing),
            "phishing" => matches!(class, Class::Phishing | Class::Spam | Class::Suspect),
            "malware" => class == Class::Malware,
            _ => true,
        };
        println!(
            "{} {name} {class} {:.2} {:.4}",
            if right { "ok" } else { "WRONG" },
            v.score,
            v.probability.unwrap_or(-1.0)
        );
        let found = Golden {
            class: v.class,
            score: v.score,
            rules: v.hits.iter().map(|h| (h.rule.to_string(), h.score)).collect(),
            defects: v.defects.iter().map(|d| (d.kind.name(), d.part)).collect(),
        };
        std::fs::write(path.with_extension("json"), serde_json::to_string_pretty(&found)? + "\n")?;
    }
    let file = root.join("docs/filters.md");
    let old = std::fs::read_to_string(&file)?;
    let head = old.find("|---|---:|---|---|\n").unwrap() + "|---|---:|---|---|\n".len();
    let mut text = old[..head].to_owned();
    for rule in snapshot.registry.rules() {
        let kind = match rule.effect {
            RuleEffect::Points => String::new(),
            RuleEffect::Phishing => "phishing".to_owned(),
            RuleEffect::Bulk => "bulk".to_owned(),
            RuleEffect::ForceClass(class) => format!("certain: {class}"),
        };
        text += &format!("| `{}` | {} | {kind} | {} |\n", rule.name, rule.score, rule.description);
    }
    std::fs::write(&file, text)?;
    Ok(())
}
fn main() -> anyhow::Result<std::process::ExitCode> {
    match Cli::parse() {
        Cli::Train(a) => gauntlet_lab::train::run(&a),
        Cli::Evaluate(a) => gauntlet_lab::evaluate::run(&a),
        Cli::Fit(a) => gauntlet_lab::fit::run(&a),
        Cli::Bless { root, model } => {
            bless(&root, &model)?;
            Ok(0.into())
        }
        Cli::Judge { model, files } => {
            let s = with(&model)?;
            for f in files {
                let v = judge(&std::fs::read(&f)?, &s);
                let mut h: Vec<_> = v.hits.iter().map(|h| (h.score, h.rule.to_string())).collect();
                h.sort_by(|a, b| b.0.total_cmp(&a.0));
                println!(
                    "{} {:.2} {:.3} {} {:?}",
                    v.class,
                    v.score,
                    v.probability.unwrap_or(-1.0),
                    f.display(),
                    h
                );
            }
            Ok(0.into())
        }
    }
}
