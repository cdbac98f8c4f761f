//! What a client gets instead of what it asked for: a page or a text that says what happened, why,
//! and what to do; never what the network behind the proxy looks like.

use std::net::IpAddr;

use hyper::header::{
    ACCEPT, ALLOW, CACHE_CONTROL, CONTENT_TYPE, HeaderValue, PROXY_AUTHENTICATE, RETRY_AFTER,
};
use hyper::{HeaderMap, Response, StatusCode};
use maud::{DOCTYPE, Markup, html};

use crate::body::{AnyBody, full};
use crate::reason::minutes;
use crate::refusal::Refusal;
use crate::releases::{self, ReleaseForm, Taken};

/// What the page says beside the refusal.
#[derive(Debug)]
pub(crate) struct About<'a> {
    /// What was asked for.
    pub(crate) url: &'a str,
    /// Who asked.
    pub(crate) client: IpAddr,
    /// What decided, such as the entry of a list; empty if the rule says it all.
    pub(crate) evidence: &'a str,
    /// The log has it, too.
    pub(crate) reference: &'a str,
    /// The proxy.
    pub(crate) proxy: &'a str,
    /// The form by which the person may ask for release.
    pub(crate) release: Option<ReleaseForm>,
}

/// Characters of a URL on a page.
const URL_CHARS_MAX: usize = 300;

/// How a page is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    Html,
    Text,
}

impl Form {
    /// Browsers name `text/html`; other programs get text.
    pub(crate) fn wanted(headers: &HeaderMap) -> Form {
        let values = headers.get_all(ACCEPT).iter().filter_map(|v| v.to_str().ok());
        let mut types = values.flat_map(|v| v.split(',')).filter_map(|t| t.split(';').next());
        match types.any(|t| t.trim().eq_ignore_ascii_case("text/html")) {
            true => Form::Html,
            false => Form::Text,
        }
    }
}

/// The answer for a refusal.
pub(crate) fn response(refusal: &Refusal, about: &About<'_>, form: Form) -> Response<AnyBody> {
    let status = refusal.status();
    let (text, content_type) = match form {
        Form::Html => (page(refusal, about), "text/html; charset=utf-8"),
        Form::Text => (plain(refusal, about), "text/plain; charset=utf-8"),
    };
    let mut response = Response::new(full(text));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    let fixed = HeaderValue::from_static;
    set_headers(headers, content_type);
    let error = refusal.proxy_status();
    let proxy_status = format!("{}; error={error}; details=\"{}\"", about.proxy, refusal.name());
    headers.extend(
        HeaderValue::try_from(proxy_status)
            .ok()
            .map(|value| (hyper::header::HeaderName::from_static("proxy-status"), value)),
    );
    match refusal {
        Refusal::Login(challenges) | Refusal::LoginFailed(challenges) => {
            let values = challenges.0.iter().filter_map(|c| HeaderValue::try_from(c).ok());
            values.for_each(|value| {
                headers.append(PROXY_AUTHENTICATE, value);
            });
        }
        Refusal::LoginLimit(seconds) => {
            headers.insert(RETRY_AFTER, HeaderValue::from(*seconds));
        }
        _ => {}
    }
    match status {
        StatusCode::METHOD_NOT_ALLOWED => {
            headers.insert(ALLOW, fixed("GET, HEAD, POST, PUT, DELETE, PATCH, OPTIONS, CONNECT"));
        }
        StatusCode::SERVICE_UNAVAILABLE => {
            headers.insert(RETRY_AFTER, fixed("10"));
        }
        _ => {}
    }
    response
}

fn title(refusal: &Refusal) -> &'static str {
    match refusal {
        Refusal::Blocked(_) => "This page is blocked",
        Refusal::Warned(..) => "Do you need this page for your work?",
        Refusal::Login(_) | Refusal::LoginFailed(_) => "This proxy asks who you are",
        Refusal::Port(_) | Refusal::Destination(_) | Refusal::NameMismatch => {
            "This address may not be reached"
        }
        _ if refusal.status().is_client_error() => "The request was not passed on",
        _ => "The page could not be fetched",
    }
}

fn rows<'a>(refusal: &'a Refusal, about: &'a About<'_>) -> Vec<(&'static str, String)> {
    let url: String = about.url.chars().take(URL_CHARS_MAX).collect();
    let mut rows = vec![("Address", url)];
    rows.extend(refusal.rule().map(|rule| ("Rule", rule.to_owned())));
    if !about.evidence.is_empty() {
        rows.push(("Found on", about.evidence.to_owned()));
    }
    rows.push(("Your address", about.client.to_string()));
    rows.push(("Reference", about.reference.to_owned()));
    rows.push(("Proxy", about.proxy.to_owned()));
    rows
}

fn plain(refusal: &Refusal, about: &About<'_>) -> String {
    let mut text = format!("{}\n\n{refusal}\n{}\n\n", title(refusal), refusal.remedy());
    for (name, value) in rows(refusal, about) {
        let value = value.replace(char::is_control, " ");
        text.push_str(&format!("{:14}{value}\n", format!("{name}:")));
    }
    text
}

const STYLE: &str = "body{font-family:sans-serif;max-width:40em;margin:3em auto;padding:0 1em;\
    line-height:1.5}h1{font-size:1.5em}dt{font-weight:bold}dd{margin:0 0 .5em;\
    overflow-wrap:anywhere}h2{font-size:1.1em}textarea,input[type=email]{width:100%;\
    box-sizing:border-box;font:inherit}";

fn page(refusal: &Refusal, about: &About<'_>) -> String {
    html! {
        (DOCTYPE)
        html lang="en" {
            (head(title(refusal)))
            body {
                h1 { (title(refusal)) }
                p { (refusal) }
                p {
                    @if about.release.is_some() { "If you need it for your work, ask for it below." }
                    @else { (refusal.remedy()) }
                }
                @if let Refusal::Warned(_, warning) = refusal {
                    form action=(warning.action) {
                        input type="hidden" name="token" value=(warning.token);
                        label { "Reason: " input name="reason" required maxlength="200" size="40"; }
                        " "
                        button { "Go on for " (minutes(warning.minutes)) }
                    }
                }
                dl {
                    @for (name, value) in rows(refusal, about) {
                        dt { (name) }
                        dd { (value) }
                    }
                }
                @if let Some(release) = &about.release { (release_form(release)) }
            }
        }
    }
    .into_string()
}

/// The form below a block. It goes to the site that was blocked, where the proxy takes it.
fn release_form(release: &ReleaseForm) -> Markup {
    html! {
        form method="post" action=(releases::path()) {
            h2 { "Ask for release" }
            @for (name, value) in &release.hidden { input type="hidden" name=(name) value=(value); }
            p { label { "Why do you need it?" br;
                textarea name="reason" required maxlength="500" rows="3" {} } }
            p { label { "Your e-mail address, for an answer (optional)" br;
                input type="email" name="mail" maxlength="254" autocomplete="email"; } }
            p { button { "Ask for release" } }
        }
    }
}

/// The answer to a form by which somebody asks for release.
pub(crate) fn taken(taken: &Taken, proxy: &str) -> Response<AnyBody> {
    let (status, title, text) = match taken {
        Taken::Passed { .. } => {
            let text = "The administrators of this proxy see it. Try the page again later.";
            (StatusCode::OK, "Your request was passed on", text)
        }
        Taken::OutOfDate => {
            let text = "Load the page that was blocked again, and ask from there.";
            (StatusCode::FORBIDDEN, "This form is out of date", text)
        }
        Taken::TooMany => {
            let text = "You have asked often in the last hour. Ask again later.";
            (StatusCode::TOO_MANY_REQUESTS, "Your request was not passed on", text)
        }
        Taken::Full => {
            let text = "Too many requests wait for an answer. Tell your administrator.";
            (StatusCode::SERVICE_UNAVAILABLE, "Your request was not passed on", text)
        }
        Taken::Wrong(text) => (StatusCode::BAD_REQUEST, "Your request was not passed on", *text),
    };
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            (head(title))
            body {
                h1 { (title) }
                p { (text) }
                dl {
                    @if let Taken::Passed { reference } = taken {
                        dt { "Reference" } dd { (reference) }
                    }
                    dt { "Proxy" } dd { (proxy) }
                }
            }
        }
    };
    let mut response = Response::new(full(page.into_string()));
    *response.status_mut() = status;
    set_headers(response.headers_mut(), "text/html; charset=utf-8");
    response
}

fn head(title: &str) -> Markup {
    html! {
        head {
            meta charset="utf-8";
            meta name="viewport" content="width=device-width";
            title { (title) }
            style { (STYLE) }
        }
    }
}

/// What every page of ours has in its header.
fn set_headers(headers: &mut HeaderMap, content_type: &'static str) {
    let fixed = HeaderValue::from_static;
    headers.insert(CONTENT_TYPE, fixed(content_type));
    headers.insert(CACHE_CONTROL, fixed("no-store"));
    headers.insert("x-content-type-options", fixed("nosniff"));
    let policy = "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors *";
    headers.insert("content-security-policy", fixed(policy));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::judge::BlockReason;

    fn about(url: &str) -> About<'_> {
        About {
            url,
            client: [192, 0, 2, 7].into(),
            evidence: "ads: host x",
            reference: "abc-1",
            proxy: "gauntlet",
            release: None,
        }
    }

    #[test]
    fn a_page_has_the_form_where_one_may_ask() {
        let refusal = Refusal::Blocked(BlockReason { rule: "r".into(), text: "No.".into() });
        assert!(!page(&refusal, &about("http://x/")).contains("Ask for release"));
        let hidden = ["user", "url", "rule", "reference", "expires", "token"];
        let release = Some(ReleaseForm { hidden: hidden.map(|name| (name, "\"<".into())) });
        let page = page(&refusal, &About { release, ..about("http://x/") });
        assert!(page.contains("action=\"/.well-known/gauntlet/release\""), "{page}");
        assert!(page.contains("value=\"&quot;&lt;\""), "{page}");
    }

    #[test]
    fn a_page_says_who_why_which_rule_and_what_to_do() {
        let rule = "ads: x.example".to_owned();
        let refusal = Refusal::Blocked(BlockReason { rule, text: "It is on a list.".to_owned() });
        for text in [page(&refusal, &about("http://x.example/")), plain(&refusal, &about("u"))] {
            for part in ["192.0.2.7", "It is on a list.", "ads: x.example", "ads: host x", "abc-1"]
            {
                assert!(text.contains(part), "{part}: {text}");
            }
        }
    }

    #[test]
    fn what_a_client_sent_is_text_on_the_page() {
        let page = page(&Refusal::Closed, &about("http://x/<script>\"&"));
        assert!(page.contains("http://x/&lt;script&gt;&quot;&amp;"), "{page}");
    }

    #[test]
    fn browsers_get_html_and_programs_text() {
        let mut headers = HeaderMap::new();
        assert_eq!(Form::wanted(&headers), Form::Text);
        headers.insert(ACCEPT, HeaderValue::from_static("*/*"));
        assert_eq!(Form::wanted(&headers), Form::Text);
        let browser = HeaderValue::from_static("application/xhtml+xml, Text/HTML;q=0.9, */*;q=0.1");
        headers.insert(ACCEPT, browser);
        assert_eq!(Form::wanted(&headers), Form::Html);
    }

    #[test]
    fn proxy_status_names_the_error() {
        let response = response(&Refusal::ResponseTimeout, &about("u"), Form::Text);
        assert_eq!(response.status(), 504);
        let value = &response.headers()["proxy-status"];
        assert_eq!(value, "gauntlet; error=http_response_timeout; details=\"response_timeout\"");
    }
}
