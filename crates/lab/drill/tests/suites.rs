//! Goal: the stack does what every script under suites/ says, under every profile that the script is meant for. Each
//! script is a test with its own name; its head cites the law.

use ::drill::run::{Config, Outcome, Profile};
use ::drill::suite::run_file;
use std::path::Path;

fn drill(path: &str, profile: &str) {
    let profile = Profile::named(profile).expect("the build script knows the profiles");
    let report = run_file(Path::new(path), &Config { profile, ..Config::default() });
    match report.outcome {
        Outcome::Passed => {}
        Outcome::Failed { line, why } => {
            panic!("{path}:{line}: {why}\n{}", report.timeline.join("\n"));
        }
        Outcome::Unsupported(what) => panic!("{path}: unsupported: {what}"),
    }
}

include!(concat!(env!("OUT_DIR"), "/suites.rs"));
