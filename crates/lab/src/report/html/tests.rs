use std::path::PathBuf;
use std::process::Command;

use super::super::tests as samples;
use super::*;
use crate::cell::EngineKind;
use crate::claim::Judgement;
use crate::experiment::{Statement, StatementKind};
use crate::statistics::Interval;

fn judgement(id: &str, verdict: Verdict) -> Judgement {
    Judgement {
        id: id.to_owned(),
        says: "SACK helps more than a larger initial window".to_owned(),
        engine: EngineKind::Virtual,
        verdict,
        estimate: Some(Interval { estimate: 1.26, low: 1.24, high: 1.28 }),
        is_ratio: true,
        p: Some(0.001),
        repetitions: 20,
        nothing_random: false,
        points: None,
        pairing: None,
        reason: None,
    }
}

fn report() -> Report {
    let claims = [Verdict::Holds, Verdict::Undecided { needs: 40 }, Verdict::Fails];
    let numbers = |i: u32| vec![Entry::text("off"), Entry::number(format!("{i} Mbit/s"), f64::from(i) * 1e6)];
    let section = Section {
        name: "000-A".to_owned(),
        title: "SACK and </script> the initial window".to_owned(),
        source: Some("report 000, table 1".to_owned()),
        about: Some("One flow.\n\nA lossy link.".to_owned()),
        statements: vec![Statement {
            number: 1,
            kind: StatementKind::Error,
            at: "000-A".to_owned(),
            says: "IW 4 takes effect after each congestion".to_owned(),
            so: "the loss window is 1".to_owned(),
            shows: Vec::new(),
        }],
        judgements: claims.into_iter().zip(["a", "b", "c"]).map(|(v, id)| judgement(id, v)).collect(),
        results: vec![Table {
            caption: "Goodput".to_owned(),
            head: vec!["sack".to_owned(), "goodput".to_owned()],
            rows: [5, 4, 10].map(numbers).to_vec(),
        }],
        figures: samples::gallery(),
        limits: vec!["flow a: 88 % receiver window".to_owned()],
        run: vec!["20 repetitions of 4 cells".to_owned()],
        command: "rdt-lab run 000-A --engine virtual".to_owned(),
        toml: "name = \"sack\" # <script>alert(1)</script>".to_owned(),
        raw: "cell,rep,seed\n9f2c,0,<b>\n9f2c,1,2\n".to_owned(),
        ..Section::default()
    };
    Report { title: "SACK & windows".to_owned(), sections: vec![section] }
}

#[test]
fn page_loads_nothing() {
    let page = html(&report());
    for word in ["src=\"http", "href=\"http", "url(", "@import", "src=\"//", "<link", "<iframe", "<img"] {
        assert!(!page.contains(word), "{word}");
    }
    // What is left are the namespace of SVG and the address in the comment of uPlot.
    let addresses: Vec<&str> = page
        .match_indices("http:")
        .chain(page.match_indices("https:"))
        .map(|(at, _)| &page[at..at + 24])
        .collect();
    let harmless = ["http://www.w3.org/2000/s", "https://github.com/leeon"];
    assert!(addresses.iter().all(|address| harmless.contains(address)), "{addresses:?}");
}

#[test]
fn policy_allows_exactly_own_scripts_and_styles() {
    let page = html(&report());
    let policy = page.split("content=\"").nth(1).and_then(|rest| rest.split('"').next()).expect("a policy");
    assert!(policy.starts_with("default-src 'none'; ") && !policy.contains("unsafe"), "{policy}");
    for (begin, end) in [("<style", "</style>"), ("<script>", "</script>")] {
        for part in page.split(begin).skip(1) {
            let part = part.split(end).next().expect("an end");
            let text = if begin == "<style" { part.split_once('>').expect("a tag").1 } else { part };
            assert!(policy.contains(&base64(&Sha256::digest(text.as_bytes()))), "{}", &text[..20]);
        }
    }
    let scripts = page.matches("<script").count();
    assert_eq!(scripts, page.matches("</script>").count(), "no text ends a script");
    assert_eq!(
        scripts,
        3 + samples::gallery().len() + 2,
        "uPlot, ours, data, references to tables and a file"
    );
}

#[test]
fn page_is_the_same_every_time() {
    let page = html(&report());
    assert_eq!(page, html(&report()));
    assert!(page.len() < 400_000, "{} bytes", page.len());
    let mut plain = report();
    plain.sections[0].figures.truncate(2);
    let page = html(&plain);
    assert!(page.len() < 80_000 && !page.contains("uPlot="), "{} bytes without series", page.len());
}

#[test]
fn equal_parts_of_experiments_appear_once() {
    let mut report = report();
    let second = Section { name: "000-B".to_owned(), ..report.sections[0].clone() };
    report.sections.push(second);
    let page = html(&report);
    assert_eq!(page.matches("<figure ").count(), samples::gallery().len());
    let first = &samples::gallery()[0];
    let link = format!("{}: the same as in <a href=\"#fig-means\">000-A</a>", escape(&first.title));
    assert!(page.contains(&link), "{link}");
}

#[test]
fn values_to_sort_by_are_beside_texts_with_units() {
    let row = vec![
        Entry::number("20", 20.0),
        Entry::number("5.123 kbit/s \u{b1} 7", 5123.4),
        Entry::number("5 %, inside", 1.05),
        Entry::number("0.96mbit", 960_000.0),
    ];
    let mut out = String::new();
    table(&mut out, &Table { rows: vec![row], ..Table::default() });
    let entries = "<td>20<td>5.123 kbit/s \u{b1} 7<td data-v=1.05>5 %, inside<td data-v=960000>0.96mbit";
    assert!(out.contains(entries), "{out}");
}

#[test]
fn caption_tells_columns_that_are_equal() {
    let row = |n: &str| vec![Entry::text("virtual"), Entry::text(n), Entry::text("")];
    let head = ["engine", "n", "note"].map(str::to_owned).to_vec();
    let written = |rows: Vec<Vec<Entry>>| {
        let mut out = String::new();
        table(&mut out, &Table { caption: "Means".to_owned(), head: head.clone(), rows });
        out
    };
    let three = written(["1", "2", "3"].map(row).to_vec());
    assert!(three.contains("<caption>Means. All rows: engine virtual</caption>"), "{three}");
    assert!(three.contains("<th>n<th>note</thead>") && three.contains("<tr><td>2<td>\n"), "{three}");
    assert!(written(["1", "2"].map(row).to_vec()).contains("<th>engine<th>n<th>note"), "two rows");
}

#[test]
fn figures_stand_before_tables_and_long_tables_fold() {
    let mut report = report();
    let long = |caption: &str, mark| Table {
        caption: caption.to_owned(),
        head: vec!["n".to_owned()],
        rows: (0..20).map(|i: u32| vec![Entry { mark, ..Entry::text(i.to_string()) }]).collect(),
    };
    report.sections[0].results.extend([long("Many means", Mark::None), long("Many failures", Mark::Bad)]);
    let page = html(&report);
    let body = page.split("<section id=\"000-A\">").nth(1).expect("the experiment");
    let last = body.rfind("<figure ").expect("figures");
    assert!(body.find("<table").is_some_and(|table| last < table));
    assert!(body.contains("<details class=\"long\"><summary>Many means</summary>"));
    assert!(body.contains("<details class=\"long\" open><summary>Many failures</summary>"));
    assert!(body.contains("<caption>Goodput"), "a short table is not folded");
}

#[test]
fn words_alone_tell_open_results() {
    let mut out = String::new();
    let outside = Entry { mark: Mark::Open, ..Entry::text("+38 %, outside") };
    table(
        &mut out,
        &Table { caption: String::new(), head: vec!["difference".to_owned()], rows: vec![vec![outside]] },
    );
    assert!(out.contains(">+38 %, outside") && !out.contains('?'), "{out}");
}

#[test]
fn script_knows_units_of_tables() {
    for (name, size) in UNITS {
        assert!(SCRIPT.contains(&format!("\"{name}\": {size}")), "{name}");
    }
}

#[test]
fn first_screen_has_title_verdict_and_figure() {
    let page = html(&report());
    let order = [
        "<h1>SACK &amp; windows</h1>",
        "1 claim holds, 1 undecided, 1 fails; 1 statement of",
        "<figure ",
        "<h2>",
    ];
    let places = order.map(|text| page.find(text).unwrap_or_else(|| panic!("{text} is missing")));
    assert!(places.is_sorted(), "{places:?}");
}

#[test]
fn bytes_become_base64() {
    for (bytes, text) in [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foobar", "Zm9vYmFy")] {
        assert_eq!(base64(bytes.as_bytes()), text);
    }
}

/// Returns the browser in `RDT_LAB_BROWSER`, or one of the path.
fn browser() -> Option<PathBuf> {
    let named = std::env::var_os("RDT_LAB_BROWSER").map(PathBuf::from);
    let folders: Vec<PathBuf> = std::env::var_os("PATH").iter().flat_map(std::env::split_paths).collect();
    let names = ["chromium", "chromium-browser", "google-chrome"];
    let found =
        || names.iter().find_map(|name| folders.iter().map(|f| f.join(name)).find(|path| path.is_file()));
    named.or_else(found)
}

/// Returns the verdict that a page writes about itself in a window of this size.
fn verdict(browser: &PathBuf, page: &str, size: &str) -> String {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("report.html");
    std::fs::write(&path, page).expect("a file");
    let profile = format!("--user-data-dir={}", folder.path().join("profile").display());
    let size = format!("--window-size={size}");
    let out = Command::new(browser)
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", &size, &profile])
        .args(["--virtual-time-budget=60000", "--dump-dom"])
        .arg(format!("file://{}#selftest", path.display()))
        .output()
        .expect("a browser that starts");
    let dom = String::from_utf8_lossy(&out.stdout);
    let written = dom.split("<pre id=\"selftest\">").nth(1).and_then(|rest| rest.split("</pre>").next());
    written.unwrap_or("no verdict").to_owned()
}

/// Connection to Firefox by Marionette: messages of JSON after their length.
struct Firefox {
    process: std::process::Child,
    stream: std::net::TcpStream,
}

impl Firefox {
    fn start(program: &std::ffi::OsStr, profile: &std::path::Path) -> Self {
        let free = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = free.local_addr().expect("an address").port();
        drop(free);
        let settings = format!("user_pref(\"marionette.port\", {port});\n");
        std::fs::write(profile.join("user.js"), settings).expect("a file");
        let mut process = Command::new(program);
        process.args(["--headless", "--marionette", "--no-remote", "--profile"]).arg(profile);
        let process = process.stderr(std::process::Stdio::null()).spawn().expect("Firefox starts");
        let stream = (0..600).find_map(|_| {
            wait();
            std::net::TcpStream::connect(("127.0.0.1", port)).ok()
        });
        let mut firefox = Self { process, stream: stream.expect("Firefox answers in a minute") };
        firefox.read();
        firefox.ask("WebDriver:NewSession", "{}");
        firefox
    }

    fn read(&mut self) -> String {
        use std::io::Read as _;
        let mut length = 0;
        loop {
            let mut byte = [0];
            self.stream.read_exact(&mut byte).expect("a message");
            match byte[0] {
                b':' => break,
                digit => length = length * 10 + usize::from(digit - b'0'),
            }
        }
        let mut text = vec![0; length];
        self.stream.read_exact(&mut text).expect("a message");
        String::from_utf8(text).expect("UTF-8")
    }

    fn ask(&mut self, command: &str, arguments: &str) -> String {
        use std::io::Write as _;
        let text = format!("[0,1,\"{command}\",{arguments}]");
        write!(self.stream, "{}:{text}", text.len()).expect("a message");
        self.read()
    }
}

impl Drop for Firefox {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

#[expect(clippy::disallowed_methods, reason = "a browser runs in real time")]
fn wait() {
    std::thread::sleep(std::time::Duration::from_millis(100));
}

#[test]
fn page_passes_its_test_in_firefox() {
    let Some(program) = std::env::var_os("RDT_LAB_FIREFOX") else {
        rdt_testing::skipped("RDT_LAB_FIREFOX is not set");
        return;
    };
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("report.html");
    let page = match std::env::var_os("RDT_LAB_PAGE") {
        Some(page) => std::fs::read_to_string(page).expect("a page"),
        None => html(&report()),
    };
    std::fs::write(&path, page).expect("a file");
    let mut firefox = Firefox::start(&program, folder.path());
    let address = format!("{{\"url\":\"file://{}#selftest\"}}", path.display());
    firefox.ask("WebDriver:Navigate", &address);
    let script = r#"{"script":"return document.getElementById('selftest')?.textContent ?? ''","args":[]}"#;
    let verdict = (0..600).map(|_| {
        wait();
        firefox.ask("WebDriver:ExecuteScript", script)
    });
    let verdict = verdict.into_iter().find(|it| it.contains("selftest")).unwrap_or_default();
    assert!(verdict.contains("selftest ok: "), "{verdict}");
    println!("{verdict}");
}

#[test]
fn page_passes_its_test_in_a_browser() {
    let Some(browser) = browser() else {
        rdt_testing::skipped("no Chromium in the path, and RDT_LAB_BROWSER is not set");
        return;
    };
    let page = html(&report());
    let expected = format!("selftest ok: {} figures, ", samples::gallery().len());
    for size in ["1200,900", "360,740"] {
        let verdict = verdict(&browser, &page, size);
        assert!(verdict.starts_with(&expected), "{size}: {verdict}");
    }
    let lost = verdict(&browser, &page.replacen("<g class=\"m\" ", "<g class=\"x\" ", 1), "1200,900");
    assert!(lost.contains("fig-means: 1 marks for 2 rows"), "a lost mark is found: {lost}");
    let request = page.replacen("</main>", "<img src=\"file:///tmp/x.png\"></main>", 1);
    let blocked = verdict(&browser, &request, "1200,900");
    assert!(blocked.contains("requests: file:///tmp/x.png"), "a request is found: {blocked}");
}

#[test]
#[ignore = "writes the page to the file RDT_LAB_PAGE, to look at it"]
fn write_page() {
    let path = std::env::var("RDT_LAB_PAGE").expect("a path");
    std::fs::write(path, html(&report())).expect("a file");
}
