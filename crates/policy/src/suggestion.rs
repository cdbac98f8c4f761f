//! "Did you mean": the known name that is nearest to a misspelt one.

/// Adds "did you mean" to serde's "unknown field `x`, expected one of `a`, `b`".
pub fn with_nearest(message: &str) -> String {
    let mut names = message.split('`').skip(1).step_by(2);
    let given = names.next().filter(|_| message.starts_with("unknown"));
    let nearest = given.and_then(|given| nearest(given, names.map(str::to_owned)));
    let short = message.lines().next().unwrap_or(message);
    let Some(name) = nearest else { return short.to_owned() };
    // With a name to offer, the list of all others is noise.
    let head = short.split(", expected").next().unwrap_or(short);
    format!("{head}; did you mean `{name}`?")
}

/// The one of `names` that is most like `given`, if one is like it at all.
pub fn nearest(given: &str, names: impl Iterator<Item = String>) -> Option<String> {
    /// Letters that may differ; more, and it is another word.
    const DISTANCE_MAX: usize = 3;
    let distances = names.map(|name| (strsim::osa_distance(given, &name), name));
    distances.min().filter(|(distance, _)| *distance <= DISTANCE_MAX).map(|(_, name)| name)
}
