//! Attacks, and the service that honest clients keep: on the network in virtual time, on the machine by real
//! processes.

use crate::{Outcome, run};

/// A threat on the machine, and the tests that hold it: package, target, names.
struct Threat {
    what: &'static str,
    package: &'static str,
    target: &'static str,
    names: &'static [&'static str],
}

const fn cli(what: &'static str, target: &'static str, names: &'static [&'static str]) -> Threat {
    Threat { what, package: "millstream", target, names }
}

const THREATS: &[Threat] = &[
    cli(
        "FIFOs and files of other users where stacks meet; files of killed processes",
        "strangers",
        &["files_of_other_users_stop_no_stack", "files_of_killed_processes_are_swept"],
    ),
    cli(
        "hostile processes at the control socket",
        "control",
        &[
            "other_users_are_refused_in_words",
            "loading_and_writing_need_the_setting",
            "clients_that_say_nothing_delay_no_other",
            "a_process_without_descriptors_does_not_spin",
        ],
    ),
    cli("a program with capabilities is given code by its user", "elevated", &[]),
    cli(
        "kill -9 at any moment, beside another process",
        "sharing",
        &["a_process_that_is_killed_at_any_moment_takes_nothing_from_another"],
    ),
    Threat {
        what: "a panic in the core",
        package: "millstream-sock",
        target: "over",
        names: &[
            "threads_that_wait_in_direct_mode_hear_of_a_panic",
            "applications_of_a_stack_thread_hear_of_its_panic",
            "threads_of_a_hosted_program_hear_of_a_panic",
        ],
    },
    Threat {
        what: "a panic in the core, on an interface",
        package: "millstream-bench",
        target: "over",
        names: &["the_kernel_has_its_ports_back_after_a_panic"],
    },
];

/// Runs all of them. The error names those whose promise did not hold.
pub(crate) fn attacks(small: bool) -> Outcome {
    let mut wrong = Vec::new();
    let lab = ["run", "--quiet", "--release", "--locked", "--package", "millstream", "--", "lab", "attacks"];
    let sizes: &[&str] = if small { &["--small"] } else { &[] };
    if let Err(why) = run::cargo(&lab).args(sizes).check() {
        wrong.push(why);
    }
    let root = run::is_root()?;
    println!();
    for threat in THREATS {
        let verdict =
            if root { threat.run(if small { "6" } else { "300" }) } else { Ok("needs root".to_owned()) };
        println!("{:<76} {}", threat.what, verdict.as_ref().map_or("FAILS", String::as_str));
        wrong.extend(verdict.err());
    }
    if wrong.is_empty() { Ok(()) } else { Err(wrong.join("\n")) }
}

impl Threat {
    /// Runs the tests; what they say of themselves.
    fn run(&self, kills: &str) -> Result<String, String> {
        let test = [
            "test",
            "--quiet",
            "--locked",
            "--package",
            self.package,
            "--test",
            self.target,
            "--",
            "--nocapture",
        ];
        let said =
            run::cargo(&test).args(["--exact"]).args(self.names).env("MILLSTREAM_KILLS", kills).output()?;
        let passed = said.lines().find_map(|line| line.strip_prefix("test result: ok. ")?.split(' ').next());
        let passed = passed.and_then(|count| count.parse::<usize>().ok()).unwrap_or(0);
        if passed < self.names.len().max(1) {
            return Err(format!("{}: {passed} tests passed of {}:\n{said}", self.what, self.names.len()));
        }
        let line = said.lines().find_map(|line| line.find("processes killed").map(|_| line.trim()));
        Ok(format!("holds: {passed} tests{}", line.map(|line| format!("; {line}")).unwrap_or_default()))
    }
}
