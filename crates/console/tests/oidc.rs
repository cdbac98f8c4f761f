//! Single sign-on against a small provider that follows the standards: discovery, a code for a
//! login, PKCE, a client's secret, a signed id_token.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use crate::common::browser::Browser;
use crate::common::{Running, start_with};
use base64_simd::URL_SAFE_NO_PAD;
use gauntlet_console::OidcOptions;
use gauntlet_store::Role;
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair};
use serde_json::{Value, json};

const CLIENT: &str = "gauntlet";
const SECRET: &str = "s3cret/with=signs";

/// What the provider was asked to sign in, and how it may misbehave.
#[derive(Default)]
struct Mood {
    /// Claims of who signs in next.
    claims: Value,
    /// Puts another nonce into the token.
    other_nonce: bool,
    /// Signs with a key that it does not publish.
    other_key: bool,
    /// By code: challenge, nonce, redirect_uri.
    codes: HashMap<String, (String, String, String)>,
}

struct Provider {
    address: SocketAddr,
    mood: Arc<Mutex<Mood>>,
}

fn key() -> EcdsaKeyPair {
    let random = SystemRandom::new();
    let kind = &ECDSA_P256_SHA256_FIXED_SIGNING;
    let made = EcdsaKeyPair::generate_pkcs8(kind, &random).unwrap();
    EcdsaKeyPair::from_pkcs8(kind, made.as_ref(), &random).unwrap()
}

fn encoded(bytes: impl AsRef<[u8]>) -> String {
    URL_SAFE_NO_PAD.encode_to_string(bytes.as_ref())
}

/// Fields of a query or form.
fn fields(text: &str) -> HashMap<String, String> {
    let decode = |t: &str| {
        let mut out = Vec::new();
        let mut bytes = t.bytes();
        while let Some(b) = bytes.next() {
            match b {
                b'+' => out.push(b' '),
                b'%' => {
                    let hex = [bytes.next().unwrap(), bytes.next().unwrap()];
                    let hex = std::str::from_utf8(&hex).unwrap().to_owned();
                    out.push(u8::from_str_radix(&hex, 16).unwrap());
                }
                b => out.push(b),
            }
        }
        String::from_utf8(out).unwrap()
    };
    text.split('&').filter_map(|p| p.split_once('=')).map(|(n, v)| (n.into(), decode(v))).collect()
}

impl Provider {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let mood = Arc::new(Mutex::new(Mood::default()));
        let (ours, theirs) = (key(), key());
        let shared = mood.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                answer(stream, address, &shared, &ours, &theirs);
            }
        });
        Provider { address, mood }
    }

    fn issuer(&self) -> String {
        format!("http://{}", self.address)
    }
}

/// A request: path with query, login, body.
fn read(stream: &TcpStream) -> (String, String, String) {
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    let mut first = String::new();
    reader.read_line(&mut first).unwrap();
    let (mut length, mut login) = (0, String::new());
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).unwrap() == 0 || line.trim().is_empty() {
            break;
        }
        let (name, value) = line.trim().split_once(": ").unwrap_or_default();
        match name.to_lowercase().as_str() {
            "content-length" => length = value.parse().unwrap(),
            "authorization" => login = value.to_owned(),
            _ => {}
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).unwrap();
    let target = first.split(' ').nth(1).unwrap_or("/").to_owned();
    (target, login, String::from_utf8(body).unwrap())
}

fn answer(
    mut stream: TcpStream,
    address: SocketAddr,
    mood: &Mutex<Mood>,
    key: &EcdsaKeyPair,
    other: &EcdsaKeyPair,
) {
    let (target, login, body) = read(&stream);
    let (path, query) = target.split_once('?').unwrap_or((&target, ""));
    let issuer = format!("http://{address}");
    let mut mood = mood.lock().unwrap();
    let (status, extra, text) = match path {
        "/.well-known/openid-configuration" => {
            let about = json!({ "issuer": issuer, "jwks_uri": format!("{issuer}/keys"),
                "authorization_endpoint": format!("{issuer}/authorize"),
                "token_endpoint": format!("{issuer}/token") });
            (200, String::new(), about.to_string())
        }
        "/keys" => {
            let point = key.public_key().as_ref();
            let jwk = json!({ "kty": "EC", "crv": "P-256", "kid": "1", "use": "sig",
                "x": encoded(&point[1..33]), "y": encoded(&point[33..]) });
            (200, String::new(), json!({ "keys": [jwk] }).to_string())
        }
        "/authorize" => {
            let back = authorize(&fields(query), &mut mood);
            (302, format!("Location: {back}\r\n"), String::new())
        }
        "/token" => {
            let signer = if mood.other_key { other } else { key };
            match token(&fields(&body), &login, &issuer, &mut mood, signer) {
                Some(token) => (
                    200,
                    String::new(),
                    json!({ "id_token": token, "token_type": "Bearer" }).to_string(),
                ),
                None => (400, String::new(), "{\"error\":\"invalid_grant\"}".to_owned()),
            }
        }
        _ => (404, String::new(), String::new()),
    };
    write!(
        stream,
        "HTTP/1.1 {status} X\r\n{extra}Content-Type: application/json\r\nContent-Length: {}\r\n\
         Connection: close\r\n\r\n{text}",
        text.len()
    )
    .unwrap();
}

/// Signs somebody in; where the browser goes.
fn authorize(asked: &HashMap<String, String>, mood: &mut Mood) -> String {
    assert_eq!((asked["client_id"].as_str(), asked["response_type"].as_str()), (CLIENT, "code"));
    assert_eq!(asked["code_challenge_method"], "S256");
    assert!(asked["scope"].split(' ').any(|s| s == "openid"));
    let code = format!("code-{}+/", mood.codes.len());
    let back = asked["redirect_uri"].clone();
    let kept = (asked["code_challenge"].clone(), asked["nonce"].clone(), back.clone());
    mood.codes.insert(code.clone(), kept);
    let code = code.replace('+', "%2B").replace('/', "%2F");
    format!("{back}?code={code}&state={}", asked["state"])
}

/// The token for a code, if verifier, address and client are those that the code was given to.
fn token(
    asked: &HashMap<String, String>,
    login: &str,
    issuer: &str,
    mood: &mut Mood,
    signer: &EcdsaKeyPair,
) -> Option<String> {
    let expected = format!("{CLIENT}:{}", SECRET.replace('/', "%2F").replace('=', "%3D"));
    let expected = base64_simd::STANDARD.encode_to_string(expected);
    let (wanted, nonce, back) = mood.codes.remove(&asked["code"])?;
    let verifier = asked["code_verifier"].as_bytes();
    let challenge = encoded(ring::digest::digest(&ring::digest::SHA256, verifier));
    let fits = wanted == challenge
        && back == asked["redirect_uri"]
        && login == format!("Basic {expected}");
    if !fits {
        return None;
    }
    let mut claims = mood.claims.clone();
    claims["iss"] = json!(issuer);
    claims["aud"] = json!(CLIENT);
    claims["sub"] = json!("4711");
    claims["exp"] = json!(crate::common::now_ms() / 1000 + 60);
    claims["nonce"] = json!(if mood.other_nonce { "other".to_owned() } else { nonce });
    let head = encoded("{\"alg\":\"ES256\",\"kid\":\"1\"}");
    let signed = format!("{head}.{}", encoded(claims.to_string()));
    let mark = signer.sign(&SystemRandom::new(), signed.as_bytes()).unwrap();
    Some(format!("{signed}.{}", encoded(mark)))
}

fn console(provider: &Provider, add_people: bool) -> Running {
    console_by(provider, add_people, "email")
}

fn console_by(provider: &Provider, add_people: bool, login_claim: &str) -> Running {
    let (issuer, login_claim) = (provider.issuer(), login_claim.to_owned());
    start_with(|state, address| {
        state.oidc = Some(Arc::new(OidcOptions {
            issuer,
            client_id: CLIENT.to_owned(),
            client_secret: SECRET.to_owned(),
            login_claim,
            add_people,
            name: "Company login".to_owned(),
            url: format!("http://{address}"),
        }));
    })
}

/// Goes to the provider and comes back; the path with code and state, and the browser's cookie.
fn round_trip(console: &Running, next: &str) -> (String, String) {
    trip(console, &format!("next={next}"))
}

/// The same with fields of one's own.
fn trip(console: &Running, fields: &str) -> (String, String) {
    let begun = console.request("GET", &format!("/sign-in/oidc?{fields}"), "", "");
    assert_eq!(begun.status, 303, "{}", begun.body);
    let cookie = begun.header("set-cookie").unwrap();
    assert!(cookie.contains("SameSite=Lax") && cookie.contains("HttpOnly"), "{cookie}");
    let cookie = cookie.split(';').next().unwrap().to_owned();
    let to = begun.header("location").unwrap();
    let (host, path) = to.strip_prefix("http://").unwrap().split_once('/').unwrap();
    let mut stream = TcpStream::connect(host).unwrap();
    write!(stream, "GET /{path} HTTP/1.1\r\nHost: {host}\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let back = answer.lines().find_map(|l| l.strip_prefix("Location: ")).unwrap();
    let path = back.split_once(&console.address.to_string()).unwrap().1;
    (path.to_owned(), cookie)
}

fn people(email: &str, verified: bool) -> Value {
    json!({ "email": email, "email_verified": verified })
}

#[test]
fn who_is_known_signs_in_with_the_rights_given_here() {
    let provider = Provider::start();
    let console = console(&provider, false);
    let users = &console.state.users;
    let own = ["rita@example.com".to_owned()];
    users
        .user_from_single_sign_on("Rita@example.com", Some(Role::Reviewer), &own, 1)
        .unwrap()
        .unwrap();
    provider.mood.lock().unwrap().claims = people("rita@example.com", true);
    let page = console.request("GET", "/sign-in", "", "");
    assert!(page.body.contains("Company login"), "{}", page.body);
    let (back, cookie) = round_trip(&console, "/messages");
    // Without the cookie of the browser that began it, nobody is signed in.
    let stolen = console.request("GET", &back, "", "");
    assert_eq!((stolen.status, stolen.header("set-cookie")), (400, None));
    let done = console.request("GET", &back, &cookie, "");
    assert_eq!(done.status, 200, "{}", done.body);
    assert!(done.body.contains("content=\"0;url=/messages\""), "{}", done.body);
    let session = done.header("set-cookie").unwrap().split(';').next().unwrap().to_owned();
    assert_eq!(console.request("GET", "/messages", &session, "").status, 200);
    assert_eq!(console.request("GET", "/users", &session, "").status, 403);
    // The same code and state again.
    assert_eq!(console.request("GET", &back, &cookie, "").status, 400);
    // Somebody who is not known here stays out.
    provider.mood.lock().unwrap().claims = people("eve@example.com", true);
    let (back, cookie) = round_trip(&console, "/");
    let refused = console.request("GET", &back, &cookie, "");
    assert!(refused.status == 403 && refused.body.contains("not known here"), "{}", refused.body);
}

#[test]
fn new_people_see_their_own_mail_if_it_is_certain_whose_it_is() {
    let provider = Provider::start();
    let console = console(&provider, true);
    for (claims, status) in [
        (people("dora@example.com", false), 400),
        (json!({ "email": "dora@example.com" }), 400),
        (json!({ "name": "Dora" }), 400),
        (people("Dora@example.com", true), 200),
    ] {
        provider.mood.lock().unwrap().claims = claims.clone();
        let (back, cookie) = round_trip(&console, "/");
        let answer = console.request("GET", &back, &cookie, "");
        assert_eq!(answer.status, status, "{claims}: {}", answer.body);
    }
    let users = console.state.users.list().unwrap();
    let dora = users.iter().find(|u| u.login == "Dora@example.com").unwrap();
    assert_eq!(
        (dora.role, dora.addresses.as_slice()),
        (Role::User, &["dora@example.com".to_owned()][..])
    );
}

#[test]
fn an_address_that_is_not_verified_names_nobody() {
    let provider = Provider::start();
    for claim in ["email", "preferred_username"] {
        let console = console_by(&provider, false, claim);
        let (users, role) = (&console.state.users, Some(Role::Administrator));
        let own = ["boss@example.com".to_owned()];
        users.user_from_single_sign_on("boss@example.com", role, &own, 1).unwrap().unwrap();
        // What anybody can write into a profile of their own.
        for verified in [Value::Null, json!(false), json!("false"), json!(0), json!(1), json!("")] {
            let mut claims = json!({ "email": "Boss@example.com", "preferred_username":
                "boss@example.com", "email_verified": verified });
            if verified.is_null() {
                claims.as_object_mut().unwrap().remove("email_verified");
            }
            provider.mood.lock().unwrap().claims = claims.clone();
            let (back, cookie) = round_trip(&console, "/");
            let answer = console.request("GET", &back, &cookie, "");
            assert_eq!((answer.status, answer.header("set-cookie")), (400, None), "{claims}");
            assert!(answer.body.contains("verified"), "{}", answer.body);
        }
        provider.mood.lock().unwrap().claims = json!({ "email": "boss@example.com",
            "preferred_username": "boss@example.com", "email_verified": true });
        let (back, cookie) = round_trip(&console, "/");
        assert_eq!(console.request("GET", &back, &cookie, "").status, 200, "{claim}");
    }
}

#[test]
fn tokens_that_are_not_the_providers_are_refused() {
    let provider = Provider::start();
    let console = console(&provider, true);
    provider.mood.lock().unwrap().claims = people("dora@example.com", true);
    for trick in ["nonce", "key"] {
        {
            let mut mood = provider.mood.lock().unwrap();
            (mood.other_nonce, mood.other_key) = (trick == "nonce", trick == "key");
        }
        let (back, cookie) = round_trip(&console, "/");
        let answer = console.request("GET", &back, &cookie, "");
        assert_eq!((answer.status, answer.header("set-cookie")), (400, None), "{trick}");
        assert!(!answer.body.contains("nonce") && !answer.body.contains("signed"), "says little");
    }
    // The verifier is this sign-in's own: another's code is worth nothing.
    *provider.mood.lock().unwrap() =
        Mood { claims: people("dora@example.com", true), ..Mood::default() };
    let (first, _) = round_trip(&console, "/");
    let (second, cookie) = round_trip(&console, "/");
    let code =
        |path: &str| path.split_once("code=").unwrap().1.split('&').next().unwrap().to_owned();
    let mixed = second.replace(&code(&second), &code(&first));
    assert_ne!(mixed, second);
    assert_eq!(console.request("GET", &mixed, &cookie, "").status, 400);
    for wrong in
        ["/sign-in/oidc/back", "/sign-in/oidc/back?state=&code=x", "/sign-in/oidc/back?state=x"]
    {
        assert_eq!(console.request("GET", wrong, "gauntlet_sign_in=", "").status, 400, "{wrong}");
    }
    let off = crate::common::start();
    assert_eq!(off.request("GET", "/sign-in/oidc", "", "").status, 404);
}

/// Nobody is added who could send mail as anybody: users without addresses of their own may.
#[test]
fn nobody_is_added_without_an_address() {
    let provider = Provider::start();
    let console = console_by(&provider, true, "preferred_username");
    provider.mood.lock().unwrap().claims =
        json!({ "preferred_username": "eve", "email_verified": true });
    let (back, cookie) = round_trip(&console, "/");
    let answer = console.request("GET", &back, &cookie, "");
    assert_eq!((answer.status, answer.header("set-cookie")), (403, None), "{}", answer.body);
    assert_eq!(console.state.users.list().unwrap().len(), 3);
}

#[test]
fn an_answer_of_another_provider_is_refused() {
    let provider = Provider::start();
    let console = console(&provider, true);
    provider.mood.lock().unwrap().claims = people("dora@example.com", true);
    let (back, cookie) = round_trip(&console, "/");
    let mixed = format!("{back}&iss=https%3A%2F%2Fevil.example");
    let answer = console.request("GET", &mixed, &cookie, "");
    assert_eq!((answer.status, answer.header("set-cookie")), (400, None), "{}", answer.body);
    let issuer = provider.issuer().replace(':', "%3A").replace('/', "%2F");
    let answer = console.request("GET", &format!("{back}&iss={issuer}"), &cookie, "");
    assert_eq!(answer.status, 200, "{}", answer.body);
}

#[test]
fn nobody_is_sent_elsewhere_after_signing_in() {
    let provider = Provider::start();
    let console = console(&provider, true);
    provider.mood.lock().unwrap().claims = people("dora@example.com", true);
    for next in [
        "https://evil.example/",
        "//evil.example/",
        "/%5Cevil.example/",
        "/%09/evil.example/",
        "/%0d%0aSet-Cookie:%20a=b",
        "javascript:alert(1)",
        "/%22%3E%3Cscript%3E",
        "%20//evil.example",
    ] {
        let (back, cookie) = round_trip(&console, next);
        let answer = console.request("GET", &back, &cookie, "");
        assert_eq!(answer.status, 200, "{next}");
        let own = answer.body.contains("content=\"0;url=/\"");
        let escaped =
            next.contains("script%3E") && answer.body.contains("url=/&quot;&gt;&lt;script");
        assert!(own || escaped, "{next}: {}", answer.body);
        let form = format!(
            "login=rita&password={}&next={next}",
            crate::common::PASSWORD.replace(' ', "+")
        );
        let to = console.request("POST", "/sign-in", "", &form);
        let to = to.header("location").unwrap();
        assert!(to == "/" || to.starts_with("/\"><script"), "{next}: {to}");
    }
}

/// Who has no password proves themselves by signing in anew at the provider.
#[test]
fn a_fresh_sign_in_makes_an_app_password_for_who_has_no_password() {
    let provider = Provider::start();
    let console = console(&provider, true);
    let dora = "dora@example.com";
    let said = |at: i64| json!({ "email": dora, "email_verified": true, "auth_time": at });
    let now = || crate::common::now_ms() / 1_000;
    let session = |fields: &str, claims: Value| {
        provider.mood.lock().unwrap().claims = claims;
        let (back, cookie) = trip(&console, fields);
        let answer = console.request("GET", &back, &cookie, "");
        let set = answer.header("set-cookie").map(|c| c.split(';').next().unwrap().to_owned());
        (answer.status, set)
    };
    let make = |cookie: &str, name: &str| {
        let form = format!("csrf={}&do=make&name={name}", console.csrf(cookie));
        console.request("POST", "/account/app-passwords", cookie, &form)
    };
    // Signed in some time ago: the page and the answer say what to do.
    let (_, cookie) = session("next=/account", said(now()));
    let cookie = cookie.unwrap();
    let command = "gauntlet user app-password new dora@example.com NAME";
    let page = console.request("GET", "/account", &cookie, "").body;
    assert!(page.contains(command) && page.contains("prove=yes"), "{page}");
    assert!(!page.contains("name=\"password\""), "nothing to fill in: {page}");
    let refused = make(&cookie, "phone");
    assert_eq!(refused.status, 400);
    assert!(refused.body.contains(command) && refused.body.contains("Company login"));
    // What the provider remembers is no new sign-in.
    for stale in [said(now() - 3_600), people(dora, true), said(now() + 3_600)] {
        assert_eq!(session("prove=yes&next=/account", stale.clone()), (400, None), "{stale}");
    }
    let begun = console.request("GET", "/sign-in/oidc?prove=yes", "", "");
    let to = begun.header("location").unwrap();
    assert!(to.contains("&prompt=login&max_age=0"), "{to}");
    let (status, fresh) = session("prove=yes&next=/account", said(now()));
    assert_eq!(status, 200);
    let fresh = fresh.unwrap();
    let made = make(&fresh, "phone");
    assert_eq!(made.status, 200, "{}", made.body);
    let secret = made.body.split_once("<code class=\"big\">").unwrap().1.split('<').next().unwrap();
    let users = &console.state.users;
    assert!(users.mail_login(dora, secret, crate::common::now_ms()).unwrap().is_some());
    // For five minutes.
    let proof = gauntlet_store::users::Proof::FreshSingleSignOn;
    let old = users.start_session_with(dora, proof, "", crate::common::now_ms() - 301_000).unwrap();
    assert_eq!(make(&format!("gauntlet_session={}", old.token), "desk").status, 400);
    // An administrator's command serves, too.
    assert!(
        users
            .add_app_password(dora, "desk", "command line", crate::common::now_ms())
            .unwrap()
            .is_some()
    );
    // Who has a password shows it, however they came.
    let rita = users.start_session_with("rita", proof, "", crate::common::now_ms()).unwrap();
    assert_eq!(make(&format!("gauntlet_session={}", rita.token), "desk").status, 400);
}

/// A provider that takes what is asked and never answers.
#[test]
fn a_provider_that_is_silent_does_not_stop_the_console() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let provider = Provider { address: listener.local_addr().unwrap(), mood: Arc::default() };
    let console = console(&provider, true);
    let taken: Arc<Mutex<Vec<TcpStream>>> = Arc::default();
    let kept = taken.clone();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            kept.lock().unwrap().push(stream);
        }
    });
    std::thread::scope(|scope| {
        let begin = || console.request("GET", "/sign-in/oidc", "", "").status;
        let all: Vec<_> = (0..8).map(|_| scope.spawn(begin)).collect();
        // All but two get 503, while these still wait.
        while all.iter().filter(|one| one.is_finished()).count() < 6 {
            std::thread::sleep(std::time::Duration::from_millis(2));
        }
        assert_eq!(taken.lock().unwrap().len(), 2);
        for path in ["/healthz", "/metrics", "/sign-in"] {
            assert_eq!(console.request("GET", path, "", "").status, 200, "{path}");
        }
        let refused = console.request("GET", "/sign-in/oidc", "", "");
        assert_eq!((refused.status, refused.header("retry-after")), (503, Some("5")));
        // They end; the next sign-in queries the provider again.
        taken.lock().unwrap().clear();
        let mut said: Vec<u16> = all.into_iter().map(|one| one.join().unwrap()).collect();
        said.sort_unstable();
        assert_eq!(said, [400, 400, 503, 503, 503, 503, 503, 503]);
    });
}

#[test]
fn a_browser_goes_there_and_comes_back_signed_in() {
    let Some(browser) = Browser::start() else { return };
    let provider = Provider::start();
    let console = console(&provider, true);
    provider.mood.lock().unwrap().claims = people("dora@example.com", true);
    browser.open(&format!("http://{}/own", console.address));
    browser.expect("h1", "Sign in");
    browser.look_at("sign-in-oidc");
    browser.click(".other-way a");
    browser.expect("h1", "My mail");
}
