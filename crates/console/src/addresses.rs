//! Which addresses of the console are pages: where a browser may be sent by GET.

/// A page of another site, or none.
const START: &str = "/";

/// The paths of all routes, and whether each answers GET.
#[derive(Debug, Default)]
pub(crate) struct Addresses(Vec<(&'static str, bool)>);

impl Addresses {
    /// Those of routes: the path of each, and whether it answers GET.
    pub(crate) fn of(routes: impl Iterator<Item = (&'static str, bool)>) -> Self {
        let mut paths: Vec<(&'static str, bool)> = Vec::new();
        for (route, reads) in routes {
            match paths.iter_mut().find(|(path, _)| *path == route) {
                Some((_, known)) => *known |= reads,
                None => paths.push((route, reads)),
            }
        }
        Addresses(paths)
    }

    /// This address if it is ours and answers GET. Else, as for one that a form is sent to, the
    /// page above it: the one that has the form.
    pub(crate) fn page<'a>(&self, address: &'a str) -> &'a str {
        let is_ours = address.starts_with('/')
            && !address.starts_with("//")
            && address.bytes().all(|b| b.is_ascii_graphic() && b != b'\\');
        if !is_ours {
            return START;
        }
        let mut path = address.split(['?', '#']).next().unwrap_or_default();
        if self.answers_get(path) {
            return address;
        }
        while let Some((above, _)) = path.rsplit_once('/') {
            if self.answers_get(above) {
                return above;
            }
            path = above;
        }
        START
    }

    /// As the router finds it: a path in so many words comes before one with names in it.
    fn answers_get(&self, path: &str) -> bool {
        let fitting = self.0.iter().filter(|(pattern, _)| fits(pattern, path));
        let found = fitting.min_by_key(|(pattern, _)| pattern.matches('{').count());
        found.is_some_and(|(_, reads)| *reads)
    }
}

fn fits(pattern: &str, path: &str) -> bool {
    let (mut wanted, mut given) = (pattern.split('/'), path.split('/'));
    loop {
        match (wanted.next(), given.next()) {
            (None, None) => return true,
            (Some(name), Some(text)) if name.starts_with('{') && !text.is_empty() => {}
            (Some(word), Some(text)) if word == text => {}
            _ => return false,
        }
    }
}
