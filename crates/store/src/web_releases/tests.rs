use gauntlet_mail::url::canonical;
use gauntlet_web::release::Asked;

use super::*;

const NOW: i64 = 1_795_000_000_000;

fn asked(n: i64) -> ReleaseRequest {
    ReleaseRequest {
        reference: format!("ref{n}"),
        at_ms: NOW + n,
        client: "10.0.0.1".into(),
        user: String::new(),
        url: format!("http://a.example/{n}"),
        rule: "games".into(),
        reason: "for my work".into(),
        mail: "ann@example.org".into(),
    }
}

fn terms(target: &str) -> Terms {
    let (target, note) = (target.to_owned(), "fine".to_owned());
    Terms { target, released_for: ReleasedFor::Everybody, until_ms: None, note }
}

fn passes(releases: &WebReleases, url: &str) -> bool {
    let url = canonical(url).unwrap();
    let client = [10, 0, 0, 9].into();
    let asked = Asked { url: &url, is_tunnel: false, client, user: None, now_ms: NOW };
    releases.exceptions().find(&asked).is_some()
}

fn opened() -> (tempfile::TempDir, WebReleases) {
    let folder = tempfile::tempdir().unwrap();
    let releases = WebReleases::open(folder.path()).unwrap();
    (folder, releases)
}

#[test]
fn what_is_approved_passes_at_once_and_what_is_revoked_does_not() {
    let (folder, releases) = opened();
    assert_eq!(releases.ask(&asked(1)).unwrap(), AskOutcome::New(1));
    assert!(!passes(&releases, "http://a.example/1"));
    let made = releases.approve(Some(1), &terms("a.example"), "ann", NOW).unwrap();
    assert_eq!((made.number, made.request, made.by.as_str()), (1, Some(1), "ann"));
    assert!(passes(&releases, "http://a.example/1"));
    let request = &releases.requests(None, None, 10).unwrap()[0];
    assert_eq!((request.state, request.exception), (RequestState::Approved, Some(1)));
    let again = releases.approve(Some(1), &terms("b.example"), "ann", NOW);
    assert!(matches!(again, Err(ReleaseError::NotOpen)), "it is decided");
    assert!(!passes(&releases, "http://b.example/"), "and nothing was changed");
    drop(releases);
    let releases = WebReleases::open(folder.path()).unwrap();
    assert!(passes(&releases, "http://a.example/1"), "it is durable");
    let read = WebReleases::read_exceptions(folder.path()).unwrap();
    assert_ne!(read.version, releases.exceptions().version);
    assert_eq!(releases.revoke(1, "bob", NOW).unwrap().unwrap().revoked_by, "bob");
    assert!(!passes(&releases, "http://a.example/1"));
    assert!(releases.revoke(1, "bob", NOW).unwrap().is_none());
    assert!(releases.list(Some(NOW), None, 10).unwrap().is_empty());
    assert_eq!(releases.list(None, None, 10).unwrap().len(), 1);
}

#[test]
fn who_asks_again_is_the_same_request_and_many_are_refused() {
    let (_folder, releases) = opened();
    assert_eq!(releases.ask(&asked(1)).unwrap(), AskOutcome::New(1));
    assert_eq!(releases.ask(&asked(1)).unwrap(), AskOutcome::Known(1));
    assert_eq!(releases.requests(None, None, 10).unwrap()[0].times, 2);
    for n in 2..=CLIENT_OPEN_MAX {
        assert_eq!(releases.ask(&asked(n)).unwrap(), AskOutcome::New(n));
    }
    assert_eq!(releases.ask(&asked(999)).unwrap(), AskOutcome::Full);
    let other = ReleaseRequest { client: String::new(), ..asked(0) };
    for n in CLIENT_OPEN_MAX..OPEN_MAX {
        let url = format!("http://b.example/{n}");
        let outcome = releases.ask(&ReleaseRequest { url, ..other.clone() }).unwrap();
        assert_eq!(outcome, AskOutcome::New(n + 1), "where clients are not kept");
    }
    assert_eq!(releases.ask(&other).unwrap(), AskOutcome::Full);
    assert_eq!(releases.open_requests().unwrap(), OPEN_MAX as u64);
}

#[test]
fn what_is_over_is_forgotten_and_texts_are_cut() {
    let (_folder, releases) = opened();
    releases.ask(&ReleaseRequest { reason: "é".repeat(5_000), ..asked(1) }).unwrap();
    releases.ask(&asked(2)).unwrap();
    let reason = releases.requests(None, None, 1).unwrap().remove(0).request.reason;
    assert!(reason.len() <= TEXT_BYTES_MAX);
    releases.decline(2, "ann", "no\nwork", NOW).unwrap();
    assert!(matches!(releases.decline(2, "ann", "", NOW), Err(ReleaseError::NotOpen)));
    let until_ms = Some(NOW + DAY_MS);
    releases.approve(None, &Terms { until_ms, ..terms("a.example") }, "ann", NOW).unwrap();
    let late = ReleaseRequest { at_ms: NOW + (OPEN_DAYS + 1) * DAY_MS, ..asked(3) };
    releases.ask(&late).unwrap();
    let left = releases.requests(None, None, 10).unwrap();
    let left: Vec<_> = left.iter().map(|r| (r.number, r.note.as_str())).collect();
    assert_eq!(left, [(3, ""), (2, "no work")], "the first waited too long");
    let later = ReleaseRequest { at_ms: NOW + (KEPT_DAYS + 2) * DAY_MS, ..asked(4) };
    releases.ask(&later).unwrap();
    assert_eq!(releases.requests(None, None, 10).unwrap().len(), 1);
    assert!(releases.list(None, None, 10).unwrap().is_empty());
}

#[test]
fn terms_that_cannot_be_change_nothing() {
    let (_folder, releases) = opened();
    releases.ask(&asked(1)).unwrap();
    let wrong = releases.approve(Some(1), &terms("not a host"), "ann", NOW);
    assert!(matches!(wrong, Err(ReleaseError::Target(_))));
    let over = Terms { until_ms: Some(NOW), ..terms("a.example") };
    assert!(matches!(releases.approve(Some(1), &over, "ann", NOW), Err(ReleaseError::Over)));
    assert_eq!(releases.open_requests().unwrap(), 1);
}
