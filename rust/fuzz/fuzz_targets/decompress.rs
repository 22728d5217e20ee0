#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| magicbyte_fuzz::targets::decompress::run(data));
