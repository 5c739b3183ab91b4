//! Goal: pipe(7)'s rules: atomic small writes, partial large ones, end and broken pipe.
use super::*;

#[test]
fn rules_of_pipe7() {
    let mut pipe = Pipe::default();
    let mut buf = [0; 8];
    assert_eq!(pipe.read(&mut buf), Err(Errno::EAGAIN));
    assert_eq!(pipe.write(b"hello"), Ok(5));
    assert_eq!(pipe.read(&mut buf), Ok(5));
    assert_eq!(&buf[..5], b"hello");
    assert_eq!(pipe.write(&vec![7; CAPACITY + 10]), Ok(CAPACITY));
    assert_eq!(pipe.write(b"x"), Err(Errno::EAGAIN));
    assert_eq!(pipe.read(&mut buf), Ok(8));
    assert_eq!(pipe.write(&[0; 9]), Err(Errno::EAGAIN), "small writes are all or nothing");
    assert!(!pipe.writable());
    pipe.writer_gone = true;
    let mut all = vec![0; CAPACITY];
    assert_eq!(pipe.read(&mut all), Ok(CAPACITY - 8));
    assert_eq!(pipe.read(&mut buf), Ok(0));
    pipe.reader_gone = true;
    assert_eq!(pipe.write(b"x"), Err(Errno::EPIPE));
}
