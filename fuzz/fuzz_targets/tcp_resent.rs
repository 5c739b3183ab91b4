#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::run("tcp_resent", data));
