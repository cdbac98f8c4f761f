//! What the shipped classifier looks at: features of a parsed message that the sender made.
//!
//! **What a collector or the receiving side added is not looked at**, so that a model cannot learn
//! where its training mail came from: only the header fields of [`FIELDS`] and those that sending
//! services write (`known.rs`) count, which excludes `Received`, `Return-Path`, `Delivered-To`,
//! `List-*`, `Authentication-Results`, `X-MS-*`, DKIM and ARC; of recipients it is read only
//! whether the sender names them; `[tags]` of the Subject, the names of addresses in text and the
//! footers of mailing lists are left out. A feature that is not here cannot be learned.
//!
//! Features come in [`Group`]s. Each group's sum is divided by the square root of its number of
//! features, and bounded, so that padding dilutes one group and can never outvote the others.

mod body;
mod header;
mod known;
mod links;

use gauntlet_mail::Message;

use super::group::Group;
use super::scratch::ClassifierScratch;

/// Header fields that senders write, and that are looked at.
pub const FIELDS: [&str; 20] = [
    "from",
    "to",
    "cc",
    "subject",
    "date",
    "message-id",
    "mime-version",
    "content-type",
    "content-transfer-encoding",
    "content-disposition",
    "reply-to",
    "in-reply-to",
    "references",
    "x-mailer",
    "user-agent",
    "x-priority",
    "x-msmail-priority",
    "importance",
    "thread-index",
    "organization",
];
/// Most bytes of a header field.
const FIELD_BYTES_MAX: usize = 400;

impl ClassifierScratch {
    /// Reads a message; what was read before is gone.
    pub fn read(&mut self, message: &Message<'_>) {
        self.clear();
        extract(message, self);
        self.fresh = true;
    }

    /// Reads the message unless it was read since the last [`Self::forget`].
    pub(crate) fn read_once(&mut self, message: &Message<'_>) {
        if !self.fresh {
            self.read(message);
        }
    }
}

/// Gives every feature of the message to the scratch, group by group.
fn extract(message: &Message<'_>, sink: &mut ClassifierScratch) {
    let from = message.from();
    let address = from.as_ref().map(|f| f.address.to_lowercase()).unwrap_or_default();
    let domain = address.rsplit_once('@').map_or("", |(_, d)| d);
    let organizational_domain = crate::lookalike::organizational_domain(domain).unwrap_or(domain);
    header::sender(
        message,
        from.as_ref().map_or("", |f| &f.name),
        &address,
        organizational_domain,
        sink,
    );
    sink.end(Group::Sender);
    header::subject(message, sink);
    sink.end(Group::Subject);
    header::form(message, organizational_domain, sink);
    sink.end(Group::Form);
    body::text(message, sink);
    sink.end(Group::Text);
    body::pages(message, sink);
    sink.end(Group::Page);
    links::links(message, organizational_domain, sink);
    sink.end(Group::Links);
    links::files(message, sink);
    sink.end(Group::Files);
}

/// Most characters of a shape.
const SHAPE_BYTES_MAX: usize = 24;

/// Adds the shape of a value: letters become `a`, capitals `A`, digits `9`, runs one character.
fn shape(sink: &mut ClassifierScratch, group: Group, kind: &'static str, value: &str) {
    let out = sink.arena();
    let at = out.len();
    let mut last = 0;
    for byte in value.bytes() {
        let sign = match byte {
            b'a'..=b'z' => b'a',
            b'A'..=b'Z' => b'A',
            b'0'..=b'9' => b'9',
            b if b.is_ascii_graphic() => b,
            _ => b'?',
        };
        if sign != last {
            out.push(char::from(sign));
            if out.len() - at == SHAPE_BYTES_MAX {
                break;
            }
        }
        last = sign;
    }
    sink.feature_since(group, kind, at);
}

/// Adds a count by its order of magnitude: powers of two.
fn magnitude(
    sink: &mut ClassifierScratch,
    group: Group,
    kind: &'static str,
    count: u32,
    most: u32,
) {
    let power = count.min(most).next_power_of_two().trailing_zeros() as usize;
    sink.feature(group, kind, MAGNITUDES.get(power).copied().unwrap_or("more"));
}

/// Orders of magnitude in words: formatting a dozen numbers a page would cost more than reading it.
#[rustfmt::skip]
const MAGNITUDES: [&str; 21] = [
    "about 1", "about 2", "about 4", "about 8", "about 16", "about 32", "about 64", "about 128",
    "about 256", "about 512", "about 1024", "about 2048", "about 4096", "about 8192", "about 16384",
    "about 32768", "about 65536", "about 131072", "about 262144", "about 524288", "about 1048576",
];

#[cfg(test)]
mod tests {
    use super::body::FOOTER;
    use super::*;
    use crate::classifier::group::{FEATURES_MAX, GROUP_BOUND};
    use crate::classifier::{ClassifierScratch, Model};

    const SPAM: &str = "From: \"Pills 4U\" <x83@cheap.example.net>\nSubject: CHEAP viagra online\n\n\
        Buy cheap viagra and cialis online, no prescription needed.\n";

    fn raw_logit(raw: &str) -> f32 {
        let mut scratch = ClassifierScratch::default();
        scratch.read(&Message::parse(raw.as_bytes()));
        let (features, ends) = scratch.features();
        assert!(features.len() <= FEATURES_MAX);
        Model::shipped().raw_logit_of(features, *ends)
    }

    fn features(body: &str) -> Vec<u32> {
        let raw = format!("From: a@example.org\nSubject: x\n\n{body}\n");
        let mut scratch = ClassifierScratch::default();
        scratch.read(&Message::parse(raw.as_bytes()));
        scratch.features().0.to_vec()
    }

    #[test]
    fn good_words_move_one_group_within_its_bounds() {
        let good = "thanks for the patch, I will look at the kernel log and reply to the list\n";
        let before = raw_logit(SPAM);
        for times in [1, 10, 100, 1_000] {
            let padded = format!("{SPAM}{}", good.repeat(times));
            assert!((before - raw_logit(&padded)).abs() <= 2.0 * GROUP_BOUND, "{times} times");
        }
        // What is beyond the parts that are read changes nothing at all.
        let (long, longer) = (good.repeat(400), good.repeat(800));
        let logits = [long, longer].map(|pad| raw_logit(&format!("{SPAM}{pad}")));
        assert!((logits[0] - logits[1]).abs() < 1.0, "{logits:?}");
    }

    /// Some 70 words of spam, and twice as many of good mail.
    const PITCH: &str = "Dear customer, our online pharmacy offers the cheapest viagra, cialis and levitra \
        on the internet. No prescription needed, discreet packaging, worldwide shipping and a full money \
        back guarantee. Save up to 80% on all pills if you order today, our doctors approve every order. \
        Click here now to visit our licensed store and get four free bonus pills with each purchase. \
        This special offer is limited, so do not wait, buy your meds now and enjoy a better sex life.\n";
    const CHAT: &str = "Hi all, thanks for the review. I looked at the patch again last night and I think the \
        lock should be taken before the list is walked, otherwise two threads could free the same entry. \
        With the fix below the test passes here on both machines, and the kernel log shows no warnings.\n\
        > Did you try to build it without the debug option?\n\
        Yes, but the compiler then complains about an unused variable in the driver, so I moved it into \
        the function that needs it. I also split the change into three commits as you asked, the first \
        only renames the helper, the second adds the missing check, and the last one updates the \
        documentation.\n> What happens when the device is removed while it is suspended?\n\
        Good question, I have not seen that yet. Could somebody with the older board run the script \
        and send me the output? I will be away until Tuesday and will post a new version after that, \
        together with the results of the benchmark that we talked about on the call.\n\nRegards, Ann\n";

    #[test]
    fn a_good_message_beside_the_words_of_a_spam_does_not_drown_them() {
        let mail = |body: &str| {
            let header = "From: a@example.org\nSubject: hello\n\n";
            raw_logit(&format!("{header}{body}"))
        };
        let (alone, good) = (mail(PITCH), mail(CHAT));
        assert!(alone > good + 2.0, "{alone} and {good}");
        for padded in [
            format!("{PITCH}\n{CHAT}"),
            format!("{CHAT}\n{PITCH}"),
            format!("{CHAT}\n{PITCH}\n{CHAT}"),
        ] {
            // A unit for the blocks, and what the block at the edge is mixed.
            assert!(mail(&padded) > alone - 1.5, "{alone} fell to {}", mail(&padded));
        }
    }

    #[test]
    fn a_megabyte_of_noise_is_read_in_part() {
        let mut random = crate::random::Random::new(1);
        let mut noise = String::new();
        while noise.len() < 1 << 20 {
            noise.push(char::from(b'a' + random.below(26) as u8));
            if random.below(6) == 0 {
                noise.push(' ');
            }
        }
        let moved = raw_logit(&format!("{SPAM}{noise}")) - raw_logit(SPAM);
        assert!(moved.abs() <= 2.0 * GROUP_BOUND, "{moved}");
    }

    #[test]
    fn disguised_words_are_read_as_they_look() {
        let plain = features("viagra");
        for disguised in ["vi\u{200B}agra", "v\u{AD}iagra", "vi\u{430}gra"] {
            let found = features(disguised);
            assert!(plain.iter().all(|f| found.contains(f)), "{disguised:?}");
            assert!(found.len() > plain.len(), "and the disguise is a feature itself");
        }
    }

    #[test]
    fn hidden_text_of_a_page_is_not_read_as_text() {
        let page = |hidden: &str| {
            format!(
                "From: a@example.org\nContent-Type: text/html\n\n<p>Buy pills</p>\
                 <div style=\"display:none\">{hidden}</div>\n"
            )
        };
        let good = "thanks for the patch reply to the list";
        let moved = raw_logit(&page(good)) - raw_logit(&page("thanks"));
        assert!(moved.abs() < 1.0, "{moved}");
    }

    #[test]
    fn addresses_and_list_footers_are_left_out() {
        let footer = format!("{FOOTER}\nusers mailing list\nusers@lists.example.org\n");
        assert_eq!(features("hello there"), features(&format!("hello there\n{footer}")));
        let body = "buy cheap pills here now ".repeat(40);
        assert_eq!(features(&format!("{FOOTER}\n{body}")), features(&body), "too long for one");
        // Who it is to does not matter; only that there is an address, and its last labels, do.
        assert_eq!(features("hello ann@example.net"), features("hello bob@example.net"));
    }
}
