//! `rdt-send` and `rdt-recv` as a user runs them: processes, loopback sockets, files and signals.
//! Formats and values of their output are specified by the tests, not taken from the programs.

// Signals, pipes and modes of files are those of Unix.
#[cfg(unix)]
#[cfg(test)]
mod programs {
    mod data;
    mod printf;
    mod process;

    mod addresses;
    mod bad_input;
    mod broken_output;
    mod contract;
    #[cfg(target_os = "linux")]
    mod emulated;
    #[cfg(unix)]
    mod environment;
    #[cfg(target_os = "linux")]
    mod floods;
    mod help;
    #[cfg(unix)]
    mod interrupts;
    mod json;
    #[cfg(target_os = "linux")]
    mod kernel_tcp;
    #[cfg(target_os = "linux")]
    mod kernel_udp;
    mod keys;
    mod library;
    mod local;
    mod measure;
    mod names;
    mod native;
    mod native_options;
    #[cfg(target_os = "linux")]
    mod native_reverse;
    mod native_status_lines;
    mod output_files;
    mod paused_reader;
    mod receiver_modes;
    mod status_lines;
    #[cfg(target_os = "linux")]
    mod terminal;
}
