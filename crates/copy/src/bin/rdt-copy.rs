//! The program `rdt-copy`.

use std::process::ExitCode;

fn main() -> ExitCode {
    rdt_program::signals::survive_file_size_limit();
    rdt_copy::rdt_copy(std::env::args_os())
}
