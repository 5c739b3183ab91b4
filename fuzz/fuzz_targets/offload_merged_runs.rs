#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::run("offload_merged_runs", data));
