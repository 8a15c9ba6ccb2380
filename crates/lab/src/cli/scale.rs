//! `rdt-lab scale`: the job script or manifest of an experiment in shards.

use std::path::Path;

use super::failure::Failure;
use super::load::{Loaded, load};
use super::shards::MAX_SHARDS;
use super::shell::shell_word;
use super::{output, talk};

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
