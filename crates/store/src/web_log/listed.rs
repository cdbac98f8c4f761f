//! Lists that a URL was on, as a column has them: a line each, with its category after a tab.

use gauntlet_web::WebListed;

/// The column's text. Control characters of names become spaces.
pub(super) fn write_listed(listed: &[WebListed]) -> String {
    let line = |listed: &WebListed| {
        let plain = |text: &str| text.replace(char::is_control, " ");
        let (list, category) = (plain(&listed.list), plain(&listed.category));
        format!("{list}\t{category}\n")
    };
    listed.iter().map(line).collect()
}

/// The entries of a column's text.
pub(super) fn read_listed(text: &str) -> Vec<WebListed> {
    let entry = |line: &str| {
        let (list, category) = line.split_once('\t')?;
        Some(WebListed { list: list.to_owned(), category: category.to_owned() })
    };
    text.lines().filter_map(entry).collect()
}
