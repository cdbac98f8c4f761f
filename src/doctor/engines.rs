//! Checks of malware engines: do they answer, and what do they know?

use std::path::Path;
use std::time::Duration;

use gauntlet_content::OnFailure;
use gauntlet_content::engines::EngineError;
use gauntlet_gateway::config::{Config, EngineKind, EngineSettings};
use gauntlet_gateway::scan::engines::EngineHost;

use super::{Findings, Status};

/// Time for an engine to say its version.
const ANSWER_TIME_MAX: Duration = Duration::from_secs(5);

/// Asks each engine of the settings. A node has loaded rules and lists itself: they are not loaded
/// again to be counted.
pub(super) fn engines(config: &Config, in_node: bool, found: &mut Findings) {
    for engine in &config.engine {
        let loads = matches!(engine.kind, EngineKind::Yara | EngineKind::HashList);
        if in_node && loads {
            continue;
        }
        let said = match engine.kind {
            EngineKind::Command => program(engine),
            _ => version(config, engine, found),
        };
        match said {
            Ok(version) => {
                found.add(Status::Ok, "engine", format!("{}: {version}", engine.name));
            }
            Err(error) => {
                let status = match engine.on_failure {
                    OnFailure::Accept => Status::Warning,
                    OnFailure::Tempfail | OnFailure::Unscannable => Status::Error,
                };
                let text = format!("{}: {error}; {}", engine.name, consequence(engine));
                found.add(status, "engine", text);
            }
        }
    }
}

fn consequence(engine: &EngineSettings) -> String {
    let mail = match engine.on_failure {
        OnFailure::Tempfail => "mail with files is deferred until it answers",
        OnFailure::Unscannable => "mail with files is unscannable",
        OnFailure::Accept => "mail with files passes without its answer",
    };
    let hint = match engine.kind {
        EngineKind::Clamd => {
            "; is clamd running (Debian: clamav-daemon), and may this user open its socket?"
        }
        EngineKind::Icap => "; is the ICAP server running, and is the name of the service right?",
        EngineKind::Command => "; is the program installed?",
        EngineKind::Yara | EngineKind::HashList => "",
    };
    format!("{mail} (on_failure){hint}")
}

/// What the engine answers with; faults of its rules or list are found, too.
fn version(
    config: &Config,
    engine: &EngineSettings,
    found: &mut Findings,
) -> Result<String, String> {
    let one = std::slice::from_ref(engine);
    let set = EngineHost::default().engines_and_faults(one, &config.content);
    let (set, faults) = set.map_err(|error| format!("{error:#}"))?;
    for fault in faults {
        found.add(Status::Warning, "engine", fault);
    }
    let versions = set.states(ANSWER_TIME_MAX).into_iter().map(|state| state.version);
    let versions: Result<Vec<String>, EngineError> = versions.collect();
    versions.map(|all| all.join("; ")).map_err(|error| error.to_string())
}

/// Programs are not started here: some answer only to files.
fn program(engine: &EngineSettings) -> Result<String, String> {
    let program = engine.command.first().map(String::as_str).unwrap_or_default();
    let folders = ["/usr/local/bin", "/usr/bin", "/bin", "/usr/sbin", "/sbin"];
    let path = match program.contains('/') {
        true => Some(Path::new(program).to_owned()),
        false => folders.iter().map(|f| Path::new(f).join(program)).find(|path| path.is_file()),
    };
    match path.filter(|path| path.is_file()) {
        Some(path) => Ok(format!("starts {}", path.display())),
        None => Err(format!("there is no program {program:?}")),
    }
}
