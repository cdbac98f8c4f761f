//! Perl patterns, matched as Perl matches them under `/aa` on bytes.
//!
//! A pattern is read into a tree ([`syntax`]) in which all flags are applied. From there it goes to
//! PCRE2, compiled to machine code: a pattern is tried only on texts that a prefilter chose, and there
//! backtracking is quicker than automata whose states must be made first. Where the first bytes tell that
//! hardly any place begins a match ([`starts`]), only the others are tried. A match that spends its
//! budget, or a pattern too large for PCRE2, goes to the `regex` engines, which take linear time,
//! where they match exactly. Engines are made when first needed and shared between threads.

pub(crate) mod automaton;
mod backtrack;
pub mod chance;
mod chances;
mod gap;
mod letters;
pub(crate) mod literal;
pub(crate) mod parse;
mod paths;
mod property;
pub(crate) mod scratch;
pub(crate) mod sequence;
mod sets;
pub(crate) mod sieve;
mod starts;
pub(crate) mod syntax;

use std::ops::Range;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use regex_automata::{Anchored, Input, meta};

use gap::Gap;
use letters::Letters;
use parse::Refusal;
use scratch::Scratch;
use starts::Starts;
use syntax::{Greed, Node};

/// Most steps of a backtracking match.
pub const MATCH_STEPS_MAX: u32 = 5_000_000;
/// Stack of machine code for the few matches that need more than 32 KB, in bytes.
const JIT_STACK_BYTES_MAX: usize = 64 * 1024 * 1024;
/// PCRE2's error when that stack is full.
const JIT_STACK_FULL: i32 = -46;

/// The number of the next pattern.
static NEXT_ID: AtomicU64 = AtomicU64::new(1);

/// A pattern; engines are made when first needed. What every search reads stands first, in few cache lines.
#[derive(Debug)]
#[repr(C)]
pub struct Pattern {
    /// No other pattern has the same.
    id: u64,
    /// Fewest bytes that a match has.
    min_len: usize,
    /// How it is matched where no engine is needed.
    plain: Option<Box<Plain>>,
    /// Where matches may begin; none where asking does not pay.
    starts: OnceLock<Option<Box<Starts>>>,
    /// The pattern tied to the place where the search begins.
    here: OnceLock<Option<Box<pcre2::bytes::Regex>>>,
    backtracker: OnceLock<Result<Box<pcre2::bytes::Regex>, String>>,
    /// Nothing but a choice of strings, which the `regex` engines find quickest of all.
    is_words: bool,
    /// It has the tags of one message, so that what takes long to make would not pay.
    is_of_one_message: bool,
    automaton: OnceLock<Option<Box<meta::Regex>>>,
    /// What is asked first whether a pattern that backtracks much can match.
    sieve: OnceLock<Option<Box<regex_automata::hybrid::dfa::DFA>>>,
    /// None for patterns that only PCRE2 reads.
    node: Option<Node>,
    /// The text for PCRE2, where `node` is none.
    text: String,
    names: Vec<(String, u32)>,
    /// The same for matches that are not empty at the place where the search begins.
    after_empty: OnceLock<Option<Box<pcre2::bytes::Regex>>>,
    /// The same with a large stack, for texts on which the small one is full.
    roomy: OnceLock<Option<Box<pcre2::bytes::Regex>>>,
}

/// A pattern that needs no engine.
#[derive(Debug)]
enum Plain {
    /// It takes but a few letters.
    Letters(Letters),
    /// It asks for a string in a line.
    Gap(Gap),
}

impl Plain {
    fn of(node: &Node) -> Option<Box<Self>> {
        let plain = Letters::of(node).map(Plain::Letters);
        plain.or_else(|| Gap::of(node).map(Plain::Gap)).map(Box::new)
    }

    fn find(&self, text: &[u8], from: usize) -> Option<Range<usize>> {
        match self {
            Plain::Letters(letters) => letters.find(text, from),
            Plain::Gap(gap) => gap.find(text, from),
        }
    }
}

/// Why a pattern could not be compiled, or a match not be finished.
#[derive(Debug, thiserror::Error, PartialEq, Eq, Clone)]
pub enum PatternError {
    /// The pattern is not valid.
    #[error("bad pattern: {0}")]
    Syntax(String),
    /// Matching ran out of its budget of [`MATCH_STEPS_MAX`] steps.
    #[error("match budget spent")]
    Budget,
}

impl Pattern {
    /// Compiles a pattern without delimiters; flags stand in front as `(?i)`. Bytes above 127 are
    /// written `\xHH`.
    pub fn new(pattern: &str) -> Result<Self, PatternError> {
        let (node, names, text) = match parse::parse(pattern) {
            Ok(mut parsed) => {
                parsed.node.keep_last_template();
                (Some(parsed.node), parsed.names, String::new())
            }
            Err(Refusal::Wrong(message)) => return Err(PatternError::Syntax(message)),
            Err(Refusal::Foreign) => (None, Vec::new(), pattern.to_owned()),
        };
        let pattern = Pattern {
            id: NEXT_ID.fetch_add(1, Ordering::Relaxed),
            min_len: node.as_ref().map_or(0, Node::min_len),
            is_words: node.as_ref().is_some_and(is_words),
            plain: node.as_ref().and_then(Plain::of),
            node,
            text,
            names,
            automaton: OnceLock::new(),
            backtracker: OnceLock::new(),
            after_empty: OnceLock::new(),
            sieve: OnceLock::new(),
            starts: OnceLock::new(),
            here: OnceLock::new(),
            is_of_one_message: false,
            roomy: OnceLock::new(),
        };
        if pattern.node.as_ref().is_none_or(needs_check) {
            pattern.backtracker().map_err(|e| PatternError::Syntax(e.clone()))?;
        }
        Ok(pattern)
    }

    /// Strings of which one, in lower case, is in each text that the pattern matches; none if that is not
    /// known.
    pub fn required_strings(&self) -> Option<Vec<Vec<u8>>> {
        let required = literal::required(self.node()?, 1.0, literal::Texts::Mail)?;
        Some(required.strings.iter().map(|string| literal::bytes_of(string).to_vec()).collect())
    }

    /// The pattern's tree.
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

    /// Tags that the pattern uses as `%{TAG}`.
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

    /// The same pattern with these values for its tags: any of them may stand there.
    pub(crate) fn with_tags(
        &self,
        tags: &dyn Fn(&str) -> Vec<Vec<u8>>,
    ) -> Result<Pattern, PatternError> {
        let node = self.node.as_ref().map_or(String::new(), |n| backtrack::text(n, tags));
        Ok(Pattern { is_of_one_message: true, ..Pattern::new(&node)? })
    }

    /// Runs every engine and the prefilter on a text and compares their answers; the error says how
    /// they differ. For fuzzing.
    pub fn self_check(&self, text: &[u8]) -> Result<(), String> {
        let slow = match self.backtracker().map(|r| r.is_match(text)) {
            Ok(Ok(found)) => found,
            Ok(Err(_)) | Err(_) => return Ok(()),
        };
        let exact = self.node.as_ref().and_then(|n| automaton::hir(n, false));
        if exact.is_some()
            && let Some(fast) = self.automaton()
            && fast.is_match(text) != slow
        {
            return Err(format!("PCRE2 says {slow}, the automaton does not"));
        }
        match crate::matcher::first_start(self, text) {
            None if slow => return Err("it matches, but the prefilter rules it out".to_owned()),
            Some(start) if self.find(text, 0) != self.find(text, start) => {
                return Err(format!(
                    "it matches before {start}, where the prefilter lets it begin"
                ));
            }
            _ => {}
        }
        if let Some(start) = (0..text.len())
            .find(|from| self.find(text, *from) != self.find_everywhere(text, *from, None))
        {
            return Err(format!("from {start} on the starts lead to another match"));
        }
        if slow && self.node.as_ref().is_some_and(Node::is_impossible) {
            return Err("it matches, but is thought to be impossible".to_owned());
        }
        Ok(())
    }

    /// Why no engine runs the pattern; none if one does. Makes the engines.
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
            // Too large for PCRE2: an answer that may be too generous beats none.
            let relaxed = || self.backtracker().err().and_then(|_| automaton::hir(node, true));
            let hir = strict.or_else(relaxed)?;
            automaton::regex(&hir).map(Box::new)
        };
        self.automaton.get_or_init(build).as_deref()
    }

    fn backtracker(&self) -> Result<&pcre2::bytes::Regex, &String> {
        self.backtracker.get_or_init(|| self.compile("", "", false)).as_deref()
    }

    /// What PCRE2 finds; with a large stack if the small one does not do.
    fn backtrack(
        &self,
        text: &[u8],
        from: usize,
        kept: Option<&mut Scratch>,
    ) -> Option<Result<Option<Range<usize>>, PatternError>> {
        let regex = self.backtracker().ok()?;
        match scratch::find(regex, text, from, kept.map(|kept| &mut kept.anywhere)) {
            Ok(found) => Some(Ok(found)),
            Err(error) if error.code() == JIT_STACK_FULL => {
                let regex = self.roomy.get_or_init(|| self.compile("", "", true).ok());
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
        roomy: bool,
    ) -> Result<Box<pcre2::bytes::Regex>, String> {
        let body = match &self.node {
            Some(node) => backtrack::text(node, &|_| Vec::new()),
            // Perl allows a name for several groups.
            None => format!("(?J){}", self.text),
        };
        compile(&format!("{before}{body}{after}"), roomy)
    }

    /// What the automaton finds.
    fn search(
        regex: &meta::Regex,
        input: &Input<'_>,
        kept: Option<&mut Scratch>,
    ) -> Option<Range<usize>> {
        let found = match kept {
            Some(kept) => {
                let cache = &mut kept.automaton;
                let cache = cache.get_or_insert_with(|| Box::new(regex.create_cache()));
                regex.search_with(cache, input)
            }
            None => regex.search(input),
        };
        found.map(|found| found.range())
    }

    /// The leftmost match at or after `from`. Fails if the budget is spent.
    pub fn find(&self, text: &[u8], from: usize) -> Result<Option<Range<usize>>, PatternError> {
        self.find_with(text, from, None)
    }

    /// The same, with what the engines keep from one match to the next.
    pub(crate) fn find_with(
        &self,
        text: &[u8],
        from: usize,
        mut kept: Option<&mut Scratch>,
    ) -> Result<Option<Range<usize>>, PatternError> {
        let from = from.min(text.len());
        // Engines need not be made for texts that are too short, as those of missing fields are.
        if text.len() - from < self.min_len {
            return Ok(None);
        }
        if let Some(plain) = &self.plain {
            return Ok(plain.find(text, from));
        }
        if self.is_words
            && let Some(regex) = self.automaton()
        {
            return Ok(Self::search(regex, &Input::new(text).range(from..), kept));
        }
        if let Some(starts) = self.starts() {
            let find_here = |at| self.find_here(text, at, kept.as_deref_mut());
            return starts.find(text, from, find_here).unwrap_or(Ok(None));
        }
        self.find_everywhere(text, from, kept)
    }

    /// Where matches may begin; none if looking for that does not pay.
    fn starts(&self) -> Option<&Starts> {
        let build = || {
            // Patterns with tags are made for one message.
            let node = self.node.as_ref().filter(|_| !self.is_of_one_message)?;
            let starts = Starts::of(node)?;
            let pays = starts.pays() || starts.is_in_lines() && self.here().is_none();
            pays.then(|| Box::new(starts))
        };
        self.starts.get_or_init(build).as_deref()
    }

    /// The same as [`Pattern::find`], by engines that begin anew at each byte.
    fn find_everywhere(
        &self,
        text: &[u8],
        from: usize,
        mut kept: Option<&mut Scratch>,
    ) -> Result<Option<Range<usize>>, PatternError> {
        if let Some(Ok(found)) = self.backtrack(text, from, kept.as_deref_mut()) {
            return Ok(found);
        }
        let regex = self.automaton().ok_or(PatternError::Budget)?;
        Ok(Self::search(regex, &Input::new(text).range(from..), kept))
    }

    /// The pattern for PCRE2, tied to the place where the search begins.
    fn here(&self) -> Option<&pcre2::bytes::Regex> {
        self.here.get_or_init(|| self.compile("\\G(?:", ")", false).ok()).as_deref()
    }

    /// What the search comes to if it does not go on behind `at`: none if no match begins there.
    fn find_here(
        &self,
        text: &[u8],
        at: usize,
        mut kept: Option<&mut Scratch>,
    ) -> Option<Result<Option<Range<usize>>, PatternError>> {
        let locations = kept.as_deref_mut().map(|kept| &mut kept.here);
        match self.here().map(|regex| scratch::find(regex, text, at, locations)) {
            Some(Ok(found)) => return found.map(|found| Ok(Some(found))),
            // Once the budget or the stack is spent, the others end the search.
            Some(Err(_)) => return Some(self.find_everywhere(text, at, kept)),
            None if self.backtracker().is_ok() => {
                return Some(self.find_everywhere(text, at, kept));
            }
            None => {}
        }
        let Some(regex) = self.automaton() else { return Some(Err(PatternError::Budget)) };
        let input = Input::new(text).range(at..).anchored(Anchored::Yes);
        Self::search(regex, &input, kept).map(|found| Ok(Some(found)))
    }

    /// The leftmost match at or after `from` that is not empty at `from`: what Perl looks for after an
    /// empty match there. Fails if the budget is spent.
    pub(crate) fn find_after_empty(
        &self,
        text: &[u8],
        from: usize,
    ) -> Result<Option<Range<usize>>, PatternError> {
        // `\G` is the place where the search begins.
        let regex = self.after_empty.get_or_init(|| self.compile("(?:", ")(?!\\G)", false).ok());
        match regex.as_deref().map(|regex| regex.find_at(text, from.min(text.len()))) {
            Some(Ok(found)) => Ok(found.map(|m| m.start()..m.end())),
            Some(Err(_)) => Err(PatternError::Budget),
            None if from < text.len() => self.find(text, from + 1),
            None => Ok(None),
        }
    }

    /// Whether asking [`Pattern::may_match`] first pays.
    pub(crate) fn has_sieve(&self) -> bool {
        self.node.as_ref().is_some_and(sieve::is_worth_it)
    }

    /// A quick answer whether it can match in this text.
    pub(crate) fn may_match(&self, text: &[u8], kept: Option<&mut Scratch>) -> bool {
        let Some(kept) = kept else { return true };
        let sieve = self.sieve.get_or_init(|| self.node.as_ref().and_then(sieve::of));
        sieve.as_deref().is_none_or(|dfa| sieve::may_match(dfa, text, &mut kept.sieve))
    }

    /// How many matches there are one after the other, at most `most`, and the first of them; none where
    /// each has to be found by itself.
    pub(crate) fn count(&self, text: &[u8], from: usize, most: u32) -> Option<(u32, Range<usize>)> {
        match self.plain.as_deref()? {
            Plain::Letters(letters) => letters.count(text, from, most),
            Plain::Gap(_) => None,
        }
    }

    /// Whether it matches anywhere. Fails if the budget is spent.
    pub fn matches(&self, text: &[u8]) -> Result<bool, PatternError> {
        Ok(self.find(text, 0)?.is_some())
    }

    /// Whether it matches anywhere; a spent budget counts as no match.
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

    /// The same, with what the engines keep from one match to the next.
    pub(crate) fn captures_with(
        &self,
        text: &[u8],
        from: usize,
        kept: Option<&mut Scratch>,
    ) -> Result<Option<Vec<Option<Range<usize>>>>, PatternError> {
        let Ok(regex) = self.backtracker() else { return Ok(None) };
        let mut none = None;
        let groups = kept.map_or(&mut none, |kept| &mut kept.anywhere);
        let groups = groups.get_or_insert_with(|| regex.capture_locations());
        let found = regex.captures_read_at(groups, text, from.min(text.len()));
        let found = found.map_err(|_| PatternError::Budget)?;
        Ok(found.map(|_| (0..groups.len()).map(|i| groups.get(i).map(|g| g.0..g.1)).collect()))
    }
}

/// Compiles what PCRE2 reads.
fn compile(text: &str, roomy: bool) -> Result<Box<pcre2::bytes::Regex>, String> {
    let mut builder = pcre2::bytes::RegexBuilder::new();
    builder.jit_if_available(true);
    if roomy {
        builder.max_jit_stack_size(Some(JIT_STACK_BYTES_MAX));
    }
    let text = format!("(*LIMIT_MATCH={MATCH_STEPS_MAX})(*LF){text}");
    builder.build(&text).map(Box::new).map_err(|e| e.to_string())
}

/// Whether the pattern is a choice of strings, perhaps with sets, without anchors and repetitions.
fn is_words(node: &Node) -> bool {
    match node {
        Node::Set(_) => true,
        Node::Concat(nodes) | Node::Alternate(nodes) => {
            !nodes.is_empty() && nodes.iter().all(is_words)
        }
        Node::Group { node, .. } => is_words(node),
        _ => false,
    }
}

/// Whether the tree may hold what PCRE2 refuses (look-behind without bound), so that it must be
/// compiled to know that the pattern is valid.
fn needs_check(node: &Node) -> bool {
    let mut found = false;
    node.walk(&mut |n| {
        if let Node::Around { ahead: false, node, .. } = n {
            found |= node.max_len().is_none_or(|m| m != node.min_len());
        }
    });
    found
}

/// Why matching may take time that grows with a power of the text's length, in a backtracking engine:
/// a repetition inside a repetition whose pieces overlap. None if nothing like it is seen.
pub(crate) fn backtracking_danger(node: &Node) -> Option<&'static str> {
    let mut danger = None;
    node.walk(&mut |n| {
        let Node::Repeat { node: inner, max: None, greed, .. } = n else { return };
        if *greed == Greed::Possessive {
            return;
        }
        inner.walk(&mut |m| {
            if let Node::Repeat { max: None, greed, node: once, .. } = m
                && *greed != Greed::Possessive
                && is_only_repeat(inner, once)
            {
                danger = Some("a repetition is repeated, as in (a+)+");
            }
        });
        if let Node::Alternate(branches) = strip(inner)
            && overlapping(branches)
        {
            danger = danger.or(Some("a repeated choice has branches that overlap, as in (a|aa)+"));
        }
    });
    danger
}

/// Whether nothing certain stands beside the inner repetition.
fn is_only_repeat(outer: &Node, once: &Node) -> bool {
    outer.min_len() <= once.min_len()
}

fn strip(node: &Node) -> &Node {
    match node {
        Node::Group { node, .. } => strip(node),
        _ => node,
    }
}

/// Whether a byte string of one branch begins another.
fn overlapping(branches: &[Node]) -> bool {
    let word = |node: &Node| -> Option<Vec<u8>> {
        match node {
            Node::Set(set) => set.single().map(|b| vec![b]),
            Node::Concat(nodes) => nodes
                .iter()
                .map(|n| if let Node::Set(set) = n { set.single() } else { None })
                .collect(),
            _ => None,
        }
    };
    let words: Vec<Vec<u8>> = branches.iter().filter_map(word).collect();
    words.iter().enumerate().any(|(i, a)| {
        words.iter().enumerate().any(|(j, b)| i != j && !a.is_empty() && b.starts_with(a))
    })
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
        let danger = |p: &str| backtracking_danger(&parse::parse(p).unwrap().node).is_some();
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
