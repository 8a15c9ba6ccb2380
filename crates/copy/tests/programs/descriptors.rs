//! Trees that are broader and deeper than the limit on descriptors.

use std::fs;

use rdt_program_testing::programs::Program;

use super::home::{Home, Serve, names};

/// `ulimit -n` of both sides.
const DESCRIPTORS: u32 = 64;
const BREADTH: usize = 1000;
const DEPTH: usize = 200;

impl Home {
    /// Copies with few descriptors. Returns the numbers of files, directories and failures.
    fn copy_limited(&self, args: &[&str]) -> [u64; 3] {
        let args = [args, &["--json"]].concat();
        let ended = Program::start(&mut self.limited(DESCRIPTORS, "anna", args)).ended();
        assert_eq!(ended.code, Some(0), "{ended:?}");
        let summary = ended.summary();
        ["files", "directories", "failures"].map(|key| summary[key].as_u64().unwrap())
    }

    fn serve_limited(&self, folder: &str) -> Serve {
        self.folder(folder);
        let args = ["--serve", folder, "--bind", "127.0.0.1", "--port", "0", "--json"];
        Serve::of(Program::start(&mut self.limited(DESCRIPTORS, "server", args)))
    }
}

#[test]
fn breadth_and_depth_need_no_descriptors() {
    let home = Home::new();
    for number in 0..BREADTH {
        home.write(&format!("tree/broad/{number}/file"), number.to_string());
    }
    let deep = "d/".repeat(DEPTH);
    home.write(&format!("tree/{deep}leaf"), "leaf");
    let serve = home.serve_limited("store");
    let expected = [BREADTH as u64 + 1, (BREADTH + DEPTH) as u64 + 2, 0];
    assert_eq!(home.copy_limited(&["tree", &serve.tickets[0]]), expected);
    assert_eq!(home.copy_limited(&[&serve.at("tree"), "back"]), expected);
    assert_eq!(names(&home.path("back/broad")).len(), BREADTH);
    assert_eq!(fs::read(home.path(&format!("back/{deep}leaf"))).unwrap(), b"leaf");
}

#[test]
fn many_named_sources_need_no_descriptors() {
    let home = Home::new();
    let sources: Vec<_> = (0..500).map(|number| format!("from/{number}/file{number}")).collect();
    for source in &sources {
        home.write(source, source);
    }
    let serve = home.serve_limited("store");
    let to = serve.at("all/");
    let push: Vec<_> = sources.iter().map(String::as_str).chain([&*to]).collect();
    assert_eq!(home.copy_limited(&push), [500, 0, 0]);
    let far: Vec<_> = (0..500).map(|number| serve.at(&format!("all/file{number}"))).collect();
    let pull: Vec<_> = far.iter().map(String::as_str).chain(["back/"]).collect();
    assert_eq!(home.copy_limited(&pull), [500, 0, 0]);
}
