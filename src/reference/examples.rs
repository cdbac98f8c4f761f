//! Every call of our program in the pages is one that it understands.

use clap::error::ErrorKind;

use super::blocks::{blocks, calls, pages};

/// Pages with commands: all but decisions and records, which tell of their day.
fn all_pages() -> Vec<std::path::PathBuf> {
    let mut found = pages("docs");
    found.retain(|page| !page.starts_with("docs/decisions"));
    found.extend(["README.md", "CONTRIBUTING.md", "SECURITY.md"].map(std::path::PathBuf::from));
    found
}

/// What clap says against a call; help and version are no fault.
fn fault(call: &[String]) -> Option<clap::Error> {
    let error = crate::examples::command().try_get_matches_from(call).err()?;
    let is_answer = matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion);
    (!is_answer).then_some(error)
}

fn first_line(error: &clap::Error) -> String {
    error.to_string().lines().next().unwrap_or_default().to_owned()
}

#[test]
fn every_command_of_the_pages_is_understood() {
    let (mut faults, mut count) = (Vec::new(), 0);
    for page in all_pages() {
        for block in blocks(&page).into_iter().filter(super::blocks::Block::has_commands) {
            for step in block.steps() {
                for call in calls(&step.command) {
                    count += 1;
                    if let Some(error) = fault(&call) {
                        let line = first_line(&error);
                        faults.push(format!("{}: {}: {line}", block.place(), call.join(" ")));
                    }
                }
            }
        }
    }
    assert!(count > 150, "the walk finds the commands: {count}");
    assert!(faults.is_empty(), "correct these commands:\n{}", faults.join("\n"));
}

/// In running text a command may stand without its arguments, but not with ones that do not exist.
#[test]
fn commands_in_running_text_exist() {
    let (mut faults, mut count) = (Vec::new(), 0);
    for page in all_pages() {
        let text = std::fs::read_to_string(super::root().join(&page)).expect("a page");
        let prose: Vec<&str> = text.split("\n```").step_by(2).collect();
        for span in prose.iter().flat_map(|prose| prose.split('`').skip(1).step_by(2)) {
            let span = span.split_whitespace().collect::<Vec<_>>().join(" ");
            if !span.starts_with("gauntlet ") {
                continue;
            }
            for call in calls(&span) {
                let is_plain = |word: &&String| !word.contains(['[', '.', '…', '|']);
                let call: Vec<String> = call.iter().take_while(is_plain).cloned().collect();
                count += 1;
                let wrong = fault(&call).filter(|error| {
                    matches!(
                        error.kind(),
                        ErrorKind::UnknownArgument | ErrorKind::InvalidSubcommand
                    )
                });
                if let Some(error) = wrong {
                    faults.push(format!("{}: `{span}`: {}", page.display(), first_line(&error)));
                }
            }
        }
    }
    assert!(count > 150, "the walk finds the commands: {count}");
    assert!(faults.is_empty(), "correct these commands:\n{}", faults.join("\n"));
}
