//! What is in responses: words on pages, types of files, downloads that a scanner looks at; and
//! requests changed so that search engines filter.
//!
//! [`ContentJudge`] stands around another judge. Its inspectors look at each body while it
//! passes; see [`inspector`] for the way of its bytes.

mod chain;
mod decode;
mod evidence;
mod fields;
pub mod group;
mod inspector;
mod judge;
mod kind;
mod mapped;
mod part;
mod rewrite;
mod scan;
mod shadow;
mod shared;
mod stream;
mod text;

pub use crate::settings::content::{ContentSettings, ContentSettingsError};
pub(crate) use fields::media_types;
pub use inspector::ContentInspector;
pub use judge::ContentJudge;
pub use mapped::SafeSearchResolver;
pub use scan::{Download, ScanDownload, ScanVerdict};
pub use shadow::{PageSample, PageScore, PageShadow};
