//! Formats of the files of this crate, for whoever looks at a data folder before it is opened.
//!
//! The files without a number of their own ([`crate::good_mail`], [`crate::probes`], marks of what
//! is shared) go by the mark of the data folder (`gauntlet_store::formats::folder`).

use gauntlet_engine::classifier::model;
use gauntlet_engine::signatures::table;
use gauntlet_store::formats::{Earlier, Format, Mark};

use crate::{corrections, signatures};

const fn signatures_in(folder: &'static str, name: &'static str, journal: bool) -> Format {
    let (file, magic) = match journal {
        true => (&[signatures::JOURNAL_NAME], *signatures::JOURNAL_MAGIC),
        false => (&[signatures::TABLE_NAME], *table::MAGIC),
    };
    Format {
        name,
        folder,
        files: file,
        mark: Mark::Number(magic),
        oldest: table::FORMAT_VERSION,
        known: table::FORMAT_VERSION,
        earlier: Earlier::Refused,
    }
}

/// Formats of this crate.
pub const FORMATS: &[Format] = &[
    Format {
        name: "corrections",
        folder: corrections::FOLDER_NAME,
        files: &[corrections::FILE_NAME],
        mark: Mark::Number(*corrections::MAGIC),
        // Features of another format mean other words: they cannot be brought forward.
        oldest: model::FORMAT_VERSION,
        known: model::FORMAT_VERSION,
        earlier: Earlier::Refused,
    },
    signatures_in("signatures", "signatures", false),
    signatures_in("signatures", "journal of signatures", true),
    signatures_in("array/signatures", "signatures of the array", false),
    signatures_in("array/signatures", "journal of the array's signatures", true),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_of_formats_names_the_folders_that_are_used() {
        let data = tempfile::tempdir().unwrap();
        let folders: Vec<&str> = FORMATS.iter().map(|format| format.folder).collect();
        assert!(folders.contains(&signatures::FOLDER_NAME));
        let elsewhere = signatures::sharing::elsewhere_folder(data.path());
        assert!(folders.iter().any(|folder| data.path().join(folder) == elsewhere));
        let path = corrections::journal_path(data.path());
        assert!(FORMATS.iter().any(|f| data.path().join(f.folder).join(f.files[0]) == path));
    }
}
