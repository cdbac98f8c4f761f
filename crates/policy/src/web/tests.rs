use gauntlet_mail::CanonicalUrl;
use gauntlet_mail::url::canonical;
use gauntlet_web::{Listed, RequestKind, WebAction, WebChange, WebItem, WebResponse};

use super::{WebExplanation, WebInput};
use crate::file::Policy;
use crate::groups::Groups;
use crate::web_rules::QuotaUse;

fn policy(text: &str) -> Policy {
    Policy::parse(text, &Groups::default()).unwrap()
}

fn url(text: &str) -> CanonicalUrl {
    canonical(text).unwrap()
}

fn item(url: &CanonicalUrl) -> WebItem<'_> {
    WebItem {
        at: 0,
        client: [10, 1, 2, 3].into(),
        user: None,
        method: "GET",
        kind: RequestKind::Plain,
        url,
        port: 80,
        listed: &[],
        user_agent: None,
        response: None,
    }
}

/// What is done with an item; that `decide` and `explain` agree is checked each time.
fn explain(policy: &Policy, item: &WebItem<'_>) -> WebExplanation {
    let input = WebInput { item, continued: &[], used: &[] };
    let explained = policy.explain_web(&input);
    assert_eq!(policy.decide_web(&input), explained.disposition);
    explained
}

fn action(policy: &Policy, item: &WebItem<'_>) -> &'static str {
    explain(policy, item).disposition.action.name()
}

#[test]
fn a_path_is_let_through_only_if_every_server_reads_it_so() {
    let text = "\
        [[web_rule]]\nname = \"open\"\nwhen.url.path = \"/open/*\"\ndo = \"allow\"\n\
        [[web_rule]]\nname = \"else\"\nwhen.not.url.path = \"/free/*\"\n\
        do = { block = \"No.\" }\n";
    let policy = policy(text);
    for (path, name) in [
        ("/open/x", "allow"),
        ("/open/;s=1/x", "allow"),
        ("/open/..;/secret", "block"),
        ("/free/..;/secret", "block"),
        ("/free/x;y", "allow"),
    ] {
        let url = url(&format!("http://a.example{path}"));
        assert_eq!(action(&policy, &item(&url)), name, "{path}");
    }
}

#[test]
fn paths_are_asked_for_as_servers_read_them() {
    let policy = policy(
        "[[web_rule]]\nname = \"secret\"\nwhen.url.path = \"/secret/*\"\ndo = { block = \"No.\" }\n",
    );
    for (path, name) in [
        ("/secret/x", "block"),
        ("//secret/x", "block"),
        ("/a/..%2fsecret//x", "block"),
        ("/secret/..%2fx", "allow"),
        ("/;x/secret/x", "block"),
        ("/a/..;/secret/x", "block"),
        ("/secret;a=b/x", "block"),
        ("/a?/;x/secret/x", "allow"),
    ] {
        let url = url(&format!("http://a.example{path}"));
        assert_eq!(action(&policy, &item(&url)), name, "{path}");
    }
}

#[test]
fn the_first_rule_that_decides_counts() {
    let policy = policy(
        "[[web_rule]]\nname = \"ours\"\nwhen.url.host = [\"example.org\", \"*.example.org\"]\n\
         do = \"allow\"\n\
         [[web_rule]]\nname = \"slow\"\nwhen.url.host = \"*.example\"\ndo = { limit_rate = \"64 KB\" }\n\
         [[web_rule]]\nname = \"rest\"\ndo = { block = \"Only our own pages.\" }\n",
    );
    assert_eq!(action(&policy, &item(&url("http://www.example.org/"))), "allow");
    let url = url("http://a.example/");
    let got = explain(&policy, &item(&url)).disposition;
    assert_eq!(got.action, WebAction::Block { text: "Only our own pages.".into() });
    assert_eq!(got.changes, [WebChange::LimitRate { bytes_per_second: 65_536 }]);
    assert_eq!(
        (got.rules, got.decided_by),
        (vec!["slow".into(), "rest".into()], Some("rest".into()))
    );
}

#[test]
fn every_condition_has_its_field() {
    let listed = [Listed { list: "ut1", category: "games", pattern: "domain a.example".into() }];
    let url = url("http://a.example/play?x=1");
    let mut item = item(&url);
    (item.listed, item.user, item.user_agent) = (&listed, Some("ann"), Some("curl/8"));
    let groups = "[[group]]\nname = \"lab\"\nmembers = [\"10.1.0.0/16\"]\n\
                  [[group]]\nname = \"staff\"\nmembers = [\"ann\"]\n";
    let holds = |when: &str| {
        let rule = format!(
            "{groups}[[web_rule]]\nname = \"r\"\nwhen = {{ {when} }}\ndo = {{ block = \"x\" }}"
        );
        action(&policy(&rule), &item) == "block"
    };
    for yes in [
        "url.host = \"a.example\"",
        "url.path = \"/play*\"",
        "url.port = 80",
        "url.category = [\"games\", \"adult\"]",
        "url.list = \"ut*\"",
        "method = \"GET\"",
        "tunnel = false",
        "client.network = \"10.1.0.0/16\"",
        "client.user = \"ann\"",
        "client.group = \"lab\"",
        "client.group = \"staff\"",
        "client.program = \"curl/*\"",
        "time = { from = \"00:00\", to = \"24:00\", days = [\"thu\"] }",
        "not = { url.host = \"b.example\" }",
        "any = [{ method = \"POST\" }, { method = \"GET\" }]",
        "all = [{ method = \"GET\" }, { url.port = [80, 81] }]",
    ] {
        assert!(holds(yes), "{yes}");
    }
    for no in [
        "url.host = \"*.a.example\"",
        "url.port = 443",
        "url.category = \"adult\"",
        "url.list = \"other\"",
        "method = \"POST\"",
        "tunnel = true",
        "client.network = \"10.2.0.0/16\"",
        "client.user = \"bob\"",
        "time = { from = \"08:00\", to = \"18:00\" }",
        "not = { url.host = \"a.example\" }",
        "any = [{ method = \"POST\" }, { method = \"PUT\" }]",
    ] {
        assert!(!holds(no), "{no}");
    }
}

#[test]
fn rules_about_content_wait_for_the_response() {
    let policy = policy(
        "[[web_rule]]\nname = \"video\"\nwhen.content.type = \"video/*\"\ndo = { block = \"v\" }\n\
         [[web_rule]]\nname = \"large\"\nwhen.content.size_min = \"1 MB\"\nwhen.content.status = 200\n\
         do = { limit_rate = 65536 }\n",
    );
    let url = url("http://a.example/");
    let mut item = item(&url);
    let before = explain(&policy, &item);
    assert!(before.disposition.asks_response && before.disposition.action == WebAction::Allow);
    assert_eq!(before.trace[0].because, "is tried with the response");
    let answer = |kind, bytes| WebResponse { status: 200, content_type: Some(kind), bytes };
    item.response = Some(answer("video/mp4", None));
    assert_eq!(action(&policy, &item), "block");
    item.response = Some(answer("text/html", Some(1 << 20)));
    assert_eq!(explain(&policy, &item).disposition.rules, ["large"]);
}

#[test]
fn who_answered_a_warning_goes_on() {
    let policy = policy(
        "[[web_rule]]\nname = \"w\"\ndo = { warn = { text = \"Is it for work?\", minutes = 5 } }\n\
         [[web_rule]]\nname = \"b\"\ndo = { block = \"x\" }\n",
    );
    let url = url("http://a.example/");
    let item = item(&url);
    assert_eq!(action(&policy, &item), "warn");
    let continued = ["w".to_owned()];
    let input = WebInput { item: &item, continued: &continued, used: &[] };
    assert_eq!(policy.decide_web(&input).action, WebAction::Allow);
}

#[test]
fn mistakes_are_named_by_line() {
    let problem = |rest: &str| {
        let text = format!("\n[[web_rule]]\nname = \"r\"\n{rest}\n");
        Policy::parse(&text, &Groups::default()).unwrap_err().to_string()
    };
    for (rest, why) in [
        ("when.url.hots = \"x\"\ndo = \"allow\"", "did you mean `host`?"),
        ("do = [\"allow\", { block = \"x\" }]", "line 2: rule \"r\": both allow and block"),
        ("do = { block = \"\" }", "needs a text"),
        ("do = { redirect = \"ftp://x\" }", "no http:// or https://"),
        ("do = { warn = { text = \"x\", minutes = 0 } }", "minutes are 1 to 1440"),
        ("do = { limit_rate = 1 }", "1024 bytes a second at least"),
        ("do = { strip = \"a b\" }", "no header field name"),
        ("when.client.group = \"lab\"\ndo = \"allow\"", "no group \"lab\""),
        ("when.client.network = \"lab\"\ndo = \"allow\"", "no network"),
        ("when.any = []\ndo = \"allow\"", "empty list"),
        ("when.content.type = \"x\"\ndo = \"bypass_tls\"", "before the response"),
    ] {
        assert!(problem(rest).contains(why), "{rest}: {}", problem(rest));
    }
    let twice = "[[web_rule]]\nname = \"r\"\ndo = \"allow\"\n".repeat(2);
    assert!(Policy::parse(&twice, &Groups::default()).unwrap_err().to_string().contains("taken"));
    let other =
        "[[web_rule]]\nname = \"a\"\ndo = \"allow\"\n[[web_rule]]\nname = \"b\"\ndo = \"log\"\n";
    assert_eq!(policy(other).warnings[0].message, "never tried: \"a\" (line 1) stops before it");
}

const SOCIAL: &str = "[[web_quota]]\nname = \"Social\"\nwhen = { url.category = \"social\" }\n\
                      minutes = 60\nbytes = \"500 MB\"\n\
                      [[web_rule]]\nname = \"r\"\nwhen.quota = \"Social\"\n\
                      do = { block = \"Enough.\" }\n";

#[test]
fn a_quota_that_is_used_up_is_a_condition_of_the_requests_that_count() {
    let policy = policy(SOCIAL);
    let url = url("http://a.example/");
    let social = [Listed { list: "ut1", category: "social", pattern: "domain a.example".into() }];
    let mut item = item(&url);
    let act = |item: &WebItem<'_>, minutes: u32| {
        let used = [("Social".to_owned(), QuotaUse { minutes, bytes: 1 << 20 })];
        let input = WebInput { item, continued: &[], used: &used };
        let explained = policy.explain_web(&input);
        assert_eq!(policy.decide_web(&input), explained.disposition);
        let used_up = policy.used_up("r", &input).len();
        let because = explained.trace[0].because.clone();
        (explained.disposition.action.name(), used_up, because)
    };
    let (action, used_up, because) = act(&item, 60);
    assert_eq!((action, used_up), ("allow", 0), "{because}");
    assert_eq!(because, "the request does not count for the quota");
    item.listed = &social;
    assert_eq!(policy.quotas_of(&item).len(), 1);
    let before = act(&item, 59);
    assert_eq!((before.0, before.1), ("allow", 0));
    assert_eq!(before.2, "quota Social: 59 of 60 minutes and 1 MB of 500 MB this day");
    let after = act(&item, 60);
    assert_eq!((after.0, after.1), ("block", 1));
}

#[test]
fn mistakes_of_quotas_are_named() {
    let problem = |text: &str| Policy::parse(text, &Groups::default()).unwrap_err().to_string();
    for (what, instead, why) in [
        ("when.quota = \"Social\"", "when.quota = \"Sociel\"", "did you mean \"Social\"?"),
        (
            "when.quota = \"Social\"",
            "when.quota = \"Other things\"",
            "define it with [[web_quota]]",
        ),
        ("minutes = 60\nbytes = \"500 MB\"", "", "it limits nothing"),
        ("minutes = 60", "minutes = 0", "minutes are 1 to 1440 (period: day)"),
        ("minutes = 60", "minutes = 61\nperiod = \"hour\"", "minutes are 1 to 60 (period: hour)"),
        ("\"500 MB\"", "0", "lets nothing pass"),
        ("url.category = \"social\"", "quota = \"Social\"", "cannot ask for a quota"),
        ("url.category = \"social\"", "content.type = \"video/*\"", "before their response"),
        ("minutes = 60", "minutes = 60\nutc_offset_minutes = 900", "-720 to 840"),
        ("minutes = 60", "minutes = 60\nhours = 1", "unknown field `hours`"),
    ] {
        let text = SOCIAL.replace(what, instead);
        assert!(problem(&text).contains(why), "{instead}: {}", problem(&text));
    }
    let twice = format!("{SOCIAL}[[web_quota]]\nname = \"Social\"\nminutes = 1\n");
    assert!(problem(&twice).contains("two quotas have this name"));
    let unasked = policy("[[web_quota]]\nname = \"Q\"\nminutes = 1\n");
    assert!(unasked.warnings[0].message.contains("no web rule asks for it"));
}
