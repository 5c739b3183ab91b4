//! Goal: lines of several processes become one account, whatever ended without a word.
use super::*;

const LINES: &str = "open\t7\tnginx\nlisten\t7\t0.0.0.0:80\nopen\t8\tnginx\nlisten\t8\t0.0.0.0:80\nnonsense\n\
                         kernel\t9\t/bin/static\tis linked statically\nkernel\t9\t/bin/static\tis linked statically\n\
                         end\t8\t20\t3\t1000\t5000\t2\n";

#[test]
fn lines_of_several_processes_are_one_account() {
    let told = Told::of(LINES);
    assert_eq!(
        told.text(),
        "millstream: on the stack: listened at 0.0.0.0:80, 20 connections accepted, 3 made, 1000 bytes in, 5000 \
             out, by 2 processes\n\
             millstream: not counted: what 1 process did, killed\n\
             millstream: on the kernel: 2 connections, over the loopback or where the link does not lead\n\
             millstream: on the kernel: /bin/static: is linked statically\n"
    );
    let json = told.json();
    assert_eq!((json["accepted"].as_u64(), json["untold"].as_u64()), (Some(20), Some(1)));
    assert_eq!(json["fallbacks"][0]["times"], 2);
    assert_eq!(Told::of("").text(), "millstream: nothing was on the stack\n");
}

#[test]
fn nothing_is_told_of_a_program_that_was_not_run() {
    assert!(Told::of("void\t7\n").is_void && !Told::of(LINES).is_void);
}
