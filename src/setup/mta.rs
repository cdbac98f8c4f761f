//! What a mail server that stays the MX is told: lines for Postfix and Exim. Nothing is run here.

use super::answers::Service;
use super::given::{Keeper, Mta};

/// A setting of main.cf.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub(super) struct Parameter {
    pub(super) name: String,
    pub(super) value: String,
}

/// How Postfix names our service.
pub(super) fn milter(service: &Service) -> String {
    match service.address.starts_with("unix:") {
        true => service.address.clone(),
        false => format!("inet:{}", service.address),
    }
}

/// Lists of milters in main.cf, which may have others.
pub(super) const MILTER_LISTS: [&str; 2] = ["smtpd_milters", "non_smtpd_milters"];

/// What main.cf needs, if its lists of milters are these now.
pub(super) fn parameters(service: &Service, lists: [&str; 2]) -> Vec<Parameter> {
    let ours = milter(service);
    let set = |name: &str, value: String| Parameter { name: name.to_owned(), value };
    let mut all: Vec<Parameter> = MILTER_LISTS
        .into_iter()
        .zip(lists)
        .map(|(name, list)| set(name, with_milter(list, &ours)))
        .collect();
    all.extend([
        set("milter_protocol", "6".to_owned()),
        set("milter_default_action", "tempfail".to_owned()),
        set("milter_content_timeout", "60s".to_owned()),
        // What follows a NUL in a header field Postfix hides from filters.
        set("message_reject_characters", "\\0".to_owned()),
    ]);
    all
}

/// A list of milters with ours at its end.
fn with_milter(list: &str, ours: &str) -> String {
    let list = list.trim();
    let has = list
        .split([',', ' ', '\t', '\n', '{', '}'])
        .any(|milter| milter == ours || matches!(milter, "$smtpd_milters" | "${smtpd_milters}"));
    match list {
        "" => ours.to_owned(),
        list if has => list.to_owned(),
        list => format!("{list}, {ours}"),
    }
}

/// Options of the service of master.cf that takes released mail: it asks no milter again.
pub(super) const RELEASE_OPTIONS: [(&str, &str); 4] = [
    ("smtpd_milters", ""),
    ("mynetworks", "127.0.0.0/8"),
    ("smtpd_client_restrictions", "permit_mynetworks,reject"),
    ("smtpd_recipient_restrictions", "permit_mynetworks,reject"),
];

/// The service of master.cf that takes released mail, as `postconf -M` writes it, if one is wanted.
pub(super) fn release_service(service: &Service) -> Option<String> {
    let wanted = service.mta == Mta::Postfix && service.held_by == Keeper::Node;
    wanted.then(|| format!("{} inet n - n - - smtpd", service.release_to))
}

/// Lines for a person to copy: the file, and its text.
pub(super) fn lines(service: &Service, lists: [&str; 2]) -> Vec<(String, String)> {
    if service.mta == Mta::Exim {
        return vec![("Exim's configuration".to_owned(), exim(service))];
    }
    let parameters = parameters(service, lists);
    let main = parameters.iter().map(|p| format!("{} = {}\n", p.name, p.value)).collect();
    let mut all = vec![("main.cf".to_owned(), main)];
    if let Some(line) = release_service(service) {
        let options = RELEASE_OPTIONS.iter().map(|(name, value)| format!("  -o {name}={value}\n"));
        all.push(("master.cf".to_owned(), format!("{line}\n{}", options.collect::<String>())));
    }
    all
}

fn exim(service: &Service) -> String {
    let place = match service.address.strip_prefix("unix:") {
        Some(path) => path.to_owned(),
        None => {
            let (host, port) = service.address.rsplit_once(':').unwrap_or(("127.0.0.1", "783"));
            format!("{} {port}", host.trim_start_matches('[').trim_end_matches(']'))
        }
    };
    format!(
        "# main part\n\
         spamd_address = {place}\n\
         acl_smtp_data = check_data\n\
         \n\
         # behind `begin acl`\n\
         check_data:\n\
         \x20 deny  message = This message looks like spam ($spam_score points)\n\
         \x20       spam = nobody\n\
         \x20 warn  add_header = X-Spam-Score: $spam_score\n\
         \x20 accept\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::setup::answers::tests::answers;

    fn service(flags: &str) -> Service {
        answers(&format!("milter {flags}")).unwrap().service.unwrap()
    }

    #[test]
    fn other_milters_stay_and_ours_is_added_once() {
        let ours = "inet:127.0.0.1:8891";
        for (before, after) in [
            ("", "inet:127.0.0.1:8891"),
            ("inet:localhost:12301", "inet:localhost:12301, inet:127.0.0.1:8891"),
            ("unix:a inet:127.0.0.1:8891", "unix:a inet:127.0.0.1:8891"),
            (
                "{ inet:127.0.0.1:8891, connect_timeout=1s }",
                "{ inet:127.0.0.1:8891, connect_timeout=1s }",
            ),
            ("$smtpd_milters", "$smtpd_milters"),
            ("inet:127.0.0.1:88911", "inet:127.0.0.1:88911, inet:127.0.0.1:8891"),
        ] {
            assert_eq!(with_milter(before, ours), after);
        }
    }

    #[test]
    fn lines_for_postfix() {
        let service = service("--held-by node");
        let all = lines(&service, ["", "unix:dkim"]);
        assert_eq!(
            all[0].1,
            "smtpd_milters = inet:127.0.0.1:8891\n\
             non_smtpd_milters = unix:dkim, inet:127.0.0.1:8891\n\
             milter_protocol = 6\nmilter_default_action = tempfail\n\
             milter_content_timeout = 60s\nmessage_reject_characters = \\0\n"
        );
        assert_eq!(
            all[1].1,
            "127.0.0.1:10026 inet n - n - - smtpd\n  -o smtpd_milters=\n\
             \x20 -o mynetworks=127.0.0.0/8\n\
             \x20 -o smtpd_client_restrictions=permit_mynetworks,reject\n\
             \x20 -o smtpd_recipient_restrictions=permit_mynetworks,reject\n"
        );
        assert_eq!(
            milter(&super::tests::service("--service unix:/run/g.sock")),
            "unix:/run/g.sock"
        );
    }

    #[test]
    fn lines_for_exim() {
        let text = &lines(&service("--mta exim --service [::1]:783"), ["", ""])[0].1;
        assert!(text.contains("spamd_address = ::1 783\n"), "{text}");
        let text = &lines(&service("--mta exim --service unix:/run/g.sock"), ["", ""])[0].1;
        assert!(text.contains("spamd_address = /run/g.sock\nacl_smtp_data = check_data\n"));
    }
}
