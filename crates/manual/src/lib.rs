//! Internal part of rdt: manual pages and shell completions of all programs, generated from their
//! command lines.
#![forbid(unsafe_code)]

mod completions;

use std::fs;
use std::io::{self, Write};
use std::path::Path;

use clap::Command;
use clap_complete::Shell;
use clap_mangen::Man;

/// Shells, each with prefix and suffix of a completion file's name.
const SHELLS: [(Shell, &str, &str); 4] = [
    (Shell::Bash, "", ""),
    (Shell::Zsh, "_", ""),
    (Shell::Fish, "", ".fish"),
    (Shell::PowerShell, "", ".ps1"),
];

/// Returns the command line of every program.
pub fn command_lines() -> Vec<Command> {
    let [send, recv] = rdt_cli::command_lines();
    vec![
        send,
        recv,
        rdt_copy::command_line(),
        rdt_emu::command_line(),
        rdt_lab::cli::command_line(),
        rdt_tunnel::command_line(),
    ]
}

/// Writes `man/PROGRAM.1`, a page for each command of a program, and a folder for each shell.
///
/// # Errors
/// A file or folder cannot be created or written.
pub fn write_all(folder: &Path) -> io::Result<()> {
    let pages = folder.join("man");
    fs::create_dir_all(&pages)?;
    for mut command in command_lines() {
        let program = command.get_name().to_owned();
        for (shell, before, after) in SHELLS {
            let scripts = folder.join(shell.to_string());
            fs::create_dir_all(&scripts)?;
            let script = completions::script(shell, &command);
            fs::write(scripts.join(format!("{before}{program}{after}")), script)?;
        }
        command.build();
        write_pages(&command, &pages)?;
    }
    Ok(())
}

/// Writes the pages of a command and of its subcommands.
fn write_pages(command: &Command, folder: &Path) -> io::Result<()> {
    for subcommand in command.get_subcommands().filter(|it| !it.is_hide_set() && it.get_name() != "help") {
        write_pages(subcommand, folder)?;
    }
    let man = Man::new(command.clone()).manual("rdt");
    let mut page = Vec::new();
    man.render_title(&mut page)?;
    man.render_name_section(&mut page)?;
    man.render_synopsis_section(&mut page)?;
    man.render_description_section(&mut page)?;
    man.render_options_section(&mut page)?;
    if command.get_subcommands().next().is_some() {
        man.render_subcommands_section(&mut page)?;
    }
    write_after_help(command, &mut page)?;
    fs::write(folder.join(man.get_filename()), page)
}

/// Writes the end of a help, exit codes and examples, as a section for each paragraph. The lines
/// stay as they are.
fn write_after_help(command: &Command, page: &mut Vec<u8>) -> io::Result<()> {
    let Some(help) = command.get_after_long_help().or_else(|| command.get_after_help()) else {
        return Ok(());
    };
    let help = help.to_string();
    for paragraph in help.split("\n\n") {
        match paragraph.split_once(':') {
            Some((title, lines)) if !title.contains('\n') => {
                writeln!(page, ".SH {}", escaped(&title.to_uppercase()))?;
                let lines = lines.strip_prefix('\n').unwrap_or(lines.trim_start());
                writeln!(page, ".nf\n{}\n.fi", escaped(lines))?;
            }
            _ => writeln!(page, ".PP\n.nf\n{}\n.fi", escaped(paragraph))?,
        }
    }
    Ok(())
}

/// Returns text in which roff sees no request and no escape.
fn escaped(text: &str) -> String {
    let lines = text.lines().map(|line| {
        let line = line.replace('\\', "\\e").replace('-', "\\-");
        if line.starts_with(['.', '\'']) { format!("\\&{line}") } else { line }
    });
    lines.collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests;
