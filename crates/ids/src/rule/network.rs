//! Addresses and ports as rules, variables and threshold.config write them: lists in brackets,
//! negation, ranges, networks, `$VARIABLES`.

use std::net::{Ipv4Addr, Ipv6Addr};

use super::address::AddressSet;
use super::interval::Intervals;
use super::port::PortSet;

/// Deepest nesting of brackets and variables.
const DEPTH_MAX: u32 = 64;

/// Values of `$VARIABLES`.
pub(crate) trait Variables {
    /// The text of an address group.
    fn address_group(&self, name: &str) -> Option<&str>;
    /// The text of a port group.
    fn port_group(&self, name: &str) -> Option<&str>;
}

/// Addresses, and whether any of them was negated (which decides the kind of rule).
pub(crate) fn addresses(
    text: &str,
    variables: &dyn Variables,
) -> Result<(AddressSet, bool), String> {
    let list = Lists { what: What::Address, variables }.read(text)?;
    let has_negation = list.excluded.iter().any(|set| !set.is_empty());
    let merged = list.merge(What::Address)?;
    let [v4, v6] = merged;
    let v4 = v4.0.iter().map(|&(low, high)| (low as u32, high as u32)).collect();
    Ok((AddressSet { v4, v6: v6.0 }, has_negation))
}

/// Ports.
pub(crate) fn ports(text: &str, variables: &dyn Variables) -> Result<PortSet, String> {
    let list = Lists { what: What::Port, variables }.read(text)?;
    let [ports, _] = list.merge(What::Port)?;
    let intervals = ports.0.iter().map(|&(low, high)| (low as u16, high as u16)).collect();
    Ok(PortSet { intervals })
}

#[derive(Clone, Copy, PartialEq)]
enum What {
    Address,
    Port,
}

impl What {
    fn name(self) -> &'static str {
        match self {
            What::Address => "address",
            What::Port => "port",
        }
    }
}

/// IPv4 and IPv6; ports use the first alone.
type Pair = [Intervals; 2];

#[derive(Default)]
struct List {
    included: Pair,
    excluded: Pair,
}

impl List {
    /// What is included less what is excluded; all of a family of which only exclusions are named.
    fn merge(self, what: What) -> Result<Pair, String> {
        let List { mut included, excluded } = self;
        let maxima = match what {
            What::Address => [u128::from(u32::MAX), u128::MAX],
            What::Port => [u128::from(u16::MAX), 0],
        };
        for ((set, cut), max) in included.iter_mut().zip(&excluded).zip(maxima) {
            if set.is_empty() && !cut.is_empty() {
                *set = Intervals::all(max);
            }
            set.subtract(cut);
        }
        if included.iter().all(Intervals::is_empty) {
            let what = what.name();
            return Err(format!("nothing is left of the {what} list after its negations"));
        }
        Ok(included)
    }
}

struct Lists<'a> {
    what: What,
    variables: &'a dyn Variables,
}

impl Lists<'_> {
    fn read(&self, text: &str) -> Result<List, String> {
        let mut list = List::default();
        self.items(text, false, &mut list, 0)?;
        Ok(list)
    }

    fn items(&self, text: &str, negated: bool, list: &mut List, depth: u32) -> Result<(), String> {
        if depth > DEPTH_MAX {
            let what = self.what.name();
            return Err(format!("{what} lists and variables are nested deeper than {DEPTH_MAX}"));
        }
        for item in split(text, self.what)? {
            let item = item.trim_start();
            let stripped = item.strip_prefix('!');
            if self.what == What::Port && item.contains(":!") {
                return Err("a port range cannot contain a negated value".to_owned());
            }
            let excluded = negated != stripped.is_some();
            let item = stripped.unwrap_or(item).trim_start();
            self.item(item, excluded, list, depth + 1)?;
        }
        Ok(())
    }

    fn item(&self, item: &str, excluded: bool, list: &mut List, depth: u32) -> Result<(), String> {
        let block = item.strip_prefix('[').and_then(|rest| rest.trim_end().strip_suffix(']'));
        let nested = match (block, item.strip_prefix('$')) {
            (Some(block), _) => Some(block),
            (None, Some(name)) => Some(self.variable(name)?),
            (None, None) => None,
        };
        match nested {
            Some(nested) if !excluded => self.items(nested, false, list, depth),
            Some(nested) => {
                // The negation of a list with exceptions of its own includes these.
                let mut inner = List::default();
                self.items(nested, false, &mut inner, depth)?;
                let merged = inner.merge(self.what)?;
                for (set, more) in list.excluded.iter_mut().zip(&merged) {
                    set.extend(more);
                }
                Ok(())
            }
            None => {
                let target = if excluded { &mut list.excluded } else { &mut list.included };
                match self.what {
                    What::Address => address(item, target),
                    What::Port => port(item, target),
                }
            }
        }
    }

    fn variable(&self, name: &str) -> Result<&str, String> {
        let (kind, value) = match self.what {
            What::Address => ("address-groups", self.variables.address_group(name)),
            What::Port => ("port-groups", self.variables.port_group(name)),
        };
        match value {
            None => Err(format!("variable {name:?} is not defined below vars.{kind}")),
            Some("") => Err(format!("variable {name:?} is empty; quote a value with !")),
            Some(value) => Ok(value),
        }
    }
}

/// Splits at commas outside brackets.
fn split(text: &str, what: What) -> Result<Vec<&str>, String> {
    let mut items = Vec::new();
    let (mut start, mut depth) = (0, 0_i32);
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            b'[' => depth += 1,
            b']' => depth -= 1,
            b',' if depth == 0 => {
                items.push(text.get(start..at).unwrap_or_default());
                start = at + 1;
            }
            _ => {}
        }
        if depth < 0 {
            break;
        }
    }
    if depth != 0 {
        let what = what.name();
        return Err(format!("the brackets of the {what} list {text:?} do not match"));
    }
    items.push(text.get(start..).unwrap_or_default());
    Ok(items)
}

fn address(item: &str, target: &mut Pair) -> Result<(), String> {
    let [v4, v6] = target;
    if item.eq_ignore_ascii_case("any") {
        v4.insert(0, u128::from(u32::MAX));
        v6.insert(0, u128::MAX);
        return Ok(());
    }
    let bad = || format!("failed to parse address {item:?}");
    let is_v6 = item.contains(':');
    let number = |text: &str| match is_v6 {
        true => text.parse::<Ipv6Addr>().ok().map(u128::from),
        false => text.parse::<Ipv4Addr>().ok().map(|a| u128::from(u32::from(a))),
    };
    let (low, high) = if let Some((network, mask)) = item.split_once('/') {
        let bits = if is_v6 { 128 } else { 32 };
        let prefix = prefix_length(mask, bits).ok_or_else(bad)?;
        let base = number(network).ok_or_else(bad)?;
        let host = match bits - prefix {
            128 => u128::MAX,
            free => (1_u128 << free) - 1,
        };
        (base & !host, base | host)
    } else if let Some((first, last)) = item.split_once('-') {
        (number(first).ok_or_else(bad)?, number(last).ok_or_else(bad)?)
    } else {
        let one = number(item).ok_or_else(bad)?;
        (one, one)
    };
    if low > high {
        return Err(bad());
    }
    if is_v6 {
        v6.insert(low, high);
    } else {
        v4.insert(low, high);
    }
    Ok(())
}

/// A length in bits, or a netmask of IPv4 without gaps.
fn prefix_length(mask: &str, bits: u32) -> Option<u32> {
    if bits == 32 && mask.contains('.') {
        let mask = u32::from(mask.parse::<Ipv4Addr>().ok()?);
        return (mask.leading_ones() + mask.trailing_zeros() == 32).then(|| mask.leading_ones());
    }
    let is_number = !mask.is_empty() && mask.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| mask.parse().ok())?.filter(|&length| length <= bits)
}

fn port(item: &str, target: &mut Pair) -> Result<(), String> {
    let [ports, _] = target;
    let bad = || format!("failed to parse port {item:?}");
    let number = |text: &str, default: u16| match text {
        "" => Some(default),
        // As strtoull reads it: spaces before the digits.
        text => text.trim_start().parse::<u16>().ok(),
    };
    let (low, high) = if item.eq_ignore_ascii_case("any") {
        (0, u16::MAX)
    } else if let Some((low, high)) = item.split_once(':') {
        (number(low, 0).ok_or_else(bad)?, number(high, u16::MAX).ok_or_else(bad)?)
    } else {
        let one = item.trim_start().parse::<u16>().map_err(|_| bad())?;
        (one, one)
    };
    if low > high {
        return Err(bad());
    }
    ports.insert(u128::from(low), u128::from(high));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Table;

    impl Variables for Table {
        fn address_group(&self, name: &str) -> Option<&str> {
            match name {
                "HOME" => Some("[192.168.0.0/16,10.0.0.0/8,!10.1.1.1]"),
                "EXTERNAL" => Some("!$HOME"),
                "LOOP" => Some("$LOOP"),
                _ => None,
            }
        }
        fn port_group(&self, name: &str) -> Option<&str> {
            (name == "HTTP").then_some("[80,8080:8090]")
        }
    }

    fn has(text: &str, address: &str) -> bool {
        addresses(text, &Table).expect(text).0.contains(address.parse().unwrap())
    }

    #[test]
    fn addresses_are_included_and_excluded() {
        assert!(has("any", "1.2.3.4") && has("any", "::1"));
        assert!(has("$HOME", "10.2.3.4") && !has("$HOME", "10.1.1.1"));
        // The exception of a negated list is in.
        assert!(has("$EXTERNAL", "10.1.1.1") && !has("$EXTERNAL", "192.168.1.1"));
        assert!(!has("$EXTERNAL", "::1"), "only families that are named are negated");
        assert!(has("[1.1.1.1,!1.1.1.2,2.0.0.0-2.0.0.9]", "2.0.0.9"));
        assert!(has("![10.0.0.0/8,!10.0.0.5]", "10.0.0.5"));
        assert!(has("!1.2.3.4", "1.2.3.5") && !has("!1.2.3.4", "1.2.3.4"));
        assert!(has("1.2.3.0/255.255.255.0", "1.2.3.200"));
        assert!(has("2001:db8::/32", "2001:db8:1::5"));
    }

    #[test]
    fn bad_lists_are_told() {
        let bad = ["!any", "[1.2.3.4", "1.2.3.4]", "$NO", "$LOOP", "1.2.3.256", "1.1.1.1/33"];
        for text in bad {
            assert!(addresses(text, &Table).is_err(), "{text}");
        }
        assert!(addresses("1.2.3.4/255.0.255.0", &Table).is_err());
        for text in ["80:!90", "90:80", "65536", "[80", "!any", "x", "[80,!80]"] {
            assert!(ports(text, &Table).is_err(), "{text}");
        }
    }

    #[test]
    fn ports_are_included_and_excluded() {
        let has = |text: &str, port| ports(text, &Table).expect(text).contains(port);
        assert!(has("any", 0) && has("$HTTP", 8085) && !has("!$HTTP", 8085));
        assert!(has("1024:", 65535) && has(":100", 0) && !has("[1:100,!50:60]", 55));
    }
}
