//! Goal: the definition is sound, and what another program reads goes to it as it was given.
use super::*;

#[test]
fn arguments_of_other_programs_are_left_alone() {
    <Command as clap::CommandFactory>::command().debug_assert();
    for given in ["--all --only a,b", "all --seed 5 --release", "-h", "--help"] {
        match Command::parse_from(format!("xtask bench {given}").split(' ')) {
            Command::Bench(Passed { arguments }) => assert_eq!(arguments.join(" "), given),
            _ => panic!("{given}"),
        }
    }
}
