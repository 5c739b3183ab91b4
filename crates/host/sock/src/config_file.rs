//! Settings from a TOML file: one key a line, lists as arrays of strings. Keys with dots, such as names of the run-time
//! tree, are tables in tables.

use crate::settings::{SettingError, Settings};
use std::fmt::Display;
use std::path::Path;

impl Settings {
    /// Takes every key of the file; what is wrong is told with the file's name.
    pub fn from_file(&mut self, path: &Path) -> Result<(), SettingError> {
        let refuse = |e: &dyn Display| SettingError(format!("{}: {e}", path.display()));
        let text = std::fs::read_to_string(path).map_err(|e| refuse(&e))?;
        let table: toml::Table = text.parse().map_err(|e| refuse(&e))?;
        self.take(&table, "", &refuse)
    }

    fn take(
        &mut self,
        table: &toml::Table,
        prefix: &str,
        refuse: &dyn Fn(&dyn Display) -> SettingError,
    ) -> Result<(), SettingError> {
        for (key, value) in table {
            let key = &format!("{prefix}{key}");
            let text = match value {
                toml::Value::Table(below) => {
                    self.take(below, &format!("{key}."), refuse)?;
                    continue;
                }
                toml::Value::String(text) => text.clone(),
                toml::Value::Array(items) => {
                    let texts: Option<Vec<_>> = items.iter().map(toml::Value::as_str).collect();
                    texts.ok_or_else(|| refuse(&format!("{key}: write the items as strings")))?.join(",")
                }
                other => other.to_string(),
            };
            self.set(key, &text).map_err(|e| refuse(&e))?;
        }
        Ok(())
    }
}
