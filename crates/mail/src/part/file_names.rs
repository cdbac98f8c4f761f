//! The names that a part may be saved under, and whether it is an attachment.

use std::borrow::Cow;

use super::Part;
use crate::mime::Disposition;
use crate::names;
use crate::params;

impl Part<'_> {
    /// The name the sender gave: `filename` of the disposition, else `name` of the type.
    pub fn file_name(&self) -> Option<&str> {
        let named = self.disposition.as_ref().and_then(Disposition::file_name);
        named.or_else(|| self.content_type.param("name"))
    }

    /// Every name that some mail program may save the part under: of all fields that give one, in
    /// all readings, the one of [`Part::file_name`] first. A name may come twice.
    pub fn file_names(&self) -> impl Iterator<Item = &str> {
        let dispositions = self.disposition.iter().flat_map(|d| &d.params);
        let is_filename = |(name, _): &&(String, String)| name == "filename";
        let is_name = |(name, _): &&(String, String)| name == "name";
        let filenames = dispositions.clone().filter(is_filename);
        let names = self.content_type.params.iter().filter(is_name);
        // `name` of a disposition, `filename` of a type, and what else is called so.
        let other = |parameter: &&(String, String), usual: &str| {
            parameter.0 != usual && params::is_file_name(&parameter.0)
        };
        let swapped = dispositions.filter(move |p| other(p, "filename"));
        let swapped =
            swapped.chain(self.content_type.params.iter().filter(move |p| other(p, "name")));
        let others = self.content_type.alternative_names.iter().chain(&self.alternative_names);
        let others = others.chain(self.disposition.iter().flat_map(|d| &d.alternative_names));
        let given = filenames.chain(names).chain(swapped).map(|(_, value)| value);
        given.chain(others).map(String::as_str)
    }

    /// Every interpretation of every name ([`crate::names::interpretations`]), also of the files
    /// that are encoded in its text ([`Part::files`]); of a part without a name those of its
    /// Content-Name, Content-Description and Content-Location, which mail programs take instead,
    /// and its Content-ID. A part whose names have no extension has the one of its media type.
    pub fn name_interpretations(&self) -> Vec<Cow<'_, str>> {
        let mut names = self.file_names().peekable();
        let fallback_names = if names.peek().is_none() { &self.fallback_names[..] } else { &[] };
        let mut found: Vec<Cow<'_, str>> = Vec::new();
        let (mut has_extension, mut stem) = (false, "unnamed");
        for name in names.chain(fallback_names.iter().map(String::as_str)) {
            if !has_extension {
                has_extension = names::has_extension(name);
                stem = if name.is_empty() { stem } else { name };
            }
            add_interpretations(name, &mut found);
        }
        if !has_extension
            && let Some(extension) = names::extension_of_type(&self.content_type.essence())
        {
            found.push(Cow::Owned(format!("{}.{extension}", stem.trim_end_matches('.'))));
        }
        for file in self.files() {
            file.names.iter().for_each(|name| add_interpretations(name, &mut found));
        }
        found
    }

    /// Not to be shown in line: it has a name, is marked as attachment, or is no text.
    pub fn is_attachment(&self) -> bool {
        if self.is_container && self.content_type.kind == "multipart" {
            return false;
        }
        let marked = self.disposition.as_ref().is_some_and(|d| d.kind.starts_with("attachment"));
        marked || self.file_names().next().is_some() || self.is_file_by_type()
    }

    /// Whether the type is one that mail programs do not show in line but offer as a file.
    fn is_file_by_type(&self) -> bool {
        match &*self.content_type.kind {
            "text" => names::extension_of_type(&self.content_type.essence()).is_some(),
            "multipart" | "message" => self.parent.is_some(),
            // A message that is nothing but a file.
            _ => true,
        }
    }
}

/// Adds the readings of a name that are not there yet.
fn add_interpretations<'n>(name: &'n str, found: &mut Vec<Cow<'n, str>>) {
    for interpretation in names::interpretations(name) {
        if !found.contains(&interpretation) {
            found.push(interpretation);
        }
    }
}
