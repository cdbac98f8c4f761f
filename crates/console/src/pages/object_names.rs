//! What pages call that which was found in a file, and why something of it was not read.

use gauntlet_mail::file_kind::object::{DefectKind as D, PropertyKind as P};

use crate::text::translatable;

/// A property, in a few words.
pub(super) fn property(kind: P) -> &'static str {
    match kind {
        P::Encrypted => translatable("encrypted"),
        P::PasswordFound => translatable("password found in"),
        P::DataBefore => translatable("data before it"),
        P::DataBehind => translatable("data behind it"),
        P::Ambiguous => translatable("lists other files than it holds"),
        P::Overlapping => translatable("entries overlap"),
        P::Link => translatable("link"),
        P::PathTraversal => translatable("name leads out of its folder"),
        P::Volume => translatable("one volume of several"),
        P::VbaMacros => translatable("VBA macros"),
        P::AutoExec => translatable("runs by itself"),
        P::SuspiciousCall => translatable("suspicious call"),
        P::XlmMacros => translatable("Excel 4.0 macros"),
        P::Dde => translatable("DDE"),
        P::ExternalTemplate => translatable("external template"),
        P::ExternalReference => translatable("external reference"),
        P::EmbeddedObject => translatable("embedded object"),
        P::ActiveX => translatable("ActiveX control"),
        P::EquationEditor => translatable("equation editor"),
        P::JavaScript => translatable("JavaScript"),
        P::LaunchAction => translatable("launch action"),
        P::OpenAction => translatable("action when it is opened"),
        P::EmbeddedFile => translatable("embedded file"),
        P::XfaForm => translatable("XFA form"),
        P::PasswordForm => translatable("password form"),
        P::Form => translatable("form"),
        P::Script => translatable("script"),
        P::Smuggling => translatable("writes a file by script"),
        P::Redirect => translatable("redirect"),
        P::CommandLine => translatable("command line"),
        P::PackedProgram => translatable("packed program"),
        P::InstallerAction => translatable("installer action"),
        P::QrCode => translatable("QR code"),
        P::Dimensions => translatable("dimensions"),
        P::Pages => translatable("pages"),
        P::Executable => translatable("executable"),
        P::OtherReading => translatable("only in another reading"),
        P::EngineFinding => translatable("malware"),
        P::EngineSuspicion => translatable("suspicious"),
        P::TextCut => translatable("text cut"),
        P::NameCut => translatable("name cut"),
        _ => translatable("other"),
    }
}

/// Why something was not read, in a few words.
pub(super) fn defect(kind: D) -> &'static str {
    match kind {
        D::TooDeep => translatable("too deep"),
        D::TooManyObjects => translatable("too many objects"),
        D::TooManyBytes => translatable("too many bytes"),
        D::ObjectTooLarge => translatable("object too large"),
        D::TooMuchMemory => translatable("too much memory"),
        D::Bomb => translatable("decompression bomb"),
        D::OutOfTime => translatable("out of time"),
        D::Encrypted => translatable("encrypted"),
        D::Truncated => translatable("truncated"),
        D::Corrupt => translatable("corrupt"),
        D::Unsupported => translatable("unsupported"),
        D::ToolMissing => translatable("a program is not installed"),
        D::MissingVolume => translatable("other volumes are missing"),
        D::DecoderFailed => translatable("the decoder failed"),
        _ => translatable("other"),
    }
}
