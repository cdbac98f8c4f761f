//! Perl patterns, matched as Perl matches them under `/aa` on bytes.
//!
//! A pattern is parsed into a tree ([`syntax`]) in which all flags are applied. From there it goes
//! to PCRE2, compiled to machine code: a pattern is tried only on texts that the prefilter chose,
//! and there backtracking is quicker than automata whose states must be built first. If the first
//! bytes show that hardly any position begins a match ([`starts`]), only the others are tried. A
//! match that exceeds its budget, or a pattern too large for PCRE2, goes to the `regex` engines,
//! which take linear time, if they match exactly. Engines are compiled when first needed and shared
//! between threads.

pub(crate) mod automaton;
mod backtrack;
pub(crate) mod boundary;
mod characters;
pub(crate) mod danger;
pub(crate) mod dfa_check;
mod frequencies;
pub mod frequency;
mod gap;
pub(crate) mod literal;
pub(crate) mod parse;
mod prefixes;
mod property;
pub(crate) mod scratch;
pub mod self_check;
pub(crate) mod sequence;
mod starts;
pub mod symbol;
pub(crate) mod syntax;

use std::ops::Range;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use regex_automata::{Anchored, Input, meta};

use characters::Characters;
use gap::Gap;
use parse::ParseError;
use scratch::Scratch;
use starts::Starts;
use syntax::Node;

/// Most steps of a backtracking match.
pub const MATCH_STEPS_MAX: u32 = 5_000_000;
/// Stack of the JIT code for the few matches that need more than 32 KB, in bytes.
const JIT_STACK_BYTES_MAX: usize = 64 * 1024 * 1024;
/// PCRE2's error code for a full JIT stack (`PCRE2_ERROR_JIT_STACKLIMIT`).
const JIT_STACK_FULL: i32 = -46;

/// The id of the next pattern.
static NEXT_ID: AtomicU64 = AtomicU64::new(1);

/// A compiled pattern; engines are compiled when first needed. `repr(C)` keeps what every search
/// reads at the beginning, in few cache lines.
#[derive(Debug)]
#[repr(C)]
pub struct Pattern {
    /// Unique among all patterns of the process.
    id: u64,
    /// Fewest bytes that a match has.
    min_len: usize,
    /// How it is matched if it needs no engine.
    plain: Option<Box<Plain>>,
    /// Where matches may begin; `None` if searching for that is not worthwhile.
    starts: OnceLock<Option<Box<Starts>>>,
    /// The pattern anchored at the position where the search begins (`\G`).
    anchored: OnceLock<Option<Box<pcre2::bytes::Regex>>>,
    backtracker: OnceLock<Result<Box<pcre2::bytes::Regex>, String>>,
    /// It is an alternation of strings, which the `regex` engines match quickest.
    is_literal_choice: bool,
    /// It was made for the tags of one message, so that expensive preparation is not worthwhile.
    is_temporary: bool,
    automaton: OnceLock<Option<Box<meta::Regex>>>,
    /// The lazy DFA that is asked first whether a pattern that backtracks much can match.
    dfa_check: OnceLock<Option<Box<regex_automata::hybrid::dfa::DFA>>>,
    /// `None` for patterns that only PCRE2 can parse.
    node: Option<Node>,
    /// The pattern's text for PCRE2 if `node` is `None`.
    text: String,
    names: Vec<(String, u32)>,
    /// For matches that are not empty at the position where the search begins.
    after_empty: OnceLock<Option<Box<pcre2::bytes::Regex>>>,
    /// The pattern with a large JIT stack, for texts on which the small one is full.
    large_stack: OnceLock<Option<Box<pcre2::bytes::Regex>>>,
}

/// A pattern that needs no engine.
#[derive(Debug)]
enum Plain {
    /// It matches one of a few characters.
    Characters(Characters),
    /// It needs a string in a line.
    Gap(Gap),
}

impl Plain {
    fn of(node: &Node) -> Option<Box<Self>> {
        let plain = Characters::of(node).map(Plain::Characters);
        plain.or_else(|| Gap::of(node).map(Plain::Gap)).map(Box::new)
    }

    fn find(&self, text: &[u8], from: usize) -> Option<Range<usize>> {
        match self {
            Plain::Characters(characters) => characters.find(text, from),
            Plain::Gap(gap) => gap.find(text, from),
        }
    }
}

/// Why a pattern could not be compiled, or a match was not finished.
#[derive(Debug, thiserror::Error, PartialEq, Eq, Clone)]
pub enum PatternError {
    /// The pattern is not valid.
    #[error("bad pattern: {0}")]
    Syntax(String),
    /// The match exceeded its budget of [`MATCH_STEPS_MAX`] steps.
    #[error("match budget spent")]
    Budget,
}

impl Pattern {
    /// Compiles a pattern without delimiters; flags precede it as `(?i)`. Bytes above 127 are
    /// written `\xHH`. Fails with [`PatternError::Syntax`] if it is not valid.
    pub fn new(pattern: &str) -> Result<Self, PatternError> {
        let (node, names, text) = match parse::parse(pattern) {
            Ok(mut parsed) => {
                parsed.node.keep_last_template();
                (Some(parsed.node), parsed.names, String::new())
            }
            Err(ParseError::Invalid(message)) => return Err(PatternError::Syntax(message)),
            Err(ParseError::PcreOnly) => (None, Vec::new(), pattern.to_owned()),
        };
        let pattern = Pattern {
            id: NEXT_ID.fetch_add(1, Ordering::Relaxed),
            min_len: node.as_ref().map_or(0, Node::min_len),
            is_literal_choice: node.as_ref().is_some_and(is_literal_choice),
            plain: node.as_ref().and_then(Plain::of),
            node,
            text,
            names,
            automaton: OnceLock::new(),
            backtracker: OnceLock::new(),
            after_empty: OnceLock::new(),
            dfa_check: OnceLock::new(),
            starts: OnceLock::new(),
            anchored: OnceLock::new(),
            is_temporary: false,
            large_stack: OnceLock::new(),
        };
        if pattern.node.as_ref().is_none_or(needs_check) {
            pattern.backtracker().map_err(|e| PatternError::Syntax(e.clone()))?;
        }
        Ok(pattern)
    }

    /// Strings in lower case, of which every text that the pattern matches contains one; `None` if
    /// there are none.
    pub fn required_strings(&self) -> Option<Vec<Vec<u8>>> {
        let required = literal::required(self.node()?, 1.0, frequency::TextKind::Mail)?;
        Some(required.strings.iter().map(|string| boundary::bytes_of(string).to_vec()).collect())
    }

    /// The syntax tree; `None` if only PCRE2 can read the pattern.
    pub(crate) fn node(&self) -> Option<&Node> {
        self.node.as_ref()
    }

    /// Fewest bytes that a match has.
    pub(crate) fn min_len(&self) -> usize {
        self.min_len
    }

    /// Names of groups that set tags, with their index.
    pub(crate) fn names(&self) -> &[(String, u32)] {
        &self.names
    }

    /// Names of the tags that the pattern uses as `%{TAG}`.
    pub(crate) fn templates(&self) -> Vec<String> {
        let mut out = Vec::new();
        if let Some(node) = &self.node {
            node.walk(&mut |n| {
                if let Node::Template { tag, .. } = n {
                    out.push(tag.clone());
                }
            });
        }
        out
    }

    /// The pattern with an alternation of these values for each of its tags.
    pub(crate) fn with_tags(
        &self,
        tags: &dyn Fn(&str) -> Vec<Vec<u8>>,
    ) -> Result<Pattern, PatternError> {
        let node = self.node.as_ref().map_or(String::new(), |n| backtrack::text(n, tags));
        Ok(Pattern { is_temporary: true, ..Pattern::new(&node)? })
    }

    /// Why no engine runs the pattern; `None` if one does. Compiles the engines.
    pub fn why_not_run(&self) -> Option<String> {
        let cause = self.backtracker().err()?;
        self.automaton().is_none().then(|| cause.clone())
    }

    /// Whether a backtracking engine is needed.
    pub fn needs_backtracking(&self) -> bool {
        self.automaton().is_none()
    }

    fn automaton(&self) -> Option<&meta::Regex> {
        let build = || {
            let node = self.node.as_ref()?;
            let strict = automaton::hir(node, false);
            // Too large for PCRE2: an automaton that may match too much is better than none.
            let relaxed = || self.backtracker().err().and_then(|_| automaton::hir(node, true));
            let hir = strict.or_else(relaxed)?;
            automaton::regex(&hir).map(Box::new)
        };
        self.automaton.get_or_init(build).as_deref()
    }

    fn backtracker(&self) -> Result<&pcre2::bytes::Regex, &String> {
        self.backtracker.get_or_init(|| self.compile("", "", false)).as_deref()
    }

    /// What PCRE2 finds, with the large stack if the small one is full; `None` if PCRE2 cannot
    /// compile the pattern.
    fn backtrack(
        &self,
        text: &[u8],
        from: usize,
        scratch: Option<&mut Scratch>,
    ) -> Option<Result<Option<Range<usize>>, PatternError>> {
        let regex = self.backtracker().ok()?;
        match scratch::find(regex, text, from, scratch.map(|scratch| &mut scratch.unanchored)) {
            Ok(found) => Some(Ok(found)),
            Err(error) if error.code() == JIT_STACK_FULL => {
                let regex = self.large_stack.get_or_init(|| self.compile("", "", true).ok());
                let found = scratch::find(regex.as_deref()?, text, from, None);
                Some(found.map_err(|_| PatternError::Budget))
            }
            Err(_) => Some(Err(PatternError::Budget)),
        }
    }

    /// Compiles the pattern for PCRE2, with something before and after it.
    fn compile(
        &self,
        before: &str,
        after: &str,
        large_stack: bool,
    ) -> Result<Box<pcre2::bytes::Regex>, String> {
        let body = match &self.node {
            Some(node) => backtrack::text(node, &|_| Vec::new()),
            // Perl allows a name for several groups.
            None => format!("(?J){}", self.text),
        };
        compile(&format!("{before}{body}{after}"), large_stack)
    }

    /// What the automaton finds.
    fn search(
        regex: &meta::Regex,
        input: &Input<'_>,
        scratch: Option<&mut Scratch>,
    ) -> Option<Range<usize>> {
        let found = match scratch {
            Some(scratch) => {
                let cache = &mut scratch.automaton;
                let cache = cache.get_or_insert_with(|| Box::new(regex.create_cache()));
                regex.search_with(cache, input)
            }
            None => regex.search(input),
        };
        found.map(|found| found.range())
    }

    /// The leftmost match at or after `from`. Fails if the budget is exceeded.
    pub fn find(&self, text: &[u8], from: usize) -> Result<Option<Range<usize>>, PatternError> {
        self.find_with(text, from, None)
    }

    /// The same with the engines' working memory.
    pub(crate) fn find_with(
        &self,
        text: &[u8],
        from: usize,
        mut scratch: Option<&mut Scratch>,
    ) -> Result<Option<Range<usize>>, PatternError> {
        let from = from.min(text.len());
        // No engine is compiled for texts that are too short, as those of missing fields are.
        if text.len() - from < self.min_len {
            return Ok(None);
        }
        if let Some(plain) = &self.plain {
            return Ok(plain.find(text, from));
        }
        if self.is_literal_choice
            && let Some(regex) = self.automaton()
        {
            return Ok(Self::search(regex, &Input::new(text).range(from..), scratch));
        }
        if let Some(starts) = self.starts() {
            let find_anchored = |at| self.find_anchored(text, at, scratch.as_deref_mut());
            return starts.find(text, from, find_anchored).unwrap_or(Ok(None));
        }
        self.find_unanchored(text, from, scratch)
    }

    /// Where matches may begin; `None` if searching for that is not worthwhile.
    fn starts(&self) -> Option<&Starts> {
        let build = || {
            // Patterns with tags are made for one message.
            let node = self.node.as_ref().filter(|_| !self.is_temporary)?;
            let starts = Starts::of(node)?;
            let is_worthwhile =
                starts.is_worthwhile() || starts.is_in_lines() && self.anchored().is_none();
            is_worthwhile.then(|| Box::new(starts))
        };
        self.starts.get_or_init(build).as_deref()
    }

    /// The same as [`Pattern::find`], by engines that search at every byte.
    fn find_unanchored(
        &self,
        text: &[u8],
        from: usize,
        mut scratch: Option<&mut Scratch>,
    ) -> Result<Option<Range<usize>>, PatternError> {
        if let Some(Ok(found)) = self.backtrack(text, from, scratch.as_deref_mut()) {
            return Ok(found);
        }
        let regex = self.automaton().ok_or(PatternError::Budget)?;
        Ok(Self::search(regex, &Input::new(text).range(from..), scratch))
    }

    /// The pattern for PCRE2, anchored at the position where the search begins. PCRE2's JIT code
    /// does not support the anchoring option, hence `\G`.
    fn anchored(&self) -> Option<&pcre2::bytes::Regex> {
        self.anchored.get_or_init(|| self.compile("\\G(?:", ")", false).ok()).as_deref()
    }

    /// The match that begins at `at`, or the error that ends the search; `None` if no match begins
    /// there.
    fn find_anchored(
        &self,
        text: &[u8],
        at: usize,
        mut scratch: Option<&mut Scratch>,
    ) -> Option<Result<Option<Range<usize>>, PatternError>> {
        let locations = scratch.as_deref_mut().map(|scratch| &mut scratch.anchored);
        match self.anchored().map(|regex| scratch::find(regex, text, at, locations)) {
            Some(Ok(found)) => return found.map(|found| Ok(Some(found))),
            // Once the budget or the stack is exceeded, the other engines finish the search.
            Some(Err(_)) => return Some(self.find_unanchored(text, at, scratch)),
            None if self.backtracker().is_ok() => {
                return Some(self.find_unanchored(text, at, scratch));
            }
            None => {}
        }
        let Some(regex) = self.automaton() else { return Some(Err(PatternError::Budget)) };
        let input = Input::new(text).range(at..).anchored(Anchored::Yes);
        Self::search(regex, &input, scratch).map(|found| Ok(Some(found)))
    }

    /// The leftmost match at or after `from` that is not empty at `from`: what Perl searches for
    /// after an empty match there. Fails if the budget is exceeded.
    pub(crate) fn find_after_empty(
        &self,
        text: &[u8],
        from: usize,
    ) -> Result<Option<Range<usize>>, PatternError> {
        // `\G` is the position where the search begins.
        let regex = self.after_empty.get_or_init(|| self.compile("(?:", ")(?!\\G)", false).ok());
        match regex.as_deref().map(|regex| regex.find_at(text, from.min(text.len()))) {
            Some(Ok(found)) => Ok(found.map(|m| m.start()..m.end())),
            Some(Err(_)) => Err(PatternError::Budget),
            None if from < text.len() => self.find(text, from + 1),
            None => Ok(None),
        }
    }

    /// Whether [`Pattern::may_match`] should be asked first.
    pub(crate) fn has_dfa_check(&self) -> bool {
        self.node.as_ref().is_some_and(dfa_check::is_worth_it)
    }

    /// A quick check whether it can match in this text.
    pub(crate) fn may_match(&self, text: &[u8], scratch: Option<&mut Scratch>) -> bool {
        let Some(scratch) = scratch else { return true };
        let dfa_check = self.dfa_check.get_or_init(|| self.node.as_ref().and_then(dfa_check::of));
        dfa_check
            .as_deref()
            .is_none_or(|dfa| dfa_check::may_match(dfa, text, &mut scratch.dfa_check))
    }

    /// Number of non-overlapping matches, at most `most`, and the first of them; `None` if they
    /// must be found one by one.
    pub(crate) fn count(&self, text: &[u8], from: usize, most: u32) -> Option<(u32, Range<usize>)> {
        match self.plain.as_deref()? {
            Plain::Characters(characters) => characters.count(text, from, most),
            Plain::Gap(_) => None,
        }
    }

    /// Whether it matches anywhere in the text. Fails if the budget is exceeded.
    pub fn matches(&self, text: &[u8]) -> Result<bool, PatternError> {
        Ok(self.find(text, 0)?.is_some())
    }

    /// Whether it matches anywhere in the text; an exceeded budget counts as no match.
    pub fn is_match(&self, text: &[u8]) -> bool {
        self.matches(text).unwrap_or(false)
    }

    /// The groups of the leftmost match at or after `from`, the whole match first.
    pub fn captures(
        &self,
        text: &[u8],
        from: usize,
    ) -> Result<Option<Vec<Option<Range<usize>>>>, PatternError> {
        self.captures_with(text, from, None)
    }

    /// The same with the engines' working memory.
    pub(crate) fn captures_with(
        &self,
        text: &[u8],
        from: usize,
        scratch: Option<&mut Scratch>,
    ) -> Result<Option<Vec<Option<Range<usize>>>>, PatternError> {
        let Ok(regex) = self.backtracker() else { return Ok(None) };
        let mut none = None;
        let groups = scratch.map_or(&mut none, |scratch| &mut scratch.unanchored);
        let groups = groups.get_or_insert_with(|| regex.capture_locations());
        let found = regex.captures_read_at(groups, text, from.min(text.len()));
        let found = found.map_err(|_| PatternError::Budget)?;
        Ok(found.map(|_| (0..groups.len()).map(|i| groups.get(i).map(|g| g.0..g.1)).collect()))
    }
}

/// Compiles what PCRE2 reads.
fn compile(text: &str, large_stack: bool) -> Result<Box<pcre2::bytes::Regex>, String> {
    let mut builder = pcre2::bytes::RegexBuilder::new();
    builder.jit_if_available(true);
    if large_stack {
        builder.max_jit_stack_size(Some(JIT_STACK_BYTES_MAX));
    }
    let text = format!("(*LIMIT_MATCH={MATCH_STEPS_MAX})(*LF){text}");
    builder.build(&text).map(Box::new).map_err(|e| e.to_string())
}

/// Whether the pattern is an alternation of strings, perhaps with sets, without anchors and
/// repetitions.
fn is_literal_choice(node: &Node) -> bool {
    match node {
        Node::Set(_) => true,
        Node::Concat(nodes) | Node::Alternate(nodes) => {
            !nodes.is_empty() && nodes.iter().all(is_literal_choice)
        }
        Node::Group { node, .. } => is_literal_choice(node),
        _ => false,
    }
}

/// Whether the tree may contain what PCRE2 rejects (look-behind of variable length), so that only
/// compiling it shows whether the pattern is valid.
fn needs_check(node: &Node) -> bool {
    let mut found = false;
    node.walk(&mut |n| {
        if let Node::Around { ahead: false, node, .. } = n {
            found |= node.max_len().is_none_or(|m| m != node.min_len());
        }
    });
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is(pattern: &str, text: &[u8]) -> bool {
        Pattern::new(pattern).unwrap_or_else(|e| panic!("{pattern}: {e}")).is_match(text)
    }

    #[test]
    fn perl_semantics() {
        assert!(is("foo$", b"foo\n"));
        assert!(!is("foo\\z", b"foo\n"));
        assert!(is("foo\\Z", b"foo\n"));
        assert!(!is("foo$", b"foo\n\n"));
        assert!(is("(?:foo$|bar)", b"foo\n"));
        assert!(is("(?:foo$)?\\nx", b"foo\nx"));
        assert!(is("(?i)\\xe9", b"\xc9"));
        assert!(!is("(?i)\\xd7", b"\xf7"));
        assert!(is("\\s", b"\x0b"));
        assert!(!is("\\s", b"\xa0"));
        assert!(is("\\h", b"\xa0"));
        assert!(is("^\\012\\015$", b"\n\r"));
        assert!(is("\\e\\x1b\\x{1b}\\033", b"\x1b\x1b\x1b\x1b"));
        assert!(is("(a)\\1", b"aa"));
        assert!(is("(?i)(a)\\1", b"aA"));
        assert!(!is("(a)(?-i)\\1", b"aA"));
        assert!(!is("(?m)a\\n^", b"a\n"));
        assert!(is("(?m)^b", b"a\nb"));
        assert!(is("[[:alpha:]_-]+z", b"a-_z"));
        assert!(is("a{,2}b", b"aab"));
        assert!(is("{x", b"{x") && is("a+{x", b"aa{x") && is("(?:{)", b"{"));
        assert!(is("\\p{Lu}\\N{U+e9}\\pL", b"A\xe9\xe9") && is("[^\\p{IsSpace}]", b"\x80"));
        assert!(is("^\\X$", b"\r\n"));
        assert!(is("(?x) a  b # comment", b"ab"));
        assert!(is("(?>a+)b", b"aab"));
        assert!(!is("(?>a+)ab", b"aaab"));
        assert!(is("a++b", b"aab"));
        assert!(is("(?<!x)y", b"zy"));
        assert!(is("\\R$", b"a\r\n"));
        assert!(!is("(?i)[^a]", b"A"));
        assert!(is("(?^i:A)b(?i)C", b"abc"));
        assert!(is("(?<N>a)\\k<N>", b"aa"));
        assert!(is(".", b"\xff"));
        assert!(!is("^.$", b"\n"));
    }

    #[test]
    fn latin_letters_where_a_pattern_asks_for_them() {
        assert!(is("(?u)^caf\\w$", b"caf\xe9") && !is("^caf\\w$", b"caf\xe9"));
        assert!(is("(?u:\\s)", b"\xa0") && is("(?u)[\\s]", b"\x85") && !is("(?u)\\S", b"\xa0"));
        assert!(!is("(?u)\\w", b"\xd7") && is("(?u)\\W", b"\xf7") && !is("(?u)[^\\w]", b"\xaa"));
        assert!(is("(?u)\\bx", b"-x") && !is("(?u)\\bx", b"\xe9x") && is("(?u)\\Bx", b"\xe9x"));
        assert!(is("(?u)x\\b", b"x") && is("(?u)\\B", b"-") && !is("(?u)^\\B\\w", b"\xe9"));
        assert!(is("(?u)[[:upper:]]", b"\xc9") && !is("(?u)[[:upper:]]", b"\xe9"));
        assert!(is("(?ui)[[:upper:]]", b"\xff") && !is("(?u)[[:^print:]]", b"\xa0"));
        for off in ["(?u)(?a:\\w)", "(?u)(?^:\\w)", "(?u)(?d:\\w)", "(?u:x)?\\w"] {
            assert!(!is(off, b"\xe9"), "{off}");
        }
    }

    #[test]
    fn refused_as_perl_refuses() {
        for pattern in
            ["(a", "a)", "[a", "*a", "a**", "\\y", "[\\w-z]", "[z-a]", "(?<n", "\\2", "a\\"]
                .into_iter()
                .chain(["a{x", "a{3,1}", "a{2}?", "\\C", "(*UTF8)a", "[[.a.]]", "\\xg", "\\p{Foo}"])
                .chain(["^*", "(?=a)+", "(?:a|)*", "\\Qa"])
        {
            assert!(Pattern::new(pattern).is_err(), "{pattern}");
        }
    }

    #[test]
    fn catastrophic_patterns_end() {
        let text = [vec![b'a'; 40], vec![b'!']].concat();
        assert_eq!(Pattern::new("(a+)+$").unwrap().matches(&text), Ok(false));
        let backtracking = Pattern::new("(?=a)(a+)+$").unwrap();
        assert_eq!(backtracking.matches(&text), Err(PatternError::Budget));
        let danger =
            |p: &str| danger::backtracking_danger(&parse::parse(p).unwrap().node).is_some();
        assert!(danger("(a+)+$"));
        assert!(danger("(?:a|aa)+$"));
        assert!(danger("(\\w*\\s*)*x"));
        assert!(!danger("(?:ab+)+c"));
        assert!(!danger("a+b+"));
    }

    #[test]
    fn templates_of_tags() {
        let pattern = Pattern::new("^x%{GB_TO_ADDR}$").unwrap();
        assert_eq!(pattern.templates(), ["GB_TO_ADDR"]);
        let filled = pattern.with_tags(&|_| vec![b"a.b".to_vec(), b"c".to_vec()]).unwrap();
        assert!(filled.is_match(b"xa.b"));
        assert!(!filled.is_match(b"xaxb"));
        assert!(Pattern::new("100%\\{x}").unwrap().templates().is_empty());
    }
}
