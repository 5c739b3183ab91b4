use std::fs::File;
use std::io::{Read, Write, pipe};
use std::os::fd::AsRawFd;
use std::sync::mpsc::channel;

#[test]
fn files_of_a_thread_apart_have_no_number_of_the_process() {
    let (mut read, mut write) = pipe().expect("a pipe");
    let end = write.as_raw_fd();
    let (go, wait) = channel::<()>();
    let (told, done) = channel();
    let file = File::open("/dev/zero").expect("a file");
    super::spawn_with("apart", file, move |mut file: File| {
        wait.recv().expect("a word");
        file.read_exact(&mut [0; 4]).expect("its file is open");
        // The process's pipe is not there.
        // SAFETY: numbers alone.
        assert_eq!(unsafe { libc::fcntl(end, libc::F_GETFD) }, -1);
        told.send(()).expect("it is waited for");
    })
    .expect("a thread");
    write.write_all(b"all").expect("it takes it");
    drop(write);
    // The other end is closed everywhere.
    let mut all = String::new();
    read.read_to_string(&mut all).expect("text");
    assert_eq!(all, "all");
    go.send(()).expect("it waits");
    done.recv().expect("what it looked for was so");
}
