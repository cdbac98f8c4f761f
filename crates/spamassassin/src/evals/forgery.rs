//! Forged senders of large mailbox providers, whose servers write Received fields of known form.

use super::args::Args;
use super::context::EvalContext;
use super::memo::Hotmail;
use super::net::ADDRESS;
use super::text::{collapse_space, is_word, look, re};
use crate::views::{find, find_no_case};

/// `gated_through_received_hdr_remover()`: a list manager or gateway that removes Received fields,
/// or no Received field at all: then forgery cannot be detected.
pub(super) fn received_removed(cx: &EvalContext<'_>, _: &Args) -> bool {
    *cx.memo.received_removed.get_or_init(|| {
        let list = cx.text("Mailing-List");
        if !list.is_empty() && re!(r"(?m)^contact \S+@\S+; run by ezmlm$").is_match(&list) {
            let delivered = re!(r"(?m)^mailing list \S+@\S+").is_match(&cx.text("Delivered-To"));
            let qmail = re!(r"qmail \d+ invoked (?:from network|by .{3,20})\); \d+ ... \d+");
            if delivered && qmail.is_match(&cx.text("Received")) {
                return true;
            }
        }
        let received = cx.text("Received");
        received.is_empty() || re!(r"from groups\.msn\.com \(\S+\.msn\.com ").is_match(&received)
    })
}

/// Whether an address ends with this domain, case-insensitively, at a word boundary.
fn is_at(address: &[u8], domain: &[u8]) -> bool {
    let address = address.strip_suffix(b"\n").unwrap_or(address);
    let Some((head, tail)) = address.len().checked_sub(domain.len()).map(|at| address.split_at(at))
    else {
        return false;
    };
    tail.eq_ignore_ascii_case(domain) && !head.last().is_some_and(|b| is_word(*b))
}

/// `check_for_forged_hotmail_received_headers()`.
pub(super) fn hotmail_forged(cx: &EvalContext<'_>, _: &Args) -> bool {
    hotmail(cx) == Hotmail::Forged
}

/// `check_for_no_hotmail_received_headers()`.
pub(super) fn hotmail_absent(cx: &EvalContext<'_>, _: &Args) -> bool {
    hotmail(cx) == Hotmail::Absent
}

fn hotmail(cx: &EvalContext<'_>) -> Hotmail {
    *cx.memo.hotmail.get_or_init(|| {
        let received = cx.text("Received");
        let claims_sender = is_at(&cx.text("From:addr"), b"hotmail.com");
        if !claims_sender && find(&received, b"hotmail.com").is_none() {
            return Hotmail::Fine;
        }
        let received = collapse_space(&received);
        let claims_relay = re!(r"(?:from |HELO |helo=)\S*hotmail\.com\b").is_match(&received);
        // The rest is expensive and irrelevant if neither is claimed.
        if !claims_relay && !claims_sender || hotmail_is_fine(cx, &received) {
            return Hotmail::Fine;
        }
        if claims_relay { Hotmail::Forged } else { Hotmail::Absent }
    })
}

fn hotmail_is_fine(cx: &EvalContext<'_>, received: &[u8]) -> bool {
    let pickup = re!(r"from mail pickup service by hotmail\.com with Microsoft SMTPSVC;");
    if pickup.is_match(received) || msn_groups(cx, Args::NONE) || received_removed(cx, Args::NONE) {
        return true;
    }
    let client = cx.text("X-Originating-Ip");
    let has_client = look!(ADDRESS.as_str()).is_match(&client);
    let organisation = cx.text("X-OriginatorOrg");
    let has_organisation = re!(r"hotmail\.com|msonline-outlook").is_match(&organisation);
    let by_client = [
        re!(r"from (?:\S*\.)?hotmail.com \(\S+\.hotmail(?:\.msn)?\.com[ )]"),
        re!(r"from \S+ by \S+\.hotmail(?:\.msn)?\.com with HTTP;"),
        re!(r"from \[66.218.\S+\] by \S+\.yahoo\.com"),
    ];
    if has_client && by_client.iter().any(|p| p.is_match(received)) {
        return true;
    }
    let direct = look!(format!(r"from \S*\.hotmail.com \(\[{}\][ \):]", *ADDRESS));
    if has_client && direct.is_match(received) {
        return true;
    }
    let outbound = re!(
        r"from \S*\.outbound\.protection\.outlook\.com \(\S+\.outbound\.protection\.outlook\.com[ )]"
    );
    let inner = look!(format!(r"from \S*\.(?:eur|nam)prd\d+\.prod\.outlook\.com \({}\)", *ADDRESS));
    has_organisation && (outbound.is_match(received) || inner.is_match(received))
}

/// `check_for_msn_groups_headers()`: mail of an MSN group.
pub(super) fn msn_groups(cx: &EvalContext<'_>, _: &Args) -> bool {
    let to = cx.text("To");
    let Some(found) = re!(r"(?i)<(\S+)@groups\.msn\.com>").captures(&to) else { return false };
    let received = cx.text("Received");
    let pickup = re!(r"from mail pickup service by (p\d\d\.groups\.msn\.com)\b");
    let Some(server) = pickup.captures(&received) else { return false };
    let id = cx.text("Message-Id");
    let Some(id) = id.strip_prefix(b"<") else { return false };
    let name = &found[1];
    let at_host = |id: &[u8], host: &[u8]| {
        let end = [b"@", host, b">"].concat();
        memchr::memmem::find(id, &end)
            .is_some_and(|at| at > 0 && !id[..at].iter().any(u8::is_ascii_whitespace))
    };
    if name == b"notifications" {
        return at_host(id, &server[1]);
    }
    let by_name = id.strip_prefix(name).and_then(|rest| rest.strip_prefix(b"-"));
    let bounce = [name, b"-bounce@groups.msn.com"].concat();
    by_name.is_some_and(|rest| at_host(rest, b"groups.msn.com"))
        && memchr::memmem::find(&cx.text("EnvelopeFrom:addr"), &bounce).is_some()
}

/// `check_for_forged_eudoramail_received_headers()`.
pub(super) fn eudoramail(cx: &EvalContext<'_>, args: &Args) -> bool {
    if !is_at(&cx.text("From:addr"), b"eudoramail.com") || received_removed(cx, args) {
        return false;
    }
    let received = collapse_space(&cx.text("Received"));
    let has_client = look!(ADDRESS.as_str()).is_match(&cx.text("X-Sender-Ip"));
    !(has_client && re!(r"by \S*whowhere.com;").is_match(&received))
}

/// `check_for_forged_yahoo_received_headers()`.
pub(super) fn yahoo(cx: &EvalContext<'_>, args: &Args) -> bool {
    let from = cx.text("From:addr");
    if !is_at(&from, b"yahoo.com") {
        return false;
    }
    let mut received = cx.text("Received");
    if !cx.text("Resent-From").is_empty() && !cx.text("Resent-To").is_empty() {
        let resent = cx.text("X-Received");
        if !resent.is_empty() {
            received = resent;
        }
    }
    let received = collapse_space(&received);
    if received_removed(cx, args) {
        return false;
    }
    let trusted = re!(r" rdns=\S+\.yahoo\.com ").is_match(&cx.text("X-Spam-Relays-Trusted"));
    let newest = re!(r"\A[^\]]+ rdns=\S+\.yahoo\.com ");
    if trusted || newest.is_match(&cx.text("X-Spam-Relays-Untrusted")) {
        return false;
    }
    let known = [
        re!(r"by web\S+\.mail\S*\.yahoo\.com via HTTP"),
        re!(r"by sonic\S+\.consmr\.mail\S*\.yahoo\.com with HTTP"),
        re!(r"by smtp\S+\.yahoo\.com with SMTP"),
        re!(r"by \w+\.\w+\.yahoo\.com \(\d+\.\d+\.\d+/\d+\.\d+\.\d+\)(?: with ESMTP)? id \w+"),
    ];
    if known.iter().any(|p| p.is_match(&received)) {
        return false;
    }
    let groups =
        look!(format!(r"from \[{}\] by \S+\.(?:groups|scd|dcn)\.yahoo\.com with NNFMP", *ADDRESS));
    let news = re!(r"\bmailer\d+\.bulk\.scd\.yahoo\.com\b").is_match(&received)
        && re!(r"(?i)@reply\.yahoo\.com\n?\z").is_match(&from);
    !news && !groups.is_match(&received)
}

/// `check_for_forged_juno_received_headers()`.
pub(super) fn juno(cx: &EvalContext<'_>, args: &Args) -> bool {
    if !is_at(&cx.text("From:addr"), b"juno.com") || received_removed(cx, args) {
        return false;
    }
    let (client, mailer) = (cx.text("X-Originating-IP"), cx.text("X-Mailer"));
    let received = cx.text("Received");
    // The old form has X-Originating-IP; without it there is no address that it could name.
    if client.is_empty() {
        return true;
    }
    let relay = look!(format!(r"from.*\b(?:juno|untd)\.com.*[\[\(]{}[\]\)].*by", *ADDRESS));
    let cookie = re!(r" cookie\.(?:juno|untd)\.com ");
    !(relay.is_match(&received) || cookie.is_match(&received))
        || memchr::memmem::find(&mailer, b"Juno ").is_none()
}

/// `check_for_forged_gmail_received_headers()`.
pub(super) fn gmail(cx: &EvalContext<'_>, _: &Args) -> bool {
    /// Shortest state that Google writes into the field, in bytes.
    const STATE_BYTES_MIN: usize = 60;
    if !is_at(&cx.text("From:addr"), b"gmail.com") {
        return false;
    }
    let web = re!(r"by 10\.\S+ with SMTP id \S+|by 2002:a\d\d:\w+:\S+ with SMTP id \S+");
    let smtp = re!(r"by smtp\.googlemail\.com with ESMTPSA id \S+");
    let has_state = cx.text("X-Gm-Message-State").len() >= STATE_BYTES_MIN
        && cx.text("X-Google-Smtp-Source").len() >= STATE_BYTES_MIN;
    !(has_state || web.is_match(&cx.text("X-Received")) || smtp.is_match(&cx.text("Received")))
}

/// `check_for_fake_aol_relay_in_rcvd()`: a relay with a name of AOL's, without the marks of AOL's
/// servers.
pub(super) fn aol_relay(cx: &EvalContext<'_>, _: &Args) -> bool {
    let received = cx.text("Received");
    if find_no_case(&received, b"rly-").is_none() {
        return false;
    }
    let received = collapse_space(&received);
    re!(r"(?i) rly-[a-z][a-z]\d\d\.").is_match(&received)
        && !re!(r"/AOL-\d+\.\d+\.\d+\)").is_match(&received)
        && !re!(r"ESMTP id (?:RELAY|MAILRELAY|MAILIN)").is_match(&received)
}

/// `check_for_forged_gw05_received_headers()`: the only Received field of one bulk mailer.
pub(super) fn gw05(cx: &EvalContext<'_>, _: &Args) -> bool {
    let shape = re!(
        r"\nfrom\s(\S+)\sby\s(\S+)\swith\sESMTP;\s+\S\S\S,\s+\d+\s+\S\S\S\s+\d{4}\s+\d\d:\d\d:\d\d\s+[-+]*\d{4}\n\z"
    );
    shape.captures(&cx.text("Received")).is_some_and(|c| !c[2].contains(&b'.'))
}

/// `check_messageid_not_usable()`: the message came through software that rewrites Message-IDs.
pub(super) fn message_id_rewritten(cx: &EvalContext<'_>, args: &Args) -> bool {
    let list = re!(r"(?i)<mailto:(?:leave-\S+|\S+-unsubscribe)@\S+>\n?\z");
    list.is_match(&cx.text("List-Unsubscribe"))
        || received_removed(cx, args)
        || re!(r"/CWT/DCE\)|iPlanet Messaging Server").is_match(&cx.text("Received"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn domains_end_addresses_as_the_expression_says() {
        let expression = re!(r"(?i)\bgmail\.com\n?\z");
        for address in [
            "a@gmail.com",
            "a@GMail.com\n",
            "a@xgmail.com",
            "gmail.com",
            "a@gmail.com\n\n",
            "",
            "m",
        ] {
            let address = address.as_bytes();
            assert_eq!(is_at(address, b"gmail.com"), expression.is_match(address), "{address:?}");
        }
    }
}
