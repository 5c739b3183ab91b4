//! `net.inet.tcp`: every row of TCP's settings, as [`tcp::Config::ROWS`] has it. What begins or is decided from the
//! write on follows it, on connections that live too.

use super::{Access, Branch, Cores, Node, TreeError};

const PREFIX: &str = "net.inet.tcp";

pub(super) struct Settings;

/// The row of a name.
fn row(name: &str) -> Option<&'static tcp::Setting> {
    let key = name.strip_prefix(PREFIX)?.strip_prefix('.')?;
    tcp::Config::ROWS.iter().find(|row| row.name == key)
}

fn form(row: &tcp::Setting) -> String {
    let (min, max) = (row.bounds)();
    format!("{min} to {max}")
}

impl Branch for Settings {
    fn prefix(&self) -> &str {
        PREFIX
    }

    fn nodes(&self, _: &Cores) -> Vec<Node> {
        let node = |row: &tcp::Setting| Node {
            name: format!("{PREFIX}.{}", row.name),
            access: Access::ReadWrite,
            form: form(row),
            help: row.help.into(),
        };
        tcp::Config::ROWS.iter().map(node).collect()
    }

    fn get(&self, cores: &Cores, name: &str) -> Result<String, TreeError> {
        let value = row(name).and_then(|row| cores.first(|engine| engine.core().config().show(row.name)));
        value.ok_or_else(|| TreeError::Unknown(format!("there is no {name}")))
    }

    fn set(&self, cores: &Cores, name: &str, value: &str) -> Result<(), TreeError> {
        let Some(row) = row(name) else { return Err(TreeError::Unknown(format!("there is no {name}"))) };
        // The same text for the same row: what the first core refuses all refuse.
        let outcomes = cores.each(|engine| {
            let mut config = engine.core().config().clone();
            config.set(row.name, value).map(|()| engine.core().set_config(config))
        });
        let done: Result<(), _> = outcomes.into_iter().collect();
        done.map_err(|error| {
            let malformed = error == tcp::SettingError::Malformed;
            let what = if malformed { "cannot be read" } else { "is out of bounds" };
            TreeError::Invalid(format!("{name}: \"{value}\" {what}; it goes from {}", form(row)))
        })
    }
}
