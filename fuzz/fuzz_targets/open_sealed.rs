#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| rdt_fuzz::open_sealed::run(data));
