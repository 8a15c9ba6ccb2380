//! `rdt-send` and `rdt-recv` as a user runs them: real processes, loopback sockets, files and signals. What
//! they print is read by formats and values that are written down here and not taken from the programs.

#[cfg(test)]
mod programs {
    mod data;
    mod printf;
    mod process;

    mod bad_input;
    mod broken_output;
    #[cfg(unix)]
    mod edges;
    mod help;
    #[cfg(unix)]
    mod interrupts;
    mod json;
    mod keeping;
    mod lines;
    mod local;
    mod modes;
    mod native;
    mod native_input;
    mod native_lines;
    mod paused;
    mod peers;
}
