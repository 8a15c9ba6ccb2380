//! `rdt-lab scale`: the job script or manifest of an experiment in shards.

use std::path::{Path, PathBuf};
use std::{env, fs, io};

use super::args::MAX_SHARDS;
use super::failure::Failure;
use super::load::{Loaded, load};
use super::{output, talk};
use crate::run::EXPERIMENT_FILE;

/// Least time limit of a job, minutes.
const MIN_MINUTES: u64 = 10;
/// Factor from the estimated time on a core of this host to the time limit of a job.
const TIME_RESERVE: f64 = 4.0;

const HELP: &str = "\
A shard is a set of whole cells. All shards write into one folder, $RESULTS [default: results],
which for k8s is in the volume claim rdt-lab. Time limits are four times the estimate, at least
10 minutes. 'rdt-lab status FOLDER' names the missing shards and the line that submits them.
Where repetitions go on until claims are decided, each round is a job: when all shards have
finished one, that line submits the next.

Examples:
  rdt-lab scale slurm grid.toml --shards 16 > grid.sbatch && sbatch grid.sbatch
  rdt-lab scale parallel grid.toml --shards 16 | sh
  rdt-lab scale k8s 000-A --shards 16 --image registry.example/rdt-lab > 000-a.yaml";

#[derive(Debug, clap::Args)]
#[command(after_help = HELP)]
pub(super) struct ScaleArgs {
    /// Scheduler: a Slurm job array, GNU parallel, or a Kubernetes indexed job
    #[arg(value_name = "SCHEDULER")]
    target: Target,
    /// Identity of an experiment, as 'rdt-lab list' prints it, or a file
    #[arg(value_name = "ID|FILE")]
    experiment: String,
    /// Number of shards, at most the number of cells
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=i64::from(MAX_SHARDS)))]
    shards: u32,
    /// Container image with rdt-lab, for k8s
    #[arg(long, value_name = "IMAGE", default_value = "rdt-lab:latest")]
    image: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Target {
    Slurm,
    Parallel,
    K8s,
}

pub(super) fn scale(args: &ScaleArgs) -> Result<u8, Failure> {
    let loaded = load(&args.experiment, &[])?;
    let cells = loaded.plan.distinct().count();
    if cells < args.shards as usize {
        return Err(Failure::Usage(format!(
            "{} has {cells} cells, and a shard has whole cells: ask for at most {cells} shards",
            loaded.experiment.name
        )));
    }
    let real: Vec<&str> =
        loaded.experiment.engines.iter().filter(|it| !it.is_virtual()).map(|it| it.word()).collect();
    if !real.is_empty() && args.target != Target::Slurm {
        talk(&format!(
            "the script runs only engines of virtual time: {} needs a host for itself, one repetition at a time",
            real.join(", ")
        ));
    }
    let file = shell_word(&args.experiment)?;
    output::text(&match args.target {
        Target::Slurm => slurm(args, &loaded, &file),
        Target::Parallel => parallel(args, &loaded, &file),
        Target::K8s => kubernetes(args, &loaded),
    })?;
    Ok(0)
}

/// Returns an argument for a shell, in single quotes if it needs any.
pub(super) fn shell_word(text: &str) -> Result<String, Failure> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/._-+".contains(c);
    if text.chars().all(is_plain) {
        return Ok(text.to_owned());
    }
    if text.contains(['\'', '\n']) {
        return Err(Failure::Usage(format!("the name {text:?} cannot stand in a script: rename the file")));
    }
    Ok(format!("'{text}'"))
}

/// Returns the time limit of a shard's job, minutes: for the most repetitions of the cells of the
/// longest shard, with a reserve.
fn minutes(loaded: &Loaded, shards: u32) -> u64 {
    let plan = &loaded.plan;
    let seconds = |cells: &Vec<&crate::cell::Cell>| -> f64 {
        cells
            .iter()
            .map(|cell| plan.cost(cell).times(plan.repeats.range(cell.physics.engine).1).seconds())
            .sum()
    };
    let longest = plan.shards(shards).iter().map(seconds).fold(0.0, f64::max);
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a time in minutes, above 0")]
    let minutes = (longest * TIME_RESERVE / 60.0).ceil() as u64;
    minutes.max(MIN_MINUTES)
}

fn slurm(args: &ScaleArgs, loaded: &Loaded, file: &str) -> String {
    let (name, shards, minutes) = (&loaded.experiment.name, args.shards, minutes(loaded, args.shards));
    let is_real = loaded.experiment.engines.iter().all(|engine| !engine.is_virtual());
    // A repetition in real time shares its node with nothing.
    let exclusive = if is_real { "#SBATCH --exclusive\n" } else { "" };
    let words: Vec<&str> = loaded.experiment.engines.iter().map(|it| it.word()).collect();
    let engine = if is_real { format!(" --engine {}", words.join(",")) } else { String::new() };
    format!(
        "#!/bin/sh
#SBATCH --job-name={name}
#SBATCH --array=0-{last}
#SBATCH --cpus-per-task=1
#SBATCH --time={hours:02}:{rest:02}:00
#SBATCH --requeue
#SBATCH --output=slurm-%A_%a.log
#SBATCH --signal=B:TERM@60
{exclusive}exec rdt-lab run {file}{engine} -q -o \"${{RESULTS:-results}}\" -j \"${{SLURM_CPUS_PER_TASK:-1}}\" \\
    --shard \"$SLURM_ARRAY_TASK_ID/{shards}\" --only-run
",
        last = shards - 1,
        hours = minutes / 60,
        rest = minutes % 60,
    )
}

fn parallel(args: &ScaleArgs, loaded: &Loaded, file: &str) -> String {
    let (name, shards) = (&loaded.experiment.name, args.shards);
    format!(
        "#!/bin/sh
# Shards that failed or were killed run again with: RETRY=--retry-failed sh this-script
exec parallel --joblog {name}.joblog ${{RETRY:-}} --jobs \"${{JOBS:-100%}}\" \\
    rdt-lab run {file} -q -o \"${{RESULTS:-results}}\" -j 1 --shard '{{}}/{shards}' --only-run ::: $(seq 0 {last})
",
        last = shards - 1,
    )
}

fn kubernetes(args: &ScaleArgs, loaded: &Loaded) -> String {
    let (shards, seconds) = (args.shards, minutes(loaded, args.shards) * 60);
    let name = loaded.experiment.name.replace('_', "-");
    // A file is in the volume, beside the results.
    let file = Path::new(&args.experiment);
    let is_file = file.extension().is_some();
    let base = file.file_name().map_or_else(String::new, |it| it.to_string_lossy().into_owned());
    let experiment = if is_file { format!("/lab/{base}") } else { args.experiment.clone() };
    // A JSON string is a YAML string too.
    let experiment = serde_json::Value::from(experiment);
    format!(
        "apiVersion: batch/v1
kind: Job
metadata:
  name: {name}
spec:
  completionMode: Indexed
  completions: {shards}
  parallelism: {shards}
  backoffLimitPerIndex: 3
  activeDeadlineSeconds: {seconds}
  template:
    spec:
      restartPolicy: Never
      terminationGracePeriodSeconds: 60
      # Gives the volume to the user of the image, who is not root.
      securityContext: {{ fsGroup: 1000 }}
      containers:
        - name: rdt-lab
          image: {image}
          command: [\"rdt-lab\"]
          args: [\"run\", {experiment}, \"-q\", \"-o\", \"/lab/results\", \"-j\", \"1\",
                 \"--shard\", \"$(JOB_COMPLETION_INDEX)/{shards}\", \"--only-run\"]
          resources:
            requests: {{ cpu: \"1\", memory: 512Mi }}
          volumeMounts:
            - {{ name: lab, mountPath: /lab }}
      volumes:
        - name: lab
          persistentVolumeClaim: {{ claimName: rdt-lab }}
",
        image = args.image,
    )
}

/// Returns the line for a shell that runs shards of the experiment in a folder of results. `None`
/// if a run would not write into this folder, because it has another name than the experiment.
pub(super) fn resume(folder: &Path, name: &str, shards: &[u32], count: u32) -> Option<String> {
    if folder.file_name()? != name {
        return None;
    }
    let results = match folder.parent()? {
        empty if empty.as_os_str().is_empty() => Path::new("."),
        parent => parent,
    };
    let file = shell_word(folder.join(EXPERIMENT_FILE).to_str()?).ok()?;
    let results = shell_word(results.to_str()?).ok()?;
    let list = |separator: &str| shards.iter().map(u32::to_string).collect::<Vec<_>>().join(separator);
    Some(if in_path("sbatch").is_some() {
        let array = list(",");
        format!("rdt-lab scale slurm {file} --shards {count} | RESULTS={results} sbatch --array={array}")
    } else {
        let shards = list(" ");
        format!("for i in {shards}; do rdt-lab run {file} -o {results} --shard $i/{count} --only-run; done")
    })
}

/// Returns the file of a program in a folder of `PATH`.
pub(super) fn in_path(name: &str) -> Option<PathBuf> {
    let folders = env::var_os("PATH")?;
    env::split_paths(&folders).map(|folder| folder.join(name)).find(|path| path.is_file())
}

/// Name of the file with the number of shards, in a folder of results.
const SHARDS_FILE: &str = "shards";

/// Returns the number of shards of a folder. `None` if no shard was run in it.
pub(super) fn shards_of(folder: &Path) -> Option<u32> {
    fs::read_to_string(folder.join(SHARDS_FILE)).ok()?.trim().parse().ok()
}

/// Records the number of shards of a folder, or compares it with the recorded one.
pub(super) fn agree_on_shards(folder: &Path, wanted: u32) -> Result<(), Failure> {
    let path = folder.join(SHARDS_FILE);
    let failed = |error| Failure::Create(path.clone(), error);
    if !path.exists() {
        // A link cannot replace a file, so of several tasks that start at once the first one wins.
        let unfinished = folder.join(format!("{SHARDS_FILE}.{}", std::process::id()));
        fs::write(&unfinished, format!("{wanted}\n")).map_err(failed)?;
        let linked = fs::hard_link(&unfinished, &path);
        let placed = match linked {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => fs::rename(&unfinished, &path),
            _ => fs::remove_file(&unfinished),
        };
        placed.map_err(failed)?;
    }
    match shards_of(folder) {
        Some(found) if found != wanted => Err(Failure::Data(format!(
            "{} has results of {found} shards and this run has {wanted}: run --shard I/{found}, or choose a new folder",
            folder.display()
        ))),
        Some(_) => Ok(()),
        None => Err(Failure::Data(format!(
            "{} has no number of shards: write the number of the runs so far into it, or remove the file",
            path.display()
        ))),
    }
}
