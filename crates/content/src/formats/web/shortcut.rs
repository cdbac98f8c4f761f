//! Small text files that lead elsewhere when they are opened: Internet shortcuts, desktop entries,
//! libraries and searches of Windows, remote desktops.

use super::bytes;
use crate::object::{PropertyKind, UrlSource};
use crate::unpack::Unpacker;

/// Endings of such files.
const ENDINGS: [&str; 14] = [
    "url",
    "website",
    "webloc",
    "desktop",
    "library-ms",
    "searchconnector-ms",
    "search-ms",
    "scf",
    "inf",
    "settingcontent-ms",
    "rdp",
    "jnlp",
    "application",
    "appref-ms",
];
/// First words of such files.
const FIRST: [&str; 5] =
    ["[internetshortcut", "[desktop entry]", "[{000214a0", "[shell]", "<librarydescription"];
/// Keys whose value is an address or a file that is fetched.
const ADDRESSES: [&str; 12] = [
    "url",
    "baseurl",
    "origurl",
    "iconfile",
    "icon",
    "iconurl",
    "url[$e]",
    "full address",
    "gatewayhostname",
    "workingdirectory",
    "remoteapplicationprogram",
    "logo",
];
/// Keys whose value is a program that is started.
const COMMANDS: [&str; 8] = [
    "exec",
    "tryexec",
    "command",
    "open",
    "shellexecute",
    "run",
    "alternate shell",
    "remoteapplicationcmdline",
];
/// Elements of XML whose text is an address or a command.
const ELEMENTS: [&str; 6] =
    ["<url>", "<string>", "<deeplink>", "<applicationinformation>", "<query>", "<codebase>"];

/// Whether the name or the first words say so.
pub(super) fn is_match(extension: &str, text: &str) -> bool {
    if ENDINGS.contains(&extension) {
        return true;
    }
    let head = crate::text::cut(text, 1_024).trim_start_matches('\u{feff}').to_ascii_lowercase();
    let head = head.trim_start();
    FIRST.iter().any(|first| head.starts_with(first)) || head.contains("<librarydescription")
}

/// Notes where it leads.
pub(super) fn read(extension: &str, text: &str, unpacker: &mut Unpacker<'_>) {
    unpacker.text(text);
    for line in text.lines().take(10_000) {
        if let Some((key, value)) = line.split_once('=') {
            value_of(key.trim(), value.trim(), unpacker);
        } else if extension == "rdp"
            && let Some((key, value)) = line.split_once(":s:")
        {
            value_of(key.trim(), value.trim(), unpacker);
            if key.trim().eq_ignore_ascii_case("full address") {
                unpacker.url(value, UrlSource::Shortcut);
            }
        }
    }
    let lower = text.to_ascii_lowercase();
    // The folders that a saved search looks into.
    for (at, _) in lower.match_indices("<include ").take(1_000) {
        let tag = text.get(at..).and_then(|rest| rest.split('>').next()).unwrap_or_default();
        let path = tag.split_once("path=").and_then(|(_, value)| value.split(['"', '\'']).nth(1));
        let path = super::tags::decoded(path.unwrap_or_default());
        if path.contains("://") || path.starts_with("\\\\") {
            unpacker.url(&path, UrlSource::Shortcut);
        }
    }
    for element in ELEMENTS {
        for (at, _) in lower.match_indices(element).take(1_000) {
            let start = at + element.len();
            // Lower case of ASCII alone leaves the places as they are.
            let inner = text.get(start..).and_then(|rest| rest.split('<').next());
            let inner = super::tags::decoded(inner.unwrap_or_default());
            let inner = inner.trim();
            if element == "<deeplink>" {
                unpacker.property(PropertyKind::CommandLine, inner);
            } else if inner.contains("://") || inner.starts_with("\\\\") {
                unpacker.url(inner, UrlSource::Shortcut);
            }
        }
    }
}

fn value_of(key: &str, value: &str, unpacker: &mut Unpacker<'_>) {
    let key = key.to_ascii_lowercase();
    let is_remote = value.contains(':') || value.starts_with("\\\\") || value.starts_with("//");
    if COMMANDS.contains(&key.as_str()) && !value.is_empty() {
        unpacker.property(PropertyKind::CommandLine, value);
        super::program::commands(value, unpacker);
    } else if ADDRESSES.contains(&key.as_str()) && is_remote {
        let source = if key.contains("icon") || key == "logo" {
            UrlSource::External
        } else {
            UrlSource::Shortcut
        };
        unpacker.url(value, source);
        if value.get(..5).is_some_and(|s| s.eq_ignore_ascii_case("file:")) && key == "url" {
            let path = bytes::percent(value.as_bytes());
            unpacker.property(PropertyKind::CommandLine, &String::from_utf8_lossy(&path));
        }
    }
}
