//! Scripts that Windows, a shell or PowerShell runs: their text, with what is encoded in it
//! decoded, and the words by which they start programs and fetch files.

use super::bytes;
use super::encoded;
use super::smuggle::Smuggled;
use crate::object::PropertyKind;
use crate::unpack::Unpacker;

/// Endings of such files.
const ENDINGS: [&str; 18] = [
    "js", "jse", "vbs", "vbe", "wsf", "wsh", "wsc", "sct", "hta", "ps1", "psm1", "psd1", "bat",
    "cmd", "xsl", "sh", "reg", "vb",
];
/// Words of scripts for Windows that have no ending.
const WORDS: [&str; 10] = [
    "wscript.shell",
    "activexobject(",
    "createobject(",
    "shell.application",
    "#@~^",
    "powershell ",
    "powershell.exe",
    "downloadstring(",
    "invoke-expression",
    "@echo off",
];
/// Words by which a script starts programs, writes files or fetches.
const CALLS: [&str; 26] = [
    "WScript.Shell",
    "Shell.Application",
    "ActiveXObject",
    "ADODB.Stream",
    "MSXML2.XMLHTTP",
    "Microsoft.XMLHTTP",
    "WinHttp.WinHttpRequest",
    "Scripting.FileSystemObject",
    "powershell",
    "DownloadString",
    "DownloadFile",
    "DownloadData",
    "Invoke-WebRequest",
    "Invoke-Expression",
    "FromBase64String",
    "certutil",
    "bitsadmin",
    "mshta",
    "regsvr32",
    "rundll32",
    "schtasks",
    "URLDownloadToFile",
    "cmd.exe",
    "cmd /c",
    "curl ",
    "Start-Process",
];
/// Bytes at the beginning of a text that are looked at for words.
const HEAD_BYTES: usize = 64 * 1024;
/// Commands within commands that are decoded.
const COMMANDS_MAX: usize = 32;
/// Bytes of an encoded command that is worth decoding.
const COMMAND_BYTES_MIN: usize = 16;

/// Whether the name or words of the text say so.
pub(super) fn is_match(extension: &str, text: &str) -> bool {
    if ENDINGS.contains(&extension) {
        return true;
    }
    // Words in prose are no script: documentation has endings of its own.
    let head = crate::text::cut(text, HEAD_BYTES).to_ascii_lowercase();
    !matches!(extension, "txt" | "md" | "csv" | "log" | "eml" | "xml" | "json")
        && WORDS.iter().any(|word| head.contains(word))
}

pub(super) fn read(extension: &str, text: &str, unpacker: &mut Unpacker<'_>) {
    let decoded = encoded::decode(text);
    let text = decoded.as_deref().unwrap_or(text);
    note(extension, text, unpacker);
    unpacker.text(&bytes::without_runs(text));
    if matches!(extension, "wsf" | "wsc" | "sct" | "hta" | "xsl") {
        super::html::read(text, unpacker);
        return;
    }
    let mut smuggled = Smuggled::default();
    if !matches!(extension, "vbs" | "vbe" | "vb" | "bat" | "cmd" | "reg" | "sh") {
        smuggled.script(text, unpacker);
    }
    for run in runs(text) {
        smuggled.candidate(run);
    }
    smuggled.finish(unpacker);
}

/// Notes what kind of script it is, and what it calls.
pub(super) fn note(extension: &str, text: &str, unpacker: &mut Unpacker<'_>) {
    unpacker.property(PropertyKind::Script, extension);
    commands(text, unpacker);
}

/// Words that start programs, and commands of PowerShell that are encoded.
pub(super) fn commands(text: &str, unpacker: &mut Unpacker<'_>) {
    let lower = text.to_ascii_lowercase();
    for call in CALLS {
        if lower.contains(&call.to_ascii_lowercase()) {
            unpacker.property(PropertyKind::SuspiciousCall, call);
        }
    }
    let mut words = text.split_ascii_whitespace().peekable();
    let mut count = 0;
    while let Some(word) = words.next() {
        let Some(next) = words.peek() else { break };
        let next = next.trim_matches(['"', '\'', '`', ')', ';']);
        if !is_encoded_option(word)
            || next.len() < COMMAND_BYTES_MIN
            || !bytes::is_base64(next.as_bytes())
        {
            continue;
        }
        let command = crate::text::utf16_le(&bytes::base64(next.as_bytes()));
        unpacker.text(&command);
        let lower = command.to_ascii_lowercase();
        for call in CALLS.iter().filter(|call| lower.contains(&call.to_ascii_lowercase())) {
            unpacker.property(PropertyKind::SuspiciousCall, call);
        }
        count += 1;
        if count >= COMMANDS_MAX {
            break;
        }
    }
}

/// `-EncodedCommand`, in any of its short forms, with a hyphen, a dash or a slash.
fn is_encoded_option(word: &str) -> bool {
    let option = word.trim_start_matches(['-', '/', '\u{2013}', '\u{2014}', '\u{2015}']);
    let option = option.replace(['^', '`'], "").to_ascii_lowercase();
    option.len() < word.len()
        && (option == "ec" || (!option.is_empty() && "encodedcommand".starts_with(&option)))
}

/// Strings of a script that may be a file: long runs between quotation marks.
fn runs(text: &str) -> impl Iterator<Item = &str> {
    const RUN_BYTES_MIN: usize = 40;
    text.split(['"', '\'', '\n', '\r', ' ', '\t', '(', ')', ','])
        .filter(|run| run.len() >= RUN_BYTES_MIN)
}
