//! The stack, as Python holds it.

use crate::failure::because;
use crate::live::{Live, Way};
use base::Duration;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use serde_json::Value;
use sock::tree::{Node, TreeError};
use sock::{Settings, control, tcp_settings};
use std::path::Path;
use std::sync::Arc;

/// A user-level TCP stack on a link.
#[pyclass(subclass, frozen, weakref, module = "millstream._millstream")]
pub(crate) struct Stack {
    way: Arc<Way>,
}

impl Stack {
    pub(crate) fn way(&self) -> &Arc<Way> {
        &self.way
    }
}

/// Reads settings from file, environment and list, in this order: the later wins.
fn read(file: Option<&str>, list: &[(String, String)]) -> Result<Settings, sock::SettingError> {
    let mut settings = Settings::default();
    if let Some(path) = file {
        settings.from_file(Path::new(path))?;
    }
    settings.from_environment()?;
    for (name, value) in list {
        settings.set(name, value)?;
    }
    Ok(settings)
}

fn untold(error: TreeError) -> PyErr {
    because(error.errno().raw(), &error.to_string())
}

/// Every setting that `open` takes: name, form, what it does.
#[pyfunction(name = "_settings")]
pub(crate) fn settings() -> Vec<(&'static str, String, &'static str)> {
    let own = Settings::ROWS.iter().map(|row| (row.key, row.form.to_owned(), row.help));
    let tcp = tcp_settings().iter().map(|row| {
        let (least, most) = (row.bounds)();
        (row.name, format!("{least} to {most}"), row.help)
    });
    own.chain(tcp).collect()
}

#[pymethods]
impl Stack {
    /// Opens one: names and values of settings, and a TOML file with more of them.
    #[new]
    #[pyo3(signature = (settings, config = None))]
    fn new(py: Python<'_>, settings: Vec<(String, String)>, config: Option<&str>) -> PyResult<Self> {
        let settings = read(config, &settings).map_err(|e| PyValueError::new_err(e.0))?;
        let live = py.detach(|| Live::open(&settings)).map_err(|e| because(e.errno().raw(), &e.0))?;
        Ok(Stack { way: Way::to(live) })
    }

    /// Counters, table sizes and memory, as JSON.
    fn _stats(&self, py: Python<'_>) -> PyResult<String> {
        let live = self.way.live()?;
        let stats = py.detach(|| live.ask(|engine| control::stats(engine).to_string()));
        Ok(stats.unwrap_or_default())
    }

    /// Listeners, connections and TIME-WAIT entries, as JSON.
    fn _connections(&self, py: Python<'_>) -> PyResult<String> {
        let live = self.way.live()?;
        let rows = py.detach(|| live.ask(|engine| Value::from(control::rows(engine)).to_string()));
        Ok(rows.unwrap_or_default())
    }

    /// The value of a name of the tree of what runs.
    fn sysctl(&self, py: Python<'_>, name: &str) -> PyResult<String> {
        let live = self.way.live()?;
        py.detach(|| live.tree.get(name)).map_err(untold)
    }

    /// Sets it.
    fn set_sysctl(&self, py: Python<'_>, name: &str, value: &str) -> PyResult<()> {
        let live = self.way.live()?;
        py.detach(|| live.tree.set(name, value)).map_err(untold)?;
        Ok(())
    }

    /// The names below a prefix, as JSON.
    fn _sysctls(&self, py: Python<'_>, prefix: &str) -> PyResult<String> {
        let live = self.way.live()?;
        let nodes = py.detach(|| live.tree.list(prefix)).map_err(untold)?;
        Ok(Value::from(nodes.iter().map(Node::json).collect::<Vec<_>>()).to_string())
    }

    /// Closes every socket and, when what they left behind has reached the peers or after `linger` seconds, the link.
    /// Did everything?
    #[pyo3(signature = (linger = 1.0))]
    fn _close(&self, py: Python<'_>, linger: f64) -> PyResult<bool> {
        let linger =
            Duration::try_from_secs_f64(linger.max(0.0)).map_err(|e| PyValueError::new_err(e.to_string()))?;
        let Some(live) = self.way.take()? else { return Ok(true) };
        py.detach(|| live.end(linger)).map_err(crate::failure::os_error)
    }

    /// Is it closed?
    #[getter]
    fn closed(&self) -> bool {
        self.way.if_live().is_none()
    }
}
