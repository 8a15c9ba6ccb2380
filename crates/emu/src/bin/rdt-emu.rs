//! The program; everything is in the library.

fn main() -> std::process::ExitCode {
    rdt_emu::rdt_emu(std::env::args_os())
}
