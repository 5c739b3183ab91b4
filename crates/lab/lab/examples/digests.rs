//! Prints the digests of a few small runs: the same from every build and on every machine. `cargo xtask ci lab`
//! compares a debug build with a release build.
#![forbid(unsafe_code)]

/// Shipped experiments whose runs take less than a second.
const SMALL: [&str; 3] = ["p1-htcp-sawtooth", "p2-abc", "dctcp-step"];

fn main() -> Result<(), lab::SpecError> {
    for experiment in lab::shipped()?.iter().filter(|experiment| SMALL.contains(&experiment.name.as_str())) {
        for task in experiment.tasks(Some(1))? {
            let digest = lab::run(&task)?.digest();
            println!("{digest} {} {} {}", experiment.name, lab::typed(&task.point), task.seed);
        }
    }
    Ok(())
}
