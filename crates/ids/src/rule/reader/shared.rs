//! What all rules of a set share while they are read.

use std::collections::HashMap;
use std::sync::Arc;

use crate::bytes::transform::Transform;
use crate::config::Settings;
use crate::rule::network::Variables;
use crate::rule::{BufferKey, BufferUse, Class, protocol};

/// Numbers for names, in the order of their first use.
#[derive(Debug, Default)]
pub(crate) struct Numbers {
    names: Vec<String>,
    numbers: HashMap<String, u32>,
}

impl Numbers {
    /// The number of a name.
    pub(crate) fn of(&mut self, name: &str) -> u32 {
        if let Some(&number) = self.numbers.get(name) {
            return number;
        }
        let number = self.names.len() as u32;
        self.names.push(name.to_owned());
        self.numbers.insert(name.to_owned(), number);
        number
    }

    /// Gives names the numbers that they have elsewhere; nothing has one yet.
    pub(crate) fn begin_with(&mut self, names: &[String]) {
        for name in names {
            self.of(name);
        }
    }

    /// All names by their number.
    pub(crate) fn into_names(self) -> Vec<String> {
        self.names
    }
}

/// What all rules of a set share while they are read.
#[derive(Debug, Default)]
pub(crate) struct Shared {
    uses: Vec<BufferUse>,
    pub(crate) settings: Settings,
    pub(crate) flowbits: Numbers,
    pub(crate) xbits: Numbers,
    pub(crate) variables: Numbers,
    pub(crate) classes: HashMap<String, Arc<Class>>,
    pub(crate) references: HashMap<String, String>,
    pub(crate) pcre_limits: (u32, u32),
    pub(crate) datasets: Vec<Arc<crate::rule::matches::DatasetDeclaration>>,
    /// Names of protocols that are detected.
    enabled: Vec<&'static str>,
}

/// Limits of `pcre`, unless `/O` asks for those of the configuration.
pub(crate) const PCRE_LIMITS: (u32, u32) = (3500, 1500);

impl Shared {
    pub(crate) fn new(settings: &Settings) -> Self {
        let limit = |key: &str, default: u32| settings.number(key).unwrap_or(default);
        let mut shared = Shared {
            settings: settings.clone(),
            pcre_limits: (
                limit("pcre.match-limit", PCRE_LIMITS.0),
                limit("pcre.match-limit-recursion", PCRE_LIMITS.1),
            ),
            ..Shared::default()
        };
        for info in protocol::PROTOCOLS {
            if settings.is_protocol_enabled(info.setting, info.is_default) {
                shared.enabled.push(info.name);
            }
        }
        shared
    }

    /// Whether flows of this protocol can exist.
    pub(crate) fn is_enabled(&self, protocol: &str) -> bool {
        self.enabled.iter().any(|enabled| protocol::applies(protocol, enabled))
    }

    /// Whether fingerprints of TLS clients (`ja3`, `ja4`) may be made.
    pub(crate) fn has_fingerprints(&self, kind: &str) -> bool {
        let key = format!("app-layer.protocols.tls.{kind}-fingerprints");
        self.settings.flag(&key) != Some(false)
    }

    /// The number of a buffer with transforms.
    pub(crate) fn intern(
        &mut self,
        name: &'static str,
        transforms: Vec<Transform>,
        frame: Option<String>,
    ) -> BufferKey {
        let wanted = BufferUse { name, transforms, frame };
        let at = self.uses.iter().position(|known| *known == wanted).unwrap_or_else(|| {
            self.uses.push(wanted);
            self.uses.len() - 1
        });
        BufferKey(at as u16)
    }

    /// What a number stands for.
    pub(crate) fn buffer_use(&self, key: BufferKey) -> Option<&BufferUse> {
        self.uses.get(usize::from(key.0))
    }

    /// All of them.
    pub(crate) fn into_parts(self) -> (Vec<BufferUse>, Numbers, Numbers, Numbers) {
        (self.uses, self.flowbits, self.xbits, self.variables)
    }
}

impl Variables for Shared {
    fn address_group(&self, name: &str) -> Option<&str> {
        self.settings.get(&format!("vars.address-groups.{name}"))
    }

    fn port_group(&self, name: &str) -> Option<&str> {
        self.settings.get(&format!("vars.port-groups.{name}"))
    }
}
