//! Hosts and names that pretend to be those of a much imitated firm.
//!
//! A host label is folded to its *skeleton* (characters that look alike become one, after the idea
//! of Unicode Technical Standard 39, with a table of our own for what is seen in mail), then
//! compared with the labels of `data/brands.tsv`: equal, off by one slip of the keyboard, or inside
//! a longer label.

use std::collections::HashMap;

use gauntlet_mail::public_suffix;

/// Labels shorter than this are not compared with slips: too many honest words are one letter away.
const TYPO_LABEL_BYTES_MIN: usize = 7;
/// Shorter labels are not looked for inside longer ones.
const INSIDE_LABEL_BYTES_MIN: usize = 5;
/// Labels of a host that are compared; real ones have few.
const LABELS_MAX: usize = 12;

/// Brands that are people's names, too ("Chase Miller").
const PERSONS: [&str; 2] = ["chase", "norton"];
/// Words of a firm: beside one of these the name of a person is the brand.
const OF_A_FIRM: [&str; 17] = [
    "360",
    "account",
    "accounts",
    "alert",
    "alerts",
    "antivirus",
    "bank",
    "banking",
    "billing",
    "card",
    "lifelock",
    "online",
    "renewal",
    "security",
    "service",
    "support",
    "team",
];
/// Words that local members of a group do not have in their domains, and forgeries of them do.
const OF_A_LURE: [&str; 17] = [
    "aktuell",
    "anmeldung",
    "banking",
    "info",
    "konto",
    "kunde",
    "kunden",
    "kundenservice",
    "login",
    "news",
    "online",
    "portal",
    "push",
    "service",
    "sicherheit",
    "support",
    "tan",
];

/// How a host imitates.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Likeness {
    /// Looks the same with other characters: `paypa1.example`.
    Confusable,
    /// One letter added, missing, changed or swapped: `mircosoft.example`.
    Typo,
    /// The name stands in a host that belongs to others: `paypal.com.example`,
    /// `paypal-login.example`.
    Inside,
}

/// A firm that is imitated.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Brand {
    /// Its usual spelling, as evidence shows it.
    pub name: String,
    /// Words that mean it, in lower case.
    pub labels: Vec<String>,
    /// Domains that are really its.
    pub domains: Vec<String>,
    /// Registries in which local members of the group have names of their own
    /// (`volksbank-stuttgart.de`).
    pub registries: Vec<String>,
}

impl Brand {
    /// Whether the host is one of the brand's, or below one, or that of a local member.
    pub fn owns(&self, host: &str) -> bool {
        self.domains.iter().any(|domain| is_below(host, domain)) || self.has_member(host)
    }

    /// The brand's label beside other words, such as that of a town, in a registry of the group.
    fn has_member(&self, host: &str) -> bool {
        if self.registries.is_empty() {
            return false;
        }
        let registrable = organizational_domain(host).and_then(|name| name.split_once('.'));
        let Some((label, registry)) = registrable else { return false };
        let mut words = label.split('-');
        self.registries.iter().any(|known| known == registry)
            && words.clone().any(|word| self.labels.iter().any(|label| label == word))
            && !words.any(|word| OF_A_LURE.contains(&word))
    }
}

/// The brands, ready to be compared with.
#[derive(Debug, Clone)]
pub struct Brands {
    brands: Vec<Brand>,
    by_label: HashMap<String, usize>,
    /// Skeletons of the labels that slips are looked for in, with their brand.
    long_labels: Vec<(String, usize)>,
}

impl Brands {
    /// The list that ships.
    pub fn shipped() -> Self {
        Self::parse(include_str!("../data/brands.tsv"))
    }

    /// Reads `name<TAB>labels<TAB>domains[<TAB>registries]` lines; `#` begins a comment.
    pub fn parse(text: &str) -> Self {
        let mut brands = Vec::new();
        for line in text.lines().filter(|l| !l.starts_with('#')) {
            let mut cells = line.split('\t');
            let (Some(name), Some(labels), Some(domains)) =
                (cells.next(), cells.next(), cells.next())
            else {
                continue;
            };
            let words = |cell: &str| cell.split_whitespace().map(str::to_lowercase).collect();
            brands.push(Brand {
                name: name.to_owned(),
                labels: words(labels),
                domains: words(domains),
                registries: cells.next().map(words).unwrap_or_default(),
            });
        }
        let (mut by_label, mut long_labels) = (HashMap::new(), Vec::new());
        for (i, brand) in brands.iter().enumerate() {
            for label in &brand.labels {
                by_label.entry(skeleton(label)).or_insert(i);
                if label.len() >= TYPO_LABEL_BYTES_MIN {
                    long_labels.push((skeleton(label), i));
                }
            }
        }
        Brands { brands, by_label, long_labels }
    }

    /// The brand that a host (lower case, Unicode labels) imitates; none for the brand's own hosts.
    ///
    /// The registered label is compared for likeness; a firm's name in any other label
    /// (`paypal.github.example`) counts as inside.
    pub fn imitated(&self, host: &str) -> Option<(&Brand, Likeness)> {
        let registrable = organizational_domain(host).unwrap_or_default();
        let registered = registrable.split('.').next().unwrap_or_default();
        let found = self.like(registered);
        // A registered label that is a brand's very word is its own name: `target.example`.
        let labels = host
            .split('.')
            .take(LABELS_MAX)
            .filter(|label| *label != registered || label.contains('-'));
        let found = found.or_else(|| {
            let mut inside = labels.filter_map(|label| self.inside(label));
            inside.next().map(|brand| (brand, Likeness::Inside))
        });
        // A label may mean several brands (and every brand may use its name below its own domains).
        let owned = |brand: &Brand| brand.owns(host);
        found.filter(|(brand, _)| !owned(brand) && !self.brands.iter().any(owned))
    }

    /// The brand that a sender's display name mentions: one of its labels as a word of the name, or
    /// all the name without spaces.
    pub fn named(&self, display_name: &str) -> Option<&Brand> {
        let lower = display_name.to_lowercase();
        let folded = skeleton(&lower);
        let joined: String = folded.chars().filter(|c| c.is_alphanumeric()).collect();
        let words = || folded.split(|c: char| !c.is_alphanumeric()).filter(|w| w.len() >= 3);
        let mut plain = lower.split(|c: char| !c.is_alphanumeric());
        let is_firm = joined.len() < 8 || plain.any(|word| OF_A_FIRM.contains(&word));
        let means = |word: &&str| is_firm || !PERSONS.contains(word);
        let mut named = words().chain([&*joined]).filter(means);
        let index = named.find_map(|word| self.by_label.get(word))?;
        self.brands.get(*index)
    }

    /// Whether some brand owns the host.
    pub fn owned(&self, host: &str) -> bool {
        self.brands.iter().any(|brand| brand.owns(host))
    }

    /// Domains that are really those of a brand, of all brands.
    pub fn domains(&self) -> impl Iterator<Item = &str> {
        self.brands.iter().flat_map(|brand| brand.domains.iter().map(String::as_str))
    }

    /// Whether one brand owns both domains.
    pub fn same_owner(&self, a: &str, b: &str) -> bool {
        self.brands.iter().any(|brand| brand.owns(a) && brand.owns(b))
    }

    fn like(&self, label: &str) -> Option<(&Brand, Likeness)> {
        let folded = skeleton(label);
        if let Some(&i) = self.by_label.get(&folded) {
            let brand = &self.brands[i];
            let exact = brand.labels.iter().any(|l| l == label);
            // The very name at another registry may be the firm's own for all we know.
            return (!exact).then_some((brand, Likeness::Confusable));
        }
        if folded.len() < TYPO_LABEL_BYTES_MIN {
            return None;
        }
        let close = self.long_labels.iter().find(|(label, _)| is_one_edit_apart(&folded, label));
        close.and_then(|(_, i)| Some((self.brands.get(*i)?, Likeness::Typo)))
    }

    /// A brand whose label is a word of a hyphenated label, or the whole of a label.
    fn inside(&self, label: &str) -> Option<&Brand> {
        let words = label.split('-').filter(|w| w.len() >= INSIDE_LABEL_BYTES_MIN);
        let index = words.into_iter().find_map(|word| self.by_label.get(&skeleton(word)))?;
        self.brands.get(*index)
    }
}

/// Whether `host` is `domain` or below it.
pub(crate) fn is_below(host: &str, domain: &str) -> bool {
    host.strip_suffix(domain).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
}

/// The registrable domain of a host: `example.co.uk` of `a.b.example.co.uk`. None for
/// addresses, and for names under no known registry.
pub fn organizational_domain(host: &str) -> Option<&str> {
    let suffix = public_suffix::suffix(host.as_bytes()).filter(|suffix| suffix.is_known)?;
    std::str::from_utf8(suffix.domain_of(host.as_bytes())?).ok()
}

/// Folds what looks alike: digits used as letters, letters of other alphabets and with accents,
/// `rn` for `m`, `vv` for `w`.
pub fn skeleton(label: &str) -> String {
    let mut out = String::with_capacity(label.len());
    for c in label.chars() {
        let folded = fold(c);
        let joined = match (out.chars().next_back(), folded) {
            (Some('r'), 'n') => Some('m'),
            (Some('v'), 'v') => Some('w'),
            _ => None,
        };
        if joined.is_some() {
            out.pop();
        }
        out.push(joined.unwrap_or(folded));
    }
    out
}

fn fold(c: char) -> char {
    match c {
        '0' | 'о' | 'ο' | 'ó' | 'ò' | 'ö' | 'ô' | 'õ' | 'ø' | 'ō' | 'ọ' => 'o',
        '1' | 'l' | '|' | 'ł' | 'ӏ' | 'ι' | 'í' | 'ì' | 'ï' | 'î' | 'ı' | 'і' | 'ị' | 'ḷ' | 'i' => {
            'i'
        }
        '3' | 'е' | 'ё' | 'é' | 'è' | 'ë' | 'ê' | 'ē' | 'ẹ' => 'e',
        '4' | '@' | 'а' | 'α' | 'á' | 'à' | 'ä' | 'â' | 'ã' | 'å' | 'ā' | 'ạ' => 'a',
        '5' | '$' | 'ѕ' | 'ś' | 'š' | 'ş' | 'ș' => 's',
        'с' | 'ç' | 'ć' | 'č' => 'c',
        'р' | 'ρ' => 'p',
        'у' | 'ý' | 'ÿ' => 'y',
        'х' | 'χ' => 'x',
        'ν' => 'v',
        'ñ' | 'ń' | 'ņ' => 'n',
        'ú' | 'ù' | 'ü' | 'û' | 'υ' | 'ū' | 'ụ' => 'u',
        'ԁ' | 'ď' | 'đ' => 'd',
        'һ' => 'h',
        'ј' => 'j',
        'к' | 'κ' => 'k',
        'м' => 'm',
        'т' | 'τ' | 'ț' | 'ţ' => 't',
        'ɡ' | 'ğ' | 'ġ' => 'g',
        'ž' | 'ż' | 'ź' => 'z',
        'в' => 'b',
        'ẁ' | 'ŵ' => 'w',
        other => other,
    }
}

/// Whether one letter was added, left out, changed, or two neighbours swapped.
fn is_one_edit_apart(a: &str, b: &str) -> bool {
    let (a, b) = (a.as_bytes(), b.as_bytes());
    if a.len().abs_diff(b.len()) > 1 || a == b {
        return false;
    }
    let same = a.iter().zip(b).take_while(|(x, y)| x == y).count();
    let (a, b) = (&a[same..], &b[same..]);
    let (after_a, after_b) = (a.get(1..), b.get(1..));
    let swapped = matches!((a, b), ([a0, a1, rest_a @ ..], [b0, b1, rest_b @ ..])
        if a0 == b1 && a1 == b0 && rest_a == rest_b);
    swapped
        || (after_a.is_some() && (after_a == after_b || after_a == Some(b)))
        || after_b == Some(a)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn imitated(host: &str) -> Option<(String, Likeness)> {
        Brands::shipped().imitated(host).map(|(b, l)| (b.name.clone(), l))
    }

    #[test]
    fn hosts_that_pretend() {
        let like = |name: &str, likeness| Some((name.to_owned(), likeness));
        assert_eq!(imitated("paypa1.com"), like("PayPal", Likeness::Confusable));
        assert_eq!(imitated("www.аpple.com"), like("Apple", Likeness::Confusable));
        assert_eq!(imitated("rnicrosoft.com"), like("Microsoft", Likeness::Confusable));
        assert_eq!(imitated("mircosoft.net"), like("Microsoft", Likeness::Typo));
        assert_eq!(imitated("paypal.com.evil.example"), like("PayPal", Likeness::Inside));
        assert_eq!(imitated("netflix-billing.top"), like("Netflix", Likeness::Inside));
    }

    #[test]
    fn hosts_that_do_not() {
        for host in [
            "www.paypal.com",
            "paypal.de",
            "aws.amazon.com",
            "pineapple.example",
            "example.com",
            "microsoft.com",
            "groups.google.com",
            "mail.yahoo.co.jp",
            "target.example",
            "sparkasse-koelnbonn.de",
            "mail.berliner-sparkasse.de",
        ] {
            assert_eq!(imitated(host), None, "{host}");
        }
    }

    #[test]
    fn members_of_a_group_have_domains_of_their_own_in_its_registries() {
        let inside = Some(("Sparkasse".to_owned(), Likeness::Inside));
        for host in
            ["sparkasse-kundenservice.de", "sparkasse-koeln.com", "sparkasse.de.evil.example"]
        {
            assert_eq!(imitated(host), inside, "{host}");
        }
    }

    #[test]
    fn names_of_senders() {
        let brands = Brands::shipped();
        let named = |name: &str| brands.named(name).map(|b| b.name.clone());
        assert_eq!(named("PayPaI Support").as_deref(), Some("PayPal"));
        assert_eq!(named("Bank of America").as_deref(), Some("Bank of America"));
        assert_eq!(named("Ann Smith"), None);
        assert_eq!(named("Chase Miller"), None, "a person");
        assert_eq!(named("Chase").as_deref(), Some("Chase"));
        assert_eq!(named("Norton Billing").as_deref(), Some("Norton"));
    }
}
