//! Goal: a command with file capabilities, run by a user who lacks them, reads no settings from that user's environment
//! and loads no code for that user.
//!
//! Needs root, to give a file capabilities and to be another user; without it the test says that it was skipped.

use bench::bed::{copy_program, is_root, sh};
use serde_json::Value;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

const MILLSTREAM: &str = env!("CARGO_BIN_EXE_millstream");

/// A library that leaves a file when it is mapped, and is no policy.
const LIBRARY: &str = "
#include <fcntl.h>
__attribute__((constructor)) static void mapped(void) { open(MARK, O_CREAT | O_WRONLY, 0666); }
";

struct Place(PathBuf);

impl Drop for Place {
    fn drop(&mut self) {
        // What is left over lies in the directory of temporary files.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

impl Place {
    fn path(&self, name: &str) -> String {
        self.0.join(name).to_string_lossy().into_owned()
    }

    /// Runs a copy of the command as the user nobody.
    fn run(&self, command: &str, variables: &[(&str, &str)], args: &[&str]) -> Output {
        let mut all = Command::new("timeout");
        all.args(["60", "setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups"]);
        all.arg(self.path(command)).args(args).envs(variables.iter().copied());
        all.output().expect("timeout runs")
    }

    /// Returns true if the library was mapped since the last call.
    fn was_loaded(&self) -> bool {
        let mark = self.0.join("marks/mark");
        let loaded = mark.exists();
        if loaded {
            std::fs::remove_file(mark).expect("it is there");
        }
        loaded
    }
}

fn open_to_all(path: &Path) {
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o1777)).expect("a mode");
}

/// The value of the setting `cores`, as `millstream settings` shows it.
fn cores(output: &Output) -> String {
    let values: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    values["cores"].as_str().expect("a setting").to_owned()
}

#[test]
fn a_command_with_capabilities_heeds_no_environment_and_loads_nothing() {
    if !is_root() {
        return;
    }
    let place = Place(std::env::temp_dir().join(format!("ms-elevated-{}", std::process::id())));
    std::fs::create_dir_all(place.0.join("marks")).expect("a directory");
    open_to_all(&place.0);
    open_to_all(&place.0.join("marks"));
    for copy in ["plain", "capable"] {
        copy_program(MILLSTREAM, &place.0.join(copy)).expect("a copy");
    }
    sh("setcap", &["cap_net_raw+ep", &place.path("capable")]).expect("root may give capabilities");
    std::fs::write(place.0.join("library.c"), LIBRARY).expect("a file");
    let (library, mark) = (place.path("library.so"), place.path("marks/mark"));
    let define = format!("-DMARK=\"{mark}\"");
    sh("cc", &["-shared", "-fPIC", &define, "-o", &library, &place.path("library.c")]).expect("it compiles");
    let config = place.path("config.toml");
    std::fs::write(&config, format!("cores = 2\ncc_load = [\"{library}\"]\n")).expect("a file");

    let serve = ["serve", "--link", &format!("shm:{}", place.path("link")), "--address", "10.9.0.1/24"];
    let flag = format!("cc_load={library}");
    let tree = format!("sysctl=net.inet.tcp.cc.load={library}");
    /// Variables and arguments.
    type Way<'a> = (&'a [(&'a str, &'a str)], &'a [&'a str]);
    let ways: [Way<'_>; 5] = [
        (&[("MILLSTREAM_CC_LOAD", &library)], &["--set", "metrics=no address"]),
        (&[("MILLSTREAM_CONFIG", &config)], &["--set", "metrics=no address"]),
        (&[], &["--config", &config]),
        (&[], &["--set", &flag]),
        (&[], &["--set", &tree]),
    ];
    for (variables, more) in ways {
        let args = [&serve[..], more].concat();
        // Without capabilities the library is mapped, and refused for want of a policy.
        let output = place.run("plain", variables, &args);
        assert!(place.was_loaded(), "{variables:?} {more:?}: {output:?}");
        let output = place.run("capable", variables, &args);
        assert!(!place.was_loaded(), "{variables:?} {more:?}: {output:?}");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(said.contains("rights that its caller lacks"), "{variables:?} {more:?}: {said}");
        assert!(!output.status.success(), "{output:?}");
    }

    for variable in [("MILLSTREAM_CORES", "2"), ("MILLSTREAM_CONFIG", &config)] {
        let plain = place.run("plain", &[variable], &["settings", "--json"]);
        let capable = place.run("capable", &[variable], &["settings", "--json"]);
        assert_eq!((cores(&plain).as_str(), cores(&capable).as_str()), ("2", "1"), "{variable:?}");
        let said = String::from_utf8_lossy(&capable.stderr);
        assert!(said.contains(variable.0) && said.contains("not read"), "{said}");
    }
    // The process that reports the end of a launch reads and removes the file that its environment names.
    let report = [("MILLSTREAM_TELLER", "then:0:text"), ("MILLSTREAM_REPORT", &config)];
    let settings = ["settings", "--json"];
    assert!(place.run("plain", &report, &settings).stdout.is_empty(), "it reported");
    assert_eq!(cores(&place.run("capable", &report, &settings)), "1");
    let run = place.path("run");
    let said = |command| {
        let output = place.run(command, &[("MILLSTREAM_RUN", &run)], &["ss", "--pid", "1"]);
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    assert!(said("plain").contains(&run) && !said("capable").contains(&run), "{}", said("capable"));
    let output = place.run("capable", &[], &["run", "--link", "packet:lo", "--", "true"]);
    assert!(String::from_utf8_lossy(&output.stderr).contains("sudo millstream run"), "{output:?}");
}
