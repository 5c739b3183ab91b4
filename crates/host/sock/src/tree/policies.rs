//! `net.inet.tcp.cc`: which congestion control policies there are, which is the default, how they are tuned, and how
//! they come and go.
//!
//! A policy's tunables are those of connections that begin from the write on; connections that live keep theirs.

use super::{Access, Branch, Cores, Node, TreeError};
use crate::Engine;
use cc::{RemoveError, SetError, TunableError};
use policy::{Library, LoadError};
use std::path::Path;
use std::sync::Arc;

const PREFIX: &str = "net.inet.tcp.cc";

pub(super) struct Policies;

/// A name that does not depend on which policies there are.
struct Fixed {
    name: &'static str,
    access: Access,
    form: &'static str,
    help: &'static str,
    get: fn(&Cores) -> String,
    set: fn(&Cores, &str) -> Result<(), TreeError>,
}

const A_POLICY: &str = "a name of net.inet.tcp.cc.available";

/// FreeBSD has it beside the policies; NewReno, which is always there, obeys it.
const ABE: &str = "abe";
const ABE_LOSSES: &str = "abe_frlossreduce";

const ALLOW_UNFAIR: &str = "allow_unfair";

const FIXED: &[Fixed] = &[
    Fixed {
        name: "algorithm",
        access: Access::ReadWrite,
        form: A_POLICY,
        help: "The policy of connections that ask for none.",
        get: |cores| cores.first(|engine| engine.core().default_control().to_string()),
        set: set_default,
    },
    Fixed {
        name: "available",
        access: Access::Read,
        form: "names, separated by commas",
        help: "The policies that connections may have.",
        get: |cores| cores.first(offered).join(", "),
        set: read_only,
    },
    Fixed {
        name: ALLOW_UNFAIR,
        access: Access::ReadWrite,
        form: "0 to 1",
        help: "Is congestion control offered that takes the share of several flows (mulwin, multcp)? Connections that \
               have it keep it.",
        get: |cores| {
            let allowed = cores.first(|engine| engine.core().controls().allows_unfair());
            u8::from(allowed).to_string()
        },
        set: allow_unfair,
    },
    Fixed {
        name: "policies",
        access: Access::Read,
        form: "names with * at the default, how many connections use each, and whether it is withdrawn",
        help: "Every policy and who uses it, on all cores.",
        get: |cores| {
            let rows = rows(cores).into_iter().map(|row| {
                let default = if row.default { "*" } else { "" };
                let quiesced = if row.quiesced { " withdrawn" } else { "" };
                format!("{}{default} {}{quiesced}", row.name, row.connections)
            });
            rows.collect::<Vec<_>>().join(", ")
        },
        set: read_only,
    },
    Fixed {
        name: ABE,
        access: Access::ReadWrite,
        form: "0 to 1",
        help: "Does a mark take less of newreno's window than a loss (RFC 8511)? The same as newreno.abe.",
        get: |cores| tunable(cores, cc::REFUGE, ABE).unwrap_or_default(),
        set: |cores, value| set_number(cores, "net.inet.tcp.cc.abe", cc::REFUGE, ABE, value),
    },
    Fixed {
        name: ABE_LOSSES,
        access: Access::ReadWrite,
        form: "0 to 1",
        help: "With abe, does a loss of the window that was marked take the rest of what a loss takes? The same as \
               newreno.abe_frlossreduce.",
        get: |cores| tunable(cores, cc::REFUGE, ABE_LOSSES).unwrap_or_default(),
        set: |cores, value| {
            set_number(cores, "net.inet.tcp.cc.abe_frlossreduce", cc::REFUGE, ABE_LOSSES, value)
        },
    },
    Fixed {
        name: "load",
        access: Access::Write,
        form: "the path of a shared library",
        help: "Maps a library and offers the policy that it has (see millstream_cc.h).",
        get: |_| String::new(),
        set: load,
    },
    Fixed {
        name: "libraries",
        access: Access::Read,
        form: "names, each with its file (- if it is the program's own) and how often a window that it wanted made no \
               sense and was corrected",
        help: "The policies that came from shared libraries, or from the program, and that a thread still has.",
        get: |_| {
            let rows = Library::living().into_iter().map(|library| {
                let file = library.file().unwrap_or(Path::new("-")).display().to_string();
                format!("{} {file} {}", library.name(), library.corrections())
            });
            rows.collect::<Vec<_>>().join(", ")
        },
        set: read_only,
    },
    Fixed {
        name: "remove",
        access: Access::Write,
        form: A_POLICY,
        help: "Removes a policy that is not the default and that no connection and no listener uses.",
        get: |_| String::new(),
        set: remove,
    },
    Fixed {
        name: "remove_force",
        access: Access::Write,
        form: A_POLICY,
        help: "Removes a policy even while in use; connections that do go on with newreno, on their own core, with the \
               window that they have.",
        get: |_| String::new(),
        set: evict,
    },
];

/// A name that every policy has.
struct OfPolicy {
    name: &'static str,
    access: Access,
    form: &'static str,
    help: &'static str,
}

const CONNECTIONS: OfPolicy = OfPolicy {
    name: "connections",
    access: Access::Read,
    form: "a number",
    help: "Connections that use this policy, on all cores.",
};

const QUIESCED: OfPolicy = OfPolicy {
    name: "quiesced",
    access: Access::ReadWrite,
    form: "0 to 1",
    help: "Is this policy withdrawn? Then connections that use it keep it, and no new connection gets it.",
};

const OF_POLICY: [OfPolicy; 2] = [CONNECTIONS, QUIESCED];

impl Branch for Policies {
    fn prefix(&self) -> &str {
        PREFIX
    }

    fn reaches_out(&self, name: &str, _: &str) -> bool {
        name.strip_prefix(PREFIX) == Some(".load")
    }

    fn nodes(&self, cores: &Cores) -> Vec<Node> {
        let node = |name: String, access, form: &str, help: &str| Node {
            name: format!("{PREFIX}.{name}"),
            access,
            form: form.into(),
            help: help.into(),
        };
        let mut nodes: Vec<_> =
            FIXED.iter().map(|row| node(row.name.into(), row.access, row.form, row.help)).collect();
        let policies = cores.first(|engine| {
            let registry = engine.core().controls();
            let names: Vec<_> = registry.available().map(|row| row.name).collect();
            names
                .into_iter()
                .map(|name| (name, registry.tunables(name).unwrap_or_default()))
                .collect::<Vec<_>>()
        });
        for (policy, tunables) in policies {
            nodes.extend(
                OF_POLICY
                    .iter()
                    .map(|row| node(format!("{policy}.{}", row.name), row.access, row.form, row.help)),
            );
            nodes.extend(tunables.into_iter().map(|(row, _)| {
                let form = format!("{} to {}", row.min, row.max);
                node(format!("{policy}.{}", row.name), Access::ReadWrite, &form, row.help)
            }));
        }
        nodes
    }

    fn get(&self, cores: &Cores, name: &str) -> Result<String, TreeError> {
        let gone = || TreeError::Unknown(format!("there is no {name}"));
        let (fixed, policy, leaf) = split(name).ok_or_else(gone)?;
        if let Some(row) = fixed {
            return Ok((row.get)(cores));
        }
        let row = rows(cores).into_iter().find(|row| row.name == policy).ok_or_else(gone)?;
        if leaf == CONNECTIONS.name {
            return Ok(row.connections.to_string());
        }
        if leaf == QUIESCED.name {
            return Ok(u8::from(row.quiesced).to_string());
        }
        tunable(cores, policy, leaf).ok_or_else(gone)
    }

    fn set(&self, cores: &Cores, name: &str, value: &str) -> Result<(), TreeError> {
        let (fixed, policy, leaf) =
            split(name).ok_or_else(|| TreeError::Unknown(format!("there is no {name}")))?;
        if let Some(row) = fixed {
            return (row.set)(cores, value);
        }
        set_number(cores, name, policy, leaf, value)
    }
}

/// Returns the value of a tunable for new policies.
fn tunable(cores: &Cores, policy: &str, leaf: &str) -> Option<String> {
    let tunables = cores.first(|engine| engine.core().controls().tunables(policy)).unwrap_or_default();
    tunables.iter().find(|(row, _)| row.name == leaf).map(|(_, value)| value.to_string())
}

fn set_number(cores: &Cores, name: &str, policy: &str, leaf: &str, value: &str) -> Result<(), TreeError> {
    let number: i64 = value
        .parse()
        .map_err(|_| TreeError::Invalid(format!("{name}: \"{value}\" is not a whole number")))?;
    match leaf == QUIESCED.name {
        true => set_quiesced(cores, name, policy, number),
        false => set_tunable(cores, name, policy, leaf, number),
    }
}

/// A fixed row, or a policy and what of it.
fn split(name: &str) -> Option<(Option<&'static Fixed>, &str, &str)> {
    let rest = name.strip_prefix(PREFIX)?.strip_prefix('.')?;
    match FIXED.iter().find(|row| row.name == rest) {
        Some(row) => Some((Some(row), "", "")),
        None => rest.rsplit_once('.').map(|(policy, leaf)| (None, policy, leaf)),
    }
}

/// Every policy, with its connections on all cores.
fn rows(cores: &Cores) -> Vec<cc::Listed> {
    let per_core = cores.each(|engine| engine.core().controls().available().collect::<Vec<_>>());
    let mut per_core = per_core.into_iter();
    let mut rows = per_core.next().unwrap_or_default();
    for other in per_core.flatten() {
        if let Some(row) = rows.iter_mut().find(|row| row.name == other.name) {
            row.connections += other.connections;
        }
    }
    rows
}

fn read_only(_: &Cores, value: &str) -> Result<(), TreeError> {
    Err(TreeError::Access(format!("\"{value}\" cannot be written here")))
}

/// The policies that new connections of a core may have.
fn offered(engine: &mut Engine) -> Vec<&'static str> {
    engine.core().controls().available().filter(|row| row.offered).map(|row| row.name).collect()
}

fn missing(cores: &Cores, policy: &str) -> TreeError {
    let names = cores.first(offered).join(", ");
    TreeError::Missing(format!("no congestion control \"{policy}\" is offered; there are {names}"))
}

fn refused(cores: &Cores, policy: &str, error: RemoveError) -> TreeError {
    match error {
        RemoveError::Unknown => missing(cores, policy),
        RemoveError::Refuge => TreeError::Access(format!(
            "{policy} stays: connections whose policy is removed by force go on with it"
        )),
        RemoveError::IsDefault => {
            TreeError::Busy(format!("{policy} is the default: set {PREFIX}.algorithm to another first"))
        }
        RemoveError::InUse { connections } => TreeError::Busy(format!(
            "{connections} connections and listeners use {policy}; {PREFIX}.remove_force moves them to {}",
            cc::REFUGE
        )),
    }
}

fn set_default(cores: &Cores, policy: &str) -> Result<(), TreeError> {
    let done: Result<(), _> =
        cores.each(|engine| engine.core().controls().set_default(policy)).into_iter().collect();
    done.map_err(|why| match why {
        cc::Withheld::Unknown => missing(cores, policy),
        cc::Withheld::Unfair => TreeError::Access(format!(
            "{policy} takes the share of several flows: set {PREFIX}.{ALLOW_UNFAIR} to 1 if that is what you want"
        )),
    })
}

fn allow_unfair(cores: &Cores, value: &str) -> Result<(), TreeError> {
    let allow = match value {
        "0" => false,
        "1" => true,
        _ => return Err(TreeError::Invalid(format!("{PREFIX}.{ALLOW_UNFAIR}: \"{value}\" is not 0 or 1"))),
    };
    let done = cores.each(|engine| engine.core().controls().allow_unfair(allow)).into_iter();
    let done: Result<(), _> = done.collect();
    let default = || cores.first(|engine| engine.core().default_control());
    done.map_err(|error| refused(cores, default(), error))
}

fn set_quiesced(cores: &Cores, name: &str, policy: &str, number: i64) -> Result<(), TreeError> {
    let outcomes = match number {
        0 => cores.each(|engine| {
            engine.core().controls().resume(policy).map_err(|cc::Unknown| RemoveError::Unknown)
        }),
        1 => cores.each(|engine| engine.core().controls().quiesce(policy)),
        _ => {
            return Err(TreeError::Invalid(format!(
                "{name}: {number} is out of bounds; it goes from 0 to 1"
            )));
        }
    };
    let done: Result<(), _> = outcomes.into_iter().collect();
    done.map_err(|error| refused(cores, policy, error))
}

fn set_tunable(cores: &Cores, name: &str, policy: &str, leaf: &str, value: i64) -> Result<(), TreeError> {
    let outcomes = cores.each(|engine| engine.core().controls().set_tunable(policy, leaf, value));
    let done: Result<(), _> = outcomes.into_iter().collect();
    done.map_err(|error| match error {
        SetError::Policy => missing(cores, policy),
        SetError::Failed => TreeError::Busy(format!("{policy} cannot be made now")),
        SetError::Tunable(TunableError::Unknown) => TreeError::Unknown(format!("there is no {name}")),
        SetError::Tunable(TunableError::OutOfRange { min, max }) => {
            TreeError::Invalid(format!("{name}: {value} is out of bounds; it goes from {min} to {max}"))
        }
    })
}

fn load(cores: &Cores, path: &str) -> Result<(), TreeError> {
    let library = Library::open(Path::new(path))?;
    offer(cores, &library)
}

/// Offers a policy on all cores, or on none.
pub(super) fn offer(cores: &Cores, library: &Arc<Library>) -> Result<(), TreeError> {
    let offered = |engine: &mut Engine| library.register(engine.core().controls());
    // It was there for a moment, and a thread may have taken it.
    let withdrawn = |engine: &mut Engine| {
        let now = engine.time();
        let evicted = engine.core().evict_control(now, library.name());
        debug_assert!(evicted.is_ok(), "one change at a time: {evicted:?}");
    };
    Ok(cores.all_or_none(offered, withdrawn)?)
}

impl From<LoadError> for TreeError {
    fn from(error: LoadError) -> TreeError {
        let text = error.to_string();
        match error {
            LoadError::File(_) => TreeError::Missing(text),
            LoadError::Symbol(_) | LoadError::Version(_) | LoadError::Table(_) => TreeError::Invalid(text),
            LoadError::Exists(_) => TreeError::Exists(text),
            LoadError::Refused(_) => TreeError::Busy(text),
            LoadError::Elevated(_) => TreeError::Access(text),
        }
    }
}

/// No new connection gets it on any core; then it goes, if nothing on any core has it.
fn remove(cores: &Cores, policy: &str) -> Result<(), TreeError> {
    let before = rows(cores).iter().any(|row| row.name == policy && row.quiesced);
    set_quiesced(cores, "", policy, 1)?;
    let connections = cores.each(|engine| engine.core().control_users(policy)).into_iter().sum();
    let error = match connections {
        0 => {
            let outcomes = cores.each(|engine| engine.core().remove_control(policy));
            outcomes.into_iter().find_map(Result::err)
        }
        connections => Some(RemoveError::InUse { connections }),
    };
    let Some(error) = error else { return Ok(()) };
    if !before {
        set_quiesced(cores, "", policy, 0)?;
    }
    Err(refused(cores, policy, error))
}

fn evict(cores: &Cores, policy: &str) -> Result<(), TreeError> {
    let outcomes = cores.each(|engine| {
        let now = engine.time();
        engine.core().evict_control(now, policy)
    });
    let done: Result<Vec<u32>, _> = outcomes.into_iter().collect();
    done.map(|_| ()).map_err(|error| refused(cores, policy, error))
}
