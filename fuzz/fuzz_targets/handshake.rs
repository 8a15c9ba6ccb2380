#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| rdt_fuzz::handshake::run(data));
