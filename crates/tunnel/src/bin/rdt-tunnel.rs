//! The program; everything is in the library.

fn main() -> std::process::ExitCode {
    rdt_tunnel::rdt_tunnel(std::env::args_os())
}
