//! `net.inet.tcp.cc.hystartplusplus`: the numbers of RFC 9406 under FreeBSD's names. They are the stack's, so that a
//! change counts for connections that live, too.

use super::{Access, Branch, Cores, Node, TreeError};
use cc::{HyStartLimits, TunableError};

const PREFIX: &str = "net.inet.tcp.cc.hystartplusplus";

pub(super) struct HyStart;

fn leaf(name: &str) -> &str {
    name.strip_prefix(PREFIX).and_then(|rest| rest.strip_prefix('.')).unwrap_or_default()
}

impl Branch for HyStart {
    fn prefix(&self) -> &str {
        PREFIX
    }

    fn nodes(&self, _: &Cores) -> Vec<Node> {
        let node = |row: &cc::Tunable| Node {
            name: format!("{PREFIX}.{}", row.name),
            access: Access::ReadWrite,
            form: format!("{} to {}", row.min, row.max),
            help: row.help.into(),
        };
        HyStartLimits::rows().iter().map(node).collect()
    }

    fn get(&self, cores: &Cores, name: &str) -> Result<String, TreeError> {
        let number = cores.first(|engine| engine.core().config().hystart_limits.get(leaf(name)));
        number
            .map(|number| number.to_string())
            .ok_or_else(|| TreeError::Unknown(format!("there is no {name}")))
    }

    fn set(&self, cores: &Cores, name: &str, value: &str) -> Result<(), TreeError> {
        let number: i64 = value
            .parse()
            .map_err(|_| TreeError::Invalid(format!("{name}: \"{value}\" is not a whole number")))?;
        // All cores have the same limits: what the first refuses all refuse.
        let outcomes = cores.each(|engine| {
            let mut config = engine.core().config().clone();
            config.hystart_limits.set(leaf(name), number).map(|()| engine.core().set_config(config))
        });
        let done: Result<(), _> = outcomes.into_iter().collect();
        done.map_err(|error| match error {
            TunableError::Unknown => TreeError::Unknown(format!("there is no {name}")),
            TunableError::OutOfRange { min, max } => {
                TreeError::Invalid(format!("{name}: {number} is out of bounds; it goes from {min} to {max}"))
            }
        })
    }
}
