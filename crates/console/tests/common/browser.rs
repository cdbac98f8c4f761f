//! A headless Chromium, driven by the WebDriver protocol (W3C WebDriver, 2018) over plain HTTP.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::{Value, json};

/// The name under which the protocol keeps a reference to an element.
const ELEMENT: &str = "element-6066-11e4-a52e-4f735466cecf";

/// How often a driver is started until it has a port.
const ATTEMPTS: u32 = 5;

/// A browser with a profile of its own. It can reach nothing but 127.0.0.1.
pub(crate) struct Browser {
    driver: Child,
    port: u16,
    session: String,
    _profile: tempfile::TempDir,
}

impl Browser {
    /// Starts a driver and a browser; none, with a loud note, if they are not installed.
    ///
    /// # Panics
    /// If `CI` is set and they are not installed: there, nothing is skipped.
    pub(crate) fn start() -> Option<Browser> {
        // The port that it chooses for IPv4 may be another's for IPv6; then it ends without a word
        // of a port.
        let Some((driver, port)) = (0..ATTEMPTS).find_map(|_| Self::start_driver()) else {
            let missing = "chromedriver is not there or gets no port (Debian: chromium-driver)";
            assert!(std::env::var_os("CI").is_none(), "{missing}");
            eprintln!("SKIPPED: {missing}");
            return None;
        };
        let profile = tempfile::tempdir().unwrap();
        let mut browser = Browser { driver, port, session: String::new(), _profile: profile };
        let started = browser.command("POST", "/session", &browser.capabilities());
        browser.session = started["sessionId"].as_str().unwrap().to_owned();
        Some(browser)
    }

    /// A driver and its port; none if it ended before it had one, or is not there.
    fn start_driver() -> Option<(Child, u16)> {
        let mut driver = Command::new("chromedriver")
            .arg("--port=0")
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .ok()?;
        let mut lines = BufReader::new(driver.stdout.take().unwrap()).lines();
        let port = lines.by_ref().map_while(Result::ok).find_map(|l| {
            l.split_once("successfully on port ")?.1.trim_end_matches('.').parse().ok()
        });
        let Some(port) = port else {
            let _ended = driver.wait();
            return None;
        };
        std::thread::spawn(move || lines.map_while(Result::ok).for_each(drop));
        Some((driver, port))
    }

    fn capabilities(&self) -> Value {
        let profile = format!("--user-data-dir={}", self._profile.path().display());
        json!({ "capabilities": { "alwaysMatch": {
            "goog:loggingPrefs": { "performance": "ALL", "browser": "ALL" },
            "goog:chromeOptions": { "args": [
                "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-quic",
                "--no-first-run", "--disable-background-networking", "--disable-component-update",
                "--disable-sync", "--disable-dev-shm-usage", "--hide-scrollbars",
                "--window-size=1280,900",
                "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1", profile
            ] }
        } } })
    }

    /// Goes to an address and waits until it is loaded.
    pub(crate) fn open(&self, url: &str) {
        self.call("POST", "/url", &json!({ "url": url }));
    }

    /// The address of the page that is shown.
    pub(crate) fn url(&self) -> String {
        self.call("GET", "/url", &Value::Null).as_str().unwrap().to_owned()
    }

    /// Runs a script in the page and returns its value.
    pub(crate) fn run(&self, script: &str) -> Value {
        self.call("POST", "/execute/sync", &json!({ "script": script, "args": [] }))
    }

    /// The text that the element shows.
    pub(crate) fn text(&self, selector: &str) -> String {
        let element = self.find(selector);
        let text = self.call("GET", &format!("/element/{element}/text"), &Value::Null);
        text.as_str().unwrap().to_owned()
    }

    /// Waits until the element of some page to come shows this text.
    pub(crate) fn expect(&self, selector: &str, text: &str) {
        let script = format!("return document.querySelector({selector:?})?.innerText");
        let mut shown = Value::Null;
        for _ in 0..200 {
            shown = self.run(&script);
            if shown == text {
                return;
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        panic!("{selector} shows {shown}, not {text:?}");
    }

    /// Clicks the element as a user would: it must be visible and not covered.
    pub(crate) fn click(&self, selector: &str) {
        let element = self.find(selector);
        self.call("POST", &format!("/element/{element}/click"), &json!({}));
    }

    /// Clicks on what leads to a page, and waits for the page of this heading.
    pub(crate) fn follow(&self, selector: &str, heading: &str) {
        self.click(selector);
        self.expect("h1", heading);
    }

    /// Types into the element.
    pub(crate) fn type_into(&self, selector: &str, text: &str) {
        let element = self.find(selector);
        self.call("POST", &format!("/element/{element}/value"), &json!({ "text": text }));
    }

    fn find(&self, selector: &str) -> String {
        let query = json!({ "using": "css selector", "value": selector });
        let found = self.call("POST", "/element", &query);
        found[ELEMENT].as_str().unwrap_or_else(|| panic!("no element {selector}")).to_owned()
    }

    /// A phone's or a screen's size, light or dark.
    pub(crate) fn look(&self, width: u32, height: u32, dark: bool) {
        let size = json!({ "width": width, "height": height, "deviceScaleFactor": 1,
            "mobile": width < 600 });
        self.devtools("Emulation.setDeviceMetricsOverride", &size);
        let scheme = if dark { "dark" } else { "light" };
        let media = json!({ "features": [{ "name": "prefers-color-scheme", "value": scheme }] });
        self.devtools("Emulation.setEmulatedMedia", &media);
    }

    /// The page at all sizes, light and dark: nothing is too wide, nobody is kept out. Pictures go
    /// to `GAUNTLET_PICTURES`, if somebody wants to look at them.
    pub(crate) fn look_at(&self, name: &str) {
        let pictures = std::env::var_os("GAUNTLET_PICTURES").map(std::path::PathBuf::from);
        for (width, height, size) in [(1280, 900, "wide"), (360, 780, "narrow")] {
            for dark in [false, true] {
                self.look(width, height, dark);
                let wide = self.run("return document.documentElement.scrollWidth - innerWidth");
                assert!(wide.as_i64().unwrap() <= 0, "{name} is {wide} px too wide at {width}");
                let faults = self.run(include_str!("accessible.js"));
                assert_eq!(faults, json!([]), "{name} at {width}, dark: {dark}");
                if let Some(folder) = &pictures {
                    let shade = if dark { "dark" } else { "light" };
                    self.picture(&folder.join(format!("{name}-{size}-{shade}.png")));
                }
            }
        }
        self.look(1280, 900, false);
    }

    /// A picture of the whole page.
    pub(crate) fn picture(&self, path: &Path) {
        let options = json!({ "format": "png", "captureBeyondViewport": true });
        let picture = self.devtools("Page.captureScreenshot", &options);
        let text = picture["data"].as_str().unwrap();
        std::fs::write(path, base64(text)).unwrap();
    }

    fn devtools(&self, command: &str, parameters: &Value) -> Value {
        let body = json!({ "cmd": command, "params": parameters });
        self.call("POST", "/goog/cdp/execute", &body)
    }

    /// The addresses that were requested since the last call.
    pub(crate) fn requested(&self) -> Vec<String> {
        let entries = self.call("POST", "/se/log", &json!({ "type": "performance" }));
        let mut urls = Vec::new();
        for entry in entries.as_array().into_iter().flatten() {
            let event: Value = serde_json::from_str(entry["message"].as_str().unwrap()).unwrap();
            let event = &event["message"];
            if event["method"] == "Network.requestWillBeSent" {
                urls.extend(event["params"]["request"]["url"].as_str().map(str::to_owned));
            }
        }
        urls
    }

    fn call(&self, method: &str, path: &str, body: &Value) -> Value {
        self.command(method, &format!("/session/{}{path}", self.session), body)
    }

    fn command(&self, method: &str, path: &str, body: &Value) -> Value {
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        write!(
            stream,
            "{method} {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\
             Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        )
        .unwrap();
        let answer = read_answer(&mut BufReader::new(stream));
        let answer: Value = serde_json::from_slice(&answer).unwrap();
        assert!(answer["value"]["error"].is_null(), "{method} {path} {body}: {answer}");
        answer["value"].clone()
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        if !self.session.is_empty() && !std::thread::panicking() {
            self.call("DELETE", "", &Value::Null);
        }
        let _it_may_be_gone = self.driver.kill();
        let _it_may_be_gone = self.driver.wait();
    }
}

/// The body of an answer that says its length.
fn read_answer(stream: &mut impl BufRead) -> Vec<u8> {
    let mut length = 0;
    loop {
        let mut line = String::new();
        stream.read_line(&mut line).unwrap();
        if line.trim().is_empty() {
            break;
        }
        if let Some((name, value)) = line.split_once(':')
            && name.eq_ignore_ascii_case("content-length")
        {
            length = value.trim().parse().unwrap();
        }
    }
    let mut body = vec![0; length];
    stream.read_exact(&mut body).unwrap();
    body
}

fn base64(text: &str) -> Vec<u8> {
    let value = |b: u8| match b {
        b'A'..=b'Z' => Some(b - b'A'),
        b'a'..=b'z' => Some(b - b'a' + 26),
        b'0'..=b'9' => Some(b - b'0' + 52),
        b'+' => Some(62),
        b'/' => Some(63),
        _ => None,
    };
    let mut out = Vec::new();
    let (mut bits, mut count) = (0u32, 0);
    for six in text.bytes().filter_map(value) {
        bits = bits << 6 | u32::from(six);
        count += 6;
        if count >= 8 {
            count -= 8;
            out.push((bits >> count & 255) as u8);
        }
    }
    out
}
