//! Procedures that run without being called, and words of code that starts programs, writes files
//! or fetches them: names of the object models of Office, of Windows and of its ActiveX controls.

use std::collections::BTreeSet;

use memchr::memmem;

/// Procedures of one module that are named.
const NAMES_MAX: usize = 32;

/// Procedures by their whole name: automatic macros of Word, Excel, PowerPoint and Outlook, and
/// events of documents and of the program.
const AUTOMATIC: [&str; 60] = [
    // Word: automatic macros, events of a document and of the application.
    "AutoExec",
    "AutoOpen",
    "AutoNew",
    "AutoClose",
    "AutoExit",
    "Document_Open",
    "Document_New",
    "Document_Close",
    "Document_BeforeClose",
    "Document_Activate",
    "Document_ContentControlOnEnter",
    "Document_ContentControlOnExit",
    "Document_Opened",
    "DocumentOpen",
    "DocumentChange",
    "DocumentBeforeClose",
    "DocumentBeforeSave",
    "NewDocument",
    // Excel: automatic macros, events of a workbook and of its sheets.
    "Auto_Open",
    "Auto_Close",
    "Auto_Activate",
    "Auto_Deactivate",
    "Workbook_Open",
    "Workbook_Activate",
    "Workbook_Deactivate",
    "Workbook_Close",
    "Workbook_BeforeClose",
    "Workbook_BeforeSave",
    "Workbook_BeforePrint",
    "Workbook_AddinInstall",
    "Workbook_SheetActivate",
    "Workbook_SheetCalculate",
    "Workbook_SheetChange",
    "Workbook_WindowActivate",
    "Worksheet_Activate",
    "Worksheet_Calculate",
    "Worksheet_Change",
    "Worksheet_SelectionChange",
    "WorkbookOpen",
    // PowerPoint: events of the application, and procedures that a slide show calls.
    "Presentation_Open",
    "Presentation_Close",
    "PresentationOpen",
    "AfterPresentationOpen",
    "NewPresentation",
    "SlideShowBegin",
    "OnSlideShowPageChange",
    "OnSlideShowTerminate",
    "Slide_Change",
    // Outlook.
    "Application_Startup",
    "Application_MAPILogonComplete",
    "Application_NewMail",
    "Application_NewMailEx",
    "Application_ItemSend",
    "Application_Reminder",
    "Application_Quit",
    // Project, Visio, Access, the ribbon and add-ins.
    "Project_Open",
    "Document_DocumentOpened",
    "Form_Load",
    "Ribbon_OnLoad",
    "AddinInstance_OnConnection",
];

/// Events of controls, behind the control's name: a document that shows the control raises them.
const EVENTS: [&str; 40] = [
    // Forms (MSForms).
    "Initialize",
    "Activate",
    "Layout",
    "Resize",
    "Enter",
    "Exit",
    "Change",
    "Click",
    "GotFocus",
    "LostFocus",
    "MouseMove",
    "AddControl",
    "Scroll",
    "Zoom",
    "BeforeUpdate",
    "AfterUpdate",
    // Ink, and other controls of Windows.
    "Painted",
    "Painting",
    "MouseHover",
    "MouseEnter",
    "MouseLeave",
    "OnConnecting",
    "OnConnected",
    "ReadyStateChange",
    "PropertyChange",
    "ContentControlOnEnter",
    "FollowHyperlink",
    // The web browser control (DWebBrowserEvents2).
    "BeforeNavigate2",
    "BeforeScriptExecute",
    "NavigateComplete2",
    "NavigateError",
    "DocumentComplete",
    "DownloadBegin",
    "DownloadComplete",
    "FileDownload",
    "ProgressChange",
    "SetSecureLockIcon",
    "StatusTextChange",
    "TitleChange",
    "NewWindow2",
];

/// Words of code that starts programs, writes files, fetches them, or changes other code.
const SUSPICIOUS: [&str; 88] = [
    // Starts programs.
    "Shell",
    "WScript.Shell",
    "Shell.Application",
    "ShellExecute",
    "ShellExecuteA",
    "ShellBrowserWindow",
    "InvokeVerb",
    "Run",
    "CreateProcess",
    "CreateProcessA",
    "WinExec",
    "MacScript",
    "AppleScriptTask",
    "popen",
    "Win32_Process",
    "Win32_ProcessStartup",
    "winmgmts",
    "ExecQuery",
    "Schedule.Service",
    "ExecuteExcel4Macro",
    "SendKeys",
    "PowerShell",
    "cmd.exe",
    "mshta",
    "regsvr32",
    "rundll32",
    "certutil",
    "bitsadmin",
    "wscript",
    "cscript",
    "msbuild",
    "installutil",
    "wmic",
    "schtasks",
    "vbHide",
    // Makes objects.
    "CreateObject",
    "GetObject",
    "CallByName",
    "New-Object",
    // Fetches.
    "URLDownloadToFile",
    "URLDownloadToFileA",
    "InternetOpenUrl",
    "InternetOpenUrlA",
    "XMLHTTP",
    "ServerXMLHTTP",
    "MSXML2",
    "WinHttp",
    "WinHttpRequest",
    "InternetExplorer.Application",
    "WebClient",
    "DownloadFile",
    "DownloadString",
    "DownloadData",
    "Invoke-WebRequest",
    // Writes, moves and removes files; the registry.
    "ADODB.Stream",
    "SaveToFile",
    "CreateTextFile",
    "OpenTextFile",
    "WriteText",
    "FileCopy",
    "CopyFile",
    "CopyHere",
    "MoveFile",
    "MoveHere",
    "Kill",
    "RegWrite",
    "RegRead",
    "RegOpenKeyEx",
    // Runs machine code.
    "VirtualAlloc",
    "VirtualAllocEx",
    "VirtualProtect",
    "NtAllocateVirtualMemory",
    "RtlMoveMemory",
    "WriteProcessMemory",
    "CreateThread",
    "CreateRemoteThread",
    "QueueUserAPC",
    "SetTimer",
    "EnumSystemLocalesA",
    // Changes code or the settings of macros.
    "VBProject",
    "VBComponents",
    "AddFromString",
    "AccessVBOM",
    "VBAWarnings",
    // Hides.
    "StrReverse",
    "FromBase64String",
    "Environ",
    "ExpandEnvironmentStrings",
];

/// Names of procedures that run without being called, as the source writes them.
pub(super) fn automatic(code: &str) -> BTreeSet<String> {
    let lower = code.to_ascii_lowercase();
    let known = |name: &&&str| has_word(&lower, &name.to_ascii_lowercase());
    let mut names: BTreeSet<String> =
        AUTOMATIC.iter().filter(known).map(|name| (*name).to_owned()).collect();
    for line in code.lines() {
        if names.len() >= NAMES_MAX {
            break;
        }
        names.extend(procedure(line).filter(|name| is_event(name)).map(str::to_owned));
    }
    names
}

/// The name of the procedure that a line begins.
fn procedure(line: &str) -> Option<&str> {
    let mut words = line.split_whitespace();
    let is_kind =
        |word: &str| word.eq_ignore_ascii_case("sub") || word.eq_ignore_ascii_case("function");
    words.by_ref().take(3).find(|word| is_kind(word))?;
    words.next()?.split('(').next()
}

fn is_event(name: &str) -> bool {
    let Some((_, event)) = name.rsplit_once('_') else { return false };
    EVENTS.iter().any(|known| known.eq_ignore_ascii_case(event))
        && !AUTOMATIC.iter().any(|known| known.eq_ignore_ascii_case(name))
}

/// The suspicious words of a text.
pub(super) fn suspicious(code: &str) -> impl Iterator<Item = &'static str> {
    let lower = code.to_ascii_lowercase();
    SUSPICIOUS.into_iter().filter(move |word| has_word(&lower, &word.to_ascii_lowercase()))
}

/// Whether a text has a word, not as a part of another.
fn has_word(text: &str, word: &str) -> bool {
    let part = |b: Option<&u8>| b.is_some_and(|b| b.is_ascii_alphanumeric() || *b == b'_');
    memmem::find_iter(text.as_bytes(), word).any(|at| {
        let bytes = text.as_bytes();
        let before = at.checked_sub(1).and_then(|i| bytes.get(i));
        !part(before) && !part(bytes.get(at + word.len()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn procedures_and_events() {
        let code = "Sub AutoOpen()\nPrivate Sub Frame1_Layout()\nSub InkPicture1_Painted(a, b)\n\
            Private Sub Document_Close()\nSub Helper_Layouts()\nx = AutoOpening";
        let names: Vec<String> = automatic(code).into_iter().collect();
        assert_eq!(names, ["AutoOpen", "Document_Close", "Frame1_Layout", "InkPicture1_Painted"]);
        assert!(has_word("sub autoopen()", "autoopen") && !has_word("subautoopen", "autoopen"));
        let words: Vec<&str> = suspicious("set x = createobject(\"wscript.shell\")").collect();
        assert!(words.contains(&"CreateObject") && words.contains(&"WScript.Shell"));
    }
}
