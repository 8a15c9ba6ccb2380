//! The program; everything is in the library.

fn main() -> std::process::ExitCode {
    rdt_lab::cli::main(std::env::args_os())
}
