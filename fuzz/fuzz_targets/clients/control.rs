#![no_main]
libfuzzer_sys::fuzz_target!(|data: &[u8]| isotherm_fuzz_targets::run("control", data));
