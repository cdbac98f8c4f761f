//! Actions that change files of a message: `strip`, `disarm` and `convert_names`.

use gauntlet_mail::NameKind;
use gauntlet_verdict::{ADMIN_ONLY_FOLDERS, Original, ReleasedBy, Removal};
use serde::Deserialize;

use crate::condition::{AttachmentCondition, Condition};
use crate::objects::ObjectCondition;
use crate::pattern::OneOrMany;
use crate::rule::ChangeTemplate;

/// Longest text of a note, in bytes.
const NOTE_BYTES_MAX: usize = 4_000;
/// Longest extension that is appended to a name, in bytes.
const APPEND_BYTES_MAX: usize = 16;
/// Folder of the original of what is stripped.
const STRIPPED_FOLDER: &str = "stripped";
/// Folder of the original of what is disarmed.
const DISARMED_FOLDER: &str = "disarmed";

/// `strip` and `disarm` as written.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RemovalShape {
    which: Option<ObjectCondition>,
    #[serde(default)]
    note: String,
    folder: Option<String>,
    release: Option<ReleasedBy>,
}

impl RemovalShape {
    /// Without `which` it is about the objects that the rule's condition names.
    pub(crate) fn template(
        self,
        disarms: bool,
        rule: String,
        when: Option<&Condition>,
    ) -> ChangeTemplate {
        let named = || when.map(Condition::objects).unwrap_or_default();
        let which = match self.which {
            Some(which) => vec![which],
            None => named().into_iter().cloned().collect(),
        };
        let folder = if disarms { DISARMED_FOLDER } else { STRIPPED_FOLDER };
        let removal = Removal {
            parts: Vec::new(),
            note: self.note,
            rule,
            folder: self.folder.unwrap_or_else(|| folder.to_owned()),
            release: self.release.unwrap_or(ReleasedBy::Admin),
            original: Original::default(),
        };
        ChangeTemplate::Remove { disarms, which, removal }
    }
}

/// `convert_names` as the policy's text has it.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct NamesShape {
    which: Option<AttachmentCondition>,
    #[serde(default = "text_extension")]
    append: String,
}

fn text_extension() -> String {
    ".txt".to_owned()
}

impl NamesShape {
    /// Without `which` it is about names that start a program when they are opened.
    pub(crate) fn template(self, rule: String) -> ChangeTemplate {
        let dangerous = [NameKind::Program, NameKind::Shortcut, NameKind::ActiveDocument];
        let default = || AttachmentCondition {
            opens_as: Some(OneOrMany::Many(dangerous.to_vec())),
            ..AttachmentCondition::default()
        };
        let which = self.which.unwrap_or_else(default);
        ChangeTemplate::ConvertNames { which, append: self.append, rule }
    }
}

/// What is wrong with one of these actions.
pub(crate) fn problem(change: &ChangeTemplate) -> Option<String> {
    match change {
        ChangeTemplate::Remove { which, removal, .. } => {
            removal_problem(removal).or_else(|| which.iter().find_map(ObjectCondition::problem))
        }
        ChangeTemplate::ConvertNames { append, .. } => {
            let rest = append.strip_prefix('.').unwrap_or_default();
            let fits = !rest.is_empty() && rest.bytes().all(|b| b.is_ascii_alphanumeric());
            (!fits || append.len() > APPEND_BYTES_MAX)
                .then(|| format!("convert_names: {append:?} is no extension; write e.g. \".txt\""))
        }
        ChangeTemplate::Fixed(_) | ChangeTemplate::StripAttachments { .. } => None,
    }
}

fn removal_problem(removal: &Removal) -> Option<String> {
    let folder = &removal.folder;
    if !is_folder_name(folder) {
        return Some(format!(
            "{folder:?} is no folder name: use letters, digits, '-' and '_', at most 64"
        ));
    }
    if removal.release == ReleasedBy::User && ADMIN_ONLY_FOLDERS.contains(&folder.as_str()) {
        return Some(format!(
            "mail in folder {folder:?} is released by administrators only; remove `release`"
        ));
    }
    if removal.note.chars().any(|c| c.is_control() && c != '\n') {
        return Some("the note has control characters other than line ends".to_owned());
    }
    (removal.note.len() > NOTE_BYTES_MAX)
        .then(|| format!("the note is over {NOTE_BYTES_MAX} bytes"))
}

/// Whether this names a folder of the quarantine.
pub fn is_folder_name(name: &str) -> bool {
    (1..=64).contains(&name.len())
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_'))
}

#[cfg(test)]
mod tests {
    use crate::file::Policy;
    use crate::groups::Groups;
    use crate::rule::ChangeTemplate;

    fn policy(action: &str) -> Result<Policy, String> {
        let text = format!(
            "[[rule]]\nname = \"r\"\nwhen.object.property = \"vba_macros\"\ndo = {{ {action} }}\n"
        );
        Policy::parse(&text, &Groups::default()).map_err(|error| error.to_string())
    }

    #[test]
    fn an_action_without_which_is_about_the_objects_of_the_condition() {
        let read = policy("strip = {}").unwrap();
        let ChangeTemplate::Remove { disarms: false, which, removal } = &read.rules[0].changes[0]
        else {
            panic!("{:?}", read.rules[0])
        };
        assert_eq!((which.len(), removal.folder.as_str()), (1, "stripped"));
        assert!(which[0].property.is_some());
        assert!(policy("disarm = { which = { name = \"*.pdf\" }, release = \"user\" }").is_ok());
        assert!(policy("convert_names = {}").is_ok());
    }

    #[test]
    fn mistakes_are_named() {
        for (action, why) in [
            ("strip = { folder = \"a b\" }", "no folder name"),
            ("strip = { folder = \"malware\", release = \"user\" }", "administrators only"),
            ("strip = { note = \"a\\r\" }", "control characters"),
            ("strip = { which = {} }", "asks for nothing"),
            ("disarm = { wich = {} }", "wich"),
            ("convert_names = { append = \"txt\" }", "no extension"),
            ("convert_names = { append = \".t x\" }", "no extension"),
        ] {
            let error = policy(action).unwrap_err();
            assert!(error.contains(why), "{action}: {error}");
        }
    }
}
