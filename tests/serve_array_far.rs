//! A manager of an array far from its database: a node that takes no mail, and whose connections
//! have 50 ms each way. Its pages, editions and orders work, and how often a page waits for the
//! database is bounded.

use std::fmt::Write as _;
use std::io::{Read, Write as _};
use std::net::TcpStream;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::common::array_site::database_uri;
use crate::common::far::FarWay;
use crate::common::{Node, PASSWORD, PATIENCE, Smtp, message};
use crate::postgres::Server;
use crate::serve_array::is_said;

/// One way.
const DELAY: Duration = Duration::from_millis(50);
/// Held messages that are released with one click.
const RELEASED: usize = 10;
/// Opening a connection and signing in: TCP, the start, whether it takes writes, limits, tables.
const OPENING: u64 = 5;
/// Looks whether an order is done: one each 150 ms for four seconds, and no more.
const LOOKS: u64 = 28;

/// How often each page may wait for the database, over connections that are open. A search waits
/// once more for each eight packs of the newest messages.
const PAGES: [(&str, u64); 9] = [
    ("/nodes", 1),
    ("/queue", 1),
    ("/activity", 1),
    ("/messages", 5),
    ("/messages?subject=held-3", 5),
    ("/messages?sender=nobody@example.org", 5),
    ("/quarantine", 3),
    ("/", 8),
    ("/reports", 13),
];

/// A signed-in administrator of a console, and the way that it has to its database.
struct Manager<'a> {
    node: &'a Node,
    way: &'a FarWay,
    headers: String,
    told: String,
}

fn ask(node: &Node, (method, path): (&str, &str), headers: &str, form: &str) -> String {
    let mut stream = TcpStream::connect(node.console).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    write!(
        stream,
        "{method} {path} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n{headers}Content-Type: \
         application/x-www-form-urlencoded\r\nContent-Length: {}\r\n\r\n{form}",
        node.console,
        form.len()
    )
    .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

/// What stands between two marks.
fn between<'t>(text: &'t str, start: &str, end: char) -> &'t str {
    let rest = text.split_once(start).unwrap_or_else(|| panic!("no {start}: {text}")).1;
    rest.split(end).next().unwrap()
}

impl<'a> Manager<'a> {
    fn sign_in(node: &'a Node, way: &'a FarWay) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_gauntlet"))
            .args(["user", "add", "ada", "--role", "administrator", "--password-stdin", "--data"])
            .arg(node.data())
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        writeln!(child.stdin.take().unwrap(), "{PASSWORD}").unwrap();
        assert!(child.wait().unwrap().success());
        let form = format!("login=ada&password={}", PASSWORD.replace(' ', "+"));
        let answer = ask(node, ("POST", "/sign-in"), "", &form);
        let cookie = format!("Cookie: {}\r\n", between(&answer, "set-cookie: ", ';'));
        let page = ask(node, ("GET", "/account"), &cookie, "");
        let token = between(&page, "name=\"csrf\" value=\"", '"');
        let headers = format!("{cookie}X-CSRF-Token: {token}\r\n");
        Manager { node, way, headers, told: String::new() }
    }

    /// An answer, which is good, and the round trips that it took.
    fn ask(&mut self, what: (&str, &str), form: &str) -> (String, u64) {
        let (begun, before) = (Instant::now(), self.way.trips());
        let answer = ask(self.node, what, &self.headers, form);
        let (took, trips) = (begun.elapsed(), self.way.trips() - before);
        let is_good = answer.starts_with("HTTP/1.1 200") || answer.starts_with("HTTP/1.1 303");
        assert!(is_good, "{what:?}: {answer}");
        let shown = format!("{} {}", what.0, what.1);
        writeln!(self.told, "{shown:<44} {trips:>3} round trips {:>5} ms", took.as_millis())
            .unwrap();
        (answer, trips)
    }

    fn get(&mut self, path: &str) -> (String, u64) {
        self.ask(("GET", path), "")
    }

    /// The same three times, since what the node asks by itself may come between; the fewest.
    fn fewest(&mut self, path: &str) -> u64 {
        (0..3).map(|_| self.get(path).1).min().unwrap()
    }

    /// The items of held mail on its page.
    fn held(&self) -> Vec<String> {
        let page = ask(self.node, ("GET", "/quarantine"), &self.headers, "");
        let items = page.split("name=\"item\" value=\"").skip(1);
        items.map(|rest| rest.split('"').next().unwrap().to_owned()).collect()
    }
}

/// A node of the array that tells and asks something by itself so often.
fn array(database: &str, objects: &str, seconds: u32) -> String {
    format!(
        "[array]\ndatabase = \"{database}\"\nobjects = \"file://{objects}\"\n\
         ship_seconds = {seconds}\nstatus_seconds = {seconds}\npoll_seconds = {seconds}\n\
         share_seconds = {seconds}\n[facts]\nenabled = false\n"
    )
}

/// A node that holds mail of ann's, and whose other mail waits, since nobody listens there.
fn holding(server: &Server, objects: &str) -> Node {
    let policy = server.folder().join("hold.toml");
    let rule = "[[rule]]\nname = \"hold\"\nwhen.sender = \"ann@example.org\"\n\
                do = { quarantine = \"suspect\" }\n";
    std::fs::write(&policy, rule).unwrap();
    let more = format!("[policy]\npath = {policy:?}\n[route]\nnext_hop = \"127.0.0.1:1\"\n");
    Node::start_named("mx1.test", &format!("{}{more}", array(&server.uri(), objects, 1)))
}

fn send(node: &Node, from: &str, subject: &str) -> String {
    let mut client = Smtp::connect(node.smtp).unwrap();
    client.send(from, &["bob@example.net"], &message(subject, 200)).unwrap()
}

#[test]
fn pages_of_a_manager_far_from_its_database_wait_for_it_a_bounded_number_of_times() {
    let Some(server) = Server::start(&["fsync=off"]) else { return };
    let objects = server.folder().join("objects");
    let objects = objects.to_str().unwrap();
    let mail = holding(&server, objects);
    let way = FarWay::to(server.port, DELAY);
    let node = Node::start_named("manager.test", &array(&database_uri(way.port), objects, 3_600));
    for n in 0..RELEASED + 2 {
        assert!(send(&mail, "ann@example.org", &format!("held-{n}")).starts_with("250"));
        assert!(send(&mail, "carl@example.org", &format!("waits-{n}")).starts_with("250"));
    }
    for name in ["mx1.test", "manager.test"] {
        mail.wait_until("both take part", || is_said(&mail, name, "log complete"));
    }
    let held = "SELECT count(*) FROM gauntlet.held";
    mail.wait_until("all is shipped", || server.sql(held) == (RELEASED + 2).to_string());
    mail.wait_until("the queue is told", || is_said(&mail, "mx1.test", " 12 queued"));
    let mut manager = Manager::sign_in(&node, &way);
    node.wait_until("it has what is held", || manager.held().len() == RELEASED + 2);

    let first = manager.get("/messages").1;
    assert!(first <= OPENING + 5, "{first}: {}", manager.told);
    let mut wrong = Vec::new();
    for (path, most) in PAGES {
        let trips = manager.fewest(path);
        if !(1..=most).contains(&trips) {
            wrong.push(format!("{path}: {trips} of {most}"));
        }
    }
    orders(&mut manager, &mail, &mut wrong);
    policy(&mut manager, &mail, &mut wrong);
    eprintln!("{} ms each way:\n{}", DELAY.as_millis(), manager.told);
    assert!(wrong.is_empty(), "{wrong:?}");
}

/// Held mail is released there, and the queue tried, from here.
fn orders(manager: &mut Manager<'_>, mail: &Node, wrong: &mut Vec<String>) {
    let items = manager.held();
    assert_eq!(items.len(), RELEASED + 2, "{items:?}");
    let page = manager.get(&format!("/quarantine/{}", items[0])).0;
    assert!(page.contains("held-"), "{page}");
    let mut bounded = |what: &str, trips: u64, most: u64| {
        if trips > most {
            wrong.push(format!("{what}: {trips} of {most}"));
        }
    };
    // Items are looked up at once, and so are orders given.
    let many: Vec<String> = items[1..=RELEASED].iter().map(|item| format!("item={item}")).collect();
    let form = format!("{}&decision=delete", many.join("&"));
    let (asked, trips) = manager.ask(("POST", "/quarantine/decide"), &form);
    assert!(asked.contains("name=\"sure\""), "{asked}");
    bounded("whether ten are to be deleted", trips, 2);
    for (what, wanted) in [("one release", &[format!("item={}", items[0])][..]), ("ten", &many)] {
        let form = format!("{}&decision=release", wanted.join("&"));
        let (_, trips) = manager.ask(("POST", "/quarantine/decide"), &form);
        bounded(what, trips, OPENING + 2 + LOOKS);
    }
    mail.wait_until("they are released", || manager.held().len() == 1);
    let queue = manager.get("/queue").0;
    let id = between(&queue, "name=\"id\" value=\"", '"');
    let form = format!("node=mx1.test&id={id}&order=hold");
    let (answer, trips) = manager.ask(("POST", "/queue"), &form);
    assert!(answer.contains("queue_ordered-1"), "{answer}");
    bounded("an order to a queue", trips, OPENING + 1 + LOOKS);
}

/// What is saved here is in force there.
fn policy(manager: &mut Manager<'_>, mail: &Node, wrong: &mut Vec<String>) {
    let page = manager.get("/policy").0;
    let base = between(&page, "name=\"base\" value=\"", '"');
    let rule = "[[rule]]%0Aname+%3D+%22away%22%0Awhen.sender+%3D+%22carl%40example.org%22%0A\
                do+%3D+%7B+reject+%3D+%22no+%7Bid%7D%22+%7D%0A";
    let (answer, trips) = manager.ask(("POST", "/policy"), &format!("text={rule}&base={base}"));
    assert!(answer.contains("notice=policy-"), "{answer}");
    // The node itself looks at what is new, too.
    if trips > OPENING + 10 {
        wrong.push(format!("a policy: {trips}"));
    }
    mail.wait_until("it is in force there", || {
        send(mail, "carl@example.org", "no").starts_with("550")
    });
}
