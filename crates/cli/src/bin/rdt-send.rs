//! The program; everything is in the library.

fn main() -> std::process::ExitCode {
    rdt_cli::rdt_send(std::env::args_os())
}
