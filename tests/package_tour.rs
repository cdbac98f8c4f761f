//! As a new user would, with the package and the handbook alone: behind Postfix, a caught message
//! found and released, a rule written and tried on the mail of before, and all of it taken back.

use crate::common::debian_machine::Machine;
use crate::package_deb::{INSTALL, packages};

/// A Postfix that delivers to ann, as somebody has it before Gauntlet comes.
const POSTFIX: &str = "useradd -m ann\n\
    postconf -e 'myhostname = mx.example.org' 'mydestination = example.org, localhost' \
      'home_mailbox = Maildir/' 'inet_interfaces = loopback-only' 'inet_protocols = ipv4'\n\
    cp -a /etc/postfix /srv/postfix.before; systemctl start postfix\n\
    for i in $(seq 600); do curl -s smtp://127.0.0.1:25 -X NOOP && break; sleep 0.1; done";

/// Sends samples to ann by Postfix, each with the status of curl.
fn send(samples: &str) -> String {
    format!(
        "for sample in {samples}; do curl -sS --crlf smtp://127.0.0.1:25 \
           --mail-from me@example.com --mail-rcpt ann@example.org \
           --upload-file samples/$sample.eml || exit 1; done\n"
    )
}

/// Waits until a command prints something like this.
fn until(command: &str, pattern: &str) -> String {
    format!(
        "for i in $(seq 300); do {command} | grep -q '{pattern}' && break; sleep 0.1; done\n\
         {command}\n"
    )
}

const RULE: &str = "[[rule]]\nname = \"Offers of medicine wait for a person\"\n\
    direction = \"inbound\"\nwhen.subject = \"*medicine*\"\ndo = { hold = \"suspect\" }\n\
    release = \"user\"\n\n";

const POINTS: &str = "body     LOCAL_PARCEL  /parcel could not be delivered/i\n\
    describe LOCAL_PARCEL  Says that a parcel waits\nscore    LOCAL_PARCEL  2.0\n";

const EXAMPLES: &str = "=== LOCAL_PARCEL hits\nSubject: Your parcel\n\n\
    Your parcel could not be delivered. Please pay the fee.\n=== LOCAL_PARCEL misses\n\
    Subject: Lunch\n\nThe parcel came on Friday.\n";

/// A person at the machine, in a folder of their own.
struct Tour(Machine);

impl Tour {
    fn run(&self, commands: &str) -> String {
        self.0.run(&format!("cd /srv/trial || exit 1\n{commands}"))
    }

    /// The same; each of these is in what is printed.
    fn says(&self, commands: &str, expected: &[&str]) -> String {
        let said = self.run(commands);
        for part in expected {
            assert!(said.contains(part), "{part:?} is not in:\n{commands}\n{said}");
        }
        said
    }

    fn write(&self, name: &str, text: &str) {
        self.run(&format!("cat >{name} <<'END'\n{text}END"));
    }
}

/// The id that a list of messages begins a line with, behind the time.
fn id(list: &str) -> &str {
    let id = list.lines().last().and_then(|line| line.split_whitespace().nth(1));
    id.unwrap_or_else(|| panic!("no message:\n{list}"))
}

const ARRIVED: &str = "cat /home/ann/Maildir/new/*";
const SETUP: &str = "gauntlet setup milter --name mx.example.org --apply-postfix";
// A reload of Postfix would still let some sessions go the old way.
const READ_ANEW: &str = "systemctl restart gauntlet && systemctl restart postfix\n\
    for i in $(seq 600); do curl -s smtp://127.0.0.1:25 -X NOOP && break; sleep 0.1; done";

#[test]
fn a_new_user_puts_the_package_behind_postfix_and_finds_the_way_about() {
    let Some(machine) = packages().and_then(Machine::boot) else { return };
    machine.run(POSTFIX);
    let said = machine.run(INSTALL);
    let listens = "SMTP on 127.0.0.1:2525, the console on http://127.0.0.1:8025/ (login admin)";
    assert!(said.contains(listens), "{said}");
    machine.run("mkdir /srv/trial");
    let tour = Tour(machine);
    tour.run("ln -s /usr/share/doc/gauntlet/examples/samples");
    tour.says("gauntlet user passwd admin", &["one-time password of admin: "]);
    held_by_postfix(&tour);
    held_by_the_node(&tour);
    rules(&tour);
    taken_back(&tour);
    removed(&tour);
}

/// Good mail arrives, and spam waits in Postfix's hold queue.
fn held_by_postfix(tour: &Tour) {
    // A machine without a resolver: doctor says so, by the exit code, too.
    tour.says(
        &format!("{SETUP}; [ $? = 1 ]"),
        &[
            "/etc/gauntlet/gauntlet.toml.before-setup-1: the file that was there before",
            "/etc/gauntlet/gauntlet.toml: written",
            "/etc/postfix: 6 settings of Postfix set",
            "`systemctl restart gauntlet`",
            "`gauntlet setup undo --config /etc/gauntlet/gauntlet.toml` takes this set-up back",
        ],
    );
    tour.run(READ_ANEW);
    tour.run(&send("ham-lunch spam-pills"));
    let ham = "X-Gauntlet-Class: ham";
    tour.says(&until(ARRIVED, ham), &[ham]);
    let queue = tour.run(&until("postqueue -p", "!"));
    let held = queue.lines().find_map(|line| line.split_once('!')).expect("one is held").0;
    let fields = tour.run(&format!("postcat -q {held} | grep X-Gauntlet-Held"));
    let (_, id) = fields.split_once("explicit (reference ").unwrap_or_else(|| panic!("{fields}"));
    let id = id.trim_end().trim_end_matches(')');
    tour.says(&format!("gauntlet trace {id}"), &["verdict     spam"]);
    tour.run(&format!("postsuper -H {held} && postqueue -i {held}"));
    tour.says(&until(ARRIVED, "CHEAP MEDICINE"), &["CHEAP MEDICINE"]);
}

/// The same in our quarantine: found by its recipient, the log says why, and it is released.
fn held_by_the_node(tour: &Tour) {
    let setup = format!("{SETUP} --held-by node");
    tour.says(&format!("{setup}; [ $? = 2 ]"), &["--force replaces it"]);
    let done = "/etc/gauntlet/gauntlet.toml: written";
    tour.says(&format!("{setup} --force; [ $? = 1 ]"), &[done]);
    tour.run(&format!("{READ_ANEW}\n{}", send("spam-pills")));
    let found = tour.says(&until(LIST, "explicit"), &["explicit", "spam"]);
    let id = id(&found);
    let caught = "gauntlet messages --recipient ann@example.org --subject medicine";
    tour.says(&until(caught, id), &[id, "quarantine"]);
    let why = ["verdict     spam", "policy      ann@example.org: quarantine (Explicit spam"];
    tour.says(&format!("gauntlet trace {id}"), &why);
    tour.says(&format!("gauntlet quarantine show {id}"), &["CHEAP MEDICINE"]);
    tour.says(&format!("gauntlet quarantine release {id}"), &["released to 1 recipient"]);
    tour.run(&until_there(3));
}

const LIST: &str = "gauntlet quarantine list --recipient ann@example.org";

/// Waits until ann has so many messages.
fn until_there(count: usize) -> String {
    format!(
        "for i in $(seq 300); do [ $(ls /home/ann/Maildir/new | wc -l) = {count} ] && exit\n\
         sleep 0.1; done; exit 1"
    )
}

/// A rule of the policy, tried on the mail of the log before it counts; and points for words, with
/// examples, tried on what was delivered.
fn rules(tour: &Tour) {
    tour.write("medicine.toml", RULE);
    tour.says(
        "gauntlet policy show > new.toml; cat medicine.toml new.toml > try.toml\n\
         gauntlet policy check try.toml; gauntlet policy replay try.toml --days 7",
        &[" 0 warnings", " different", "Offers of medicine wait for a person"],
    );
    let applied = "gauntlet policy apply try.toml --note 'medicine waits'";
    tour.says(applied, &["applied by the running node"]);
    tour.run(&send("spam-pills"));
    tour.says(&until(LIST, "suspect"), &["suspect"]);
    tour.says("gauntlet policy rollback", &["applied by the running node"]);

    tour.run("mkdir local-rules");
    tour.write("local-rules/parcels.cf", POINTS);
    tour.write("local-rules/parcels.tests", EXAMPLES);
    tour.says("gauntlet rules check local-rules", &["0 errors, 0 warnings"]);
    let tested = ["2 examples of 1 rules, 0 failures"];
    tour.says("gauntlet rules test local-rules", &tested);
    let judge = "gauntlet scan --rules local-rules /home/ann/Maildir/new";
    tour.says(judge, &["3 messages, ", "; ham 3\n"]);
}

/// Postfix and the package are as they were, and mail passes without us.
fn taken_back(tour: &Tour) {
    tour.says("gauntlet setup undo", &["is still there: undo again takes it back"]);
    tour.says(
        &format!(
            "gauntlet setup undo; {READ_ANEW}\n\
             diff -r /etc/postfix /srv/postfix.before && ! dpkg -V gauntlet | grep ."
        ),
        &[
            "/etc/gauntlet/gauntlet.toml: as it was before",
            "settings are as they were before",
            "then restart the node",
        ],
    );
    tour.run(&format!("{}{}", send("ham-lunch"), until_there(4)));
    // What somebody changed is replaced with leave alone, and a trial is about another file.
    let changed = "echo '# mine' >> /etc/gauntlet/gauntlet.toml";
    tour.says(&format!("{changed}\n{SETUP}; [ $? = 2 ]"), &["--force replaces it"]);
    tour.says("gauntlet setup trial --dry-run", &["/srv/trial/gauntlet.toml: would be written"]);
}

/// Removing the package says that Postfix still needs it; a purge leaves nothing of a set-up.
fn removed(tour: &Tour) {
    tour.run(&format!("{SETUP} --force; [ $? = 1 ]"));
    let still = ["Postfix still hands its mail to the node", "run `gauntlet setup undo`"];
    tour.says("dpkg -r gauntlet", &still);
    tour.says("dpkg -P gauntlet; ls /etc/gauntlet", &["gauntlet.toml.setup.json"]);
    // The configuration is the package's again, and not what the set-up wrote.
    let back = ["settings are as they were before", "kept, it was changed since"];
    tour.says(&format!("{INSTALL}; gauntlet setup undo; [ $? = 1 ]"), &back);
    tour.run("diff -r /etc/postfix /srv/postfix.before");
    tour.says(
        "gauntlet setup front --name mx.example.org --domain example.org \
               --next-hop 127.0.0.1:26 --force; ls /etc/gauntlet",
        &["before-setup-1"],
    );
    let said = tour.run("dpkg -P gauntlet; [ ! -e /etc/gauntlet ]");
    assert!(!said.contains("Postfix"), "{said}");
}
