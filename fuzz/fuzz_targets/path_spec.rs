#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| rdt_fuzz::path_spec::run(data));
