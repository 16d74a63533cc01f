//! Runs the commands that documents and `driftq dev` show to readers: the `console` blocks of
//! documents, and the tour of `driftq dev`.
//!
//! Each document has an empty directory. A line fails the run if its command fails, or if its
//! output differs from the document:
//!
//! 1. `…` matches any text in a line; alone on a line, any number of lines.
//! 2. `127.0.0.1:8080` is replaced by a free address.
//! 3. `cargo install` runs in the repository, unoptimised, and installs into a temporary directory.
//!    If a binary is given, that binary is installed instead: building it takes most of the time.
//! 4. `driftq dev` and `driftq serve` run until the next such line or the end of the document. Then
//!    they are interrupted, and their output is compared.
//! 5. A line whose output is a rejection (`"error":`) must fail.

use std::fs::{self, File};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};

use crate::tree::Tree;

const DOCUMENTS: [&str; 11] = [
    "README.md",
    "docs/tutorial.md",
    "docs/how-to/back-up-and-restore.md",
    "docs/how-to/keep-your-queue.md",
    "docs/how-to/monitor.md",
    "docs/how-to/route-messages.md",
    "docs/how-to/run-a-server.md",
    "docs/how-to/run-several-nodes.md",
    "docs/how-to/secure-a-server.md",
    "docs/how-to/solve-problems.md",
    "docs/how-to/upgrade.md",
];
const ADDRESS: &str = "127.0.0.1:8080";
const FIRST_ACK_MAX: Duration = Duration::from_secs(1);
const BINARY_BYTES_MAX: u64 = 29_000_000;
/// How long a server may take to start and to exit.
const PATIENCE: Duration = Duration::from_secs(30);
/// Printed before each command, so that their outputs can be separated.
const MARK: char = '\u{1e}';

/// Runs every document, then the tour. `binary` is installed instead of a new one.
pub(crate) fn run(tree: &Tree, binary: Option<&String>) -> anyhow::Result<ExitCode> {
    let mut scratch = Scratch::new()?;
    if let Some(binary) = binary {
        scratch.install(binary)?;
    }
    let mut typed = 0;
    for path in DOCUMENTS {
        let text = tree.files.get(path).with_context(|| format!("{path} does not exist"))?;
        let mut reader = Reader::new(tree, &scratch, path)?;
        for block in blocks(text) {
            typed += block.len();
            reader.follow(&block).with_context(|| path.to_owned())?;
        }
        reader.finish().with_context(|| path.to_owned())?;
    }
    let first_ack = take_tours(tree, &scratch)?;
    println!(
        "readme: {typed} commands run, first ack of the tour after {} ms",
        first_ack.as_millis()
    );
    Ok(ExitCode::SUCCESS)
}

/// Checks the size of a binary and the start of `driftq dev`.
pub(crate) fn small(tree: &Tree, binary: &str) -> anyhow::Result<ExitCode> {
    let bytes = fs::metadata(binary).with_context(|| binary.to_owned())?.len();
    let mut scratch = Scratch::new()?;
    scratch.install(binary)?;
    let first_ack = take_tours(tree, &scratch)?;
    let megabytes = bytes as f64 / 1e6;
    println!("small: {megabytes:.1} MB, first ack of the tour after {} ms", first_ack.as_millis());
    ensure!(bytes < BINARY_BYTES_MAX, "the binary is too large");
    Ok(ExitCode::SUCCESS)
}

/// A command and its expected output, if known.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Line {
    command: String,
    shown: Option<String>,
}

impl Line {
    fn is_server(&self) -> bool {
        ["driftq dev", "driftq serve"].iter().any(|start| self.command.starts_with(start))
    }

    fn is_refused(&self) -> bool {
        self.shown.as_ref().is_some_and(|shown| shown.contains("\"error\":"))
    }

    fn is_install(&self) -> bool {
        self.command.starts_with("cargo install ")
    }
}

/// Returns the `console` blocks of a document: commands after `$ ` (continued after `> `), followed
/// by their output.
fn blocks(text: &str) -> Vec<Vec<Line>> {
    let mut blocks = Vec::new();
    let mut block: Option<Vec<Line>> = None;
    for line in text.lines() {
        match &mut block {
            None if line.trim_end() == "```console" => block = Some(Vec::new()),
            None => {}
            Some(_) if line.starts_with("```") => blocks.extend(block.take()),
            Some(lines) => read(lines, line),
        }
    }
    blocks
}

fn read(lines: &mut Vec<Line>, line: &str) {
    if let Some(command) = line.strip_prefix("$ ") {
        lines.push(Line { command: command.to_owned(), shown: Some(String::new()) });
        return;
    }
    let Some(Line { command, shown: Some(shown) }) = lines.last_mut() else { return };
    match line.strip_prefix("> ").filter(|_| shown.is_empty()) {
        Some(more) => *command += &format!("\n{more}"),
        None => *shown += &format!("{line}\n"),
    }
}

/// Runs the tour of `driftq dev`, with and without a topic. Returns the longest time until the
/// first ack.
fn take_tours(tree: &Tree, scratch: &Scratch) -> anyhow::Result<Duration> {
    let mut longest = Duration::ZERO;
    for command in ["driftq dev", "driftq dev --topic orders:3"] {
        let mut reader = Reader::new(tree, scratch, command)?;
        let began = Instant::now();
        reader.follow(&[Line { command: command.to_owned(), shown: None }])?;
        // The server listens before it has printed the entire tour.
        let is_whole = |text: &str| text.contains("/ack") && text.ends_with('\n');
        while !is_whole(&reader.printed()?) && began.elapsed() < FIRST_ACK_MAX {
            std::thread::sleep(Duration::from_millis(5));
        }
        let tour = indented(&reader.printed()?);
        let ack = tour.iter().position(|line| line.command.contains("/ack"));
        let (to_ack, rest) = tour.split_at(ack.context("a tour has an ack")? + 1);
        reader.follow(to_ack).with_context(|| command.to_owned())?;
        longest = longest.max(began.elapsed());
        // Each block runs in a shell of its own, so variables are set again.
        let again = [&to_ack[..1], rest].concat();
        reader.follow(&again).with_context(|| command.to_owned())?;
        let farewell = reader.finish()?;
        ensure!(farewell.contains("discarded: 1 message."), "{command} ends with {farewell}");
        let kept = indented(farewell.split("discarded:").nth(1).unwrap_or_default());
        ensure!(!kept.is_empty(), "{command} does not print how to keep data");
        reader.follow(&kept).with_context(|| command.to_owned())?;
        reader.finish()?;
    }
    ensure!(longest < FIRST_ACK_MAX, "the first ack took {longest:?}");
    Ok(longest)
}

/// Returns the commands that a program prints for its user.
fn indented(text: &str) -> Vec<Line> {
    let lines = text.lines().filter_map(|line| line.strip_prefix("  "));
    lines.map(|line| Line { command: line.to_owned(), shown: None }).collect()
}

/// A temporary directory.
struct Scratch {
    path: PathBuf,
    /// Whether `driftq` was given, so that it is not built.
    is_given: bool,
}

impl Scratch {
    fn new() -> anyhow::Result<Scratch> {
        let path = std::env::temp_dir().join(format!("driftq-readme-{}", std::process::id()));
        fs::create_dir_all(&path)?;
        // Makes curl fail if the server rejects a request.
        fs::write(path.join(".curlrc"), "fail-with-body\n")?;
        Ok(Scratch { path, is_given: false })
    }

    fn programs(&self) -> PathBuf {
        self.path.join("bin")
    }

    fn install(&mut self, binary: &str) -> anyhow::Result<()> {
        self.is_given = true;
        fs::create_dir_all(self.programs())?;
        fs::copy(binary, self.programs().join("driftq")).with_context(|| binary.to_owned())?;
        Ok(())
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // If the removal fails, the rest stays in the system's temporary directory.
        let _left = fs::remove_dir_all(&self.path);
    }
}

/// A simulated reader who runs the commands of a document.
struct Reader<'a> {
    repository: &'a Path,
    scratch: &'a Scratch,
    directory: PathBuf,
    address: String,
    server: Option<Server>,
}

struct Server {
    child: Child,
    line: Line,
    output: PathBuf,
}

impl Drop for Server {
    fn drop(&mut self) {
        // It has exited, or the run has failed already.
        let _ended = self.child.kill();
    }
}

impl<'a> Reader<'a> {
    fn new(tree: &'a Tree, scratch: &'a Scratch, what: &str) -> anyhow::Result<Reader<'a>> {
        let directory = scratch.path.join(what.replace(|c: char| !c.is_alphanumeric(), "-"));
        fs::create_dir_all(&directory)?;
        let address = TcpListener::bind("127.0.0.1:0")?.local_addr()?.to_string();
        Ok(Reader { repository: &tree.root, scratch, directory, address, server: None })
    }

    /// Runs the lines of one block.
    fn follow(&mut self, lines: &[Line]) -> anyhow::Result<()> {
        let mut rest = lines;
        while let Some((line, after)) = rest.split_first() {
            if line.is_server() {
                self.finish()?;
                self.serve(line)?;
                rest = after;
            } else if line.is_install() {
                self.install(&line.command)?;
                rest = after;
            } else {
                let is_plain = |line: &&Line| !line.is_server() && !line.is_install();
                let count = rest.iter().take_while(is_plain).count();
                self.type_in(&rest[..count])?;
                rest = &rest[count..];
            }
        }
        Ok(())
    }

    fn install(&self, command: &str) -> anyhow::Result<()> {
        if self.scratch.is_given {
            return Ok(());
        }
        let command = command.split(" #").next().unwrap_or(command);
        let line = format!("{command} --debug --quiet --root {}", self.scratch.path.display());
        let status =
            Command::new("bash").arg("-c").arg(&line).current_dir(self.repository).status()?;
        ensure!(status.success(), "{line}: {status}");
        Ok(())
    }

    fn bash(&self, script: &str) -> anyhow::Result<Command> {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let programs = [self.scratch.programs()];
        let path = std::env::join_paths(programs.into_iter().chain(std::env::split_paths(&path)))?;
        let mut bash = Command::new("bash");
        bash.arg("-c")
            .arg(script.replace(ADDRESS, &self.address))
            .current_dir(&self.directory)
            .env("PATH", path)
            .env("CURL_HOME", &self.scratch.path)
            .env("DRIFTQ_LISTEN", &self.address)
            .env("DRIFTQ_URL", format!("http://{}", self.address))
            .stdin(Stdio::null());
        Ok(bash)
    }

    /// Starts a server and waits until it listens.
    fn serve(&mut self, line: &Line) -> anyhow::Result<()> {
        let output = self.directory.with_extension("server");
        let file = File::create(&output)?;
        let mut bash = self.bash(&format!("exec {}", line.command))?;
        let child = bash.stdout(file.try_clone()?).stderr(file).spawn()?;
        let server = self.server.insert(Server { child, line: line.clone(), output });
        let began = Instant::now();
        loop {
            let printed = fs::read_to_string(&server.output)?;
            // A trailing line break shows that the line is complete.
            if printed.contains("listening on http") && printed.ends_with('\n') {
                return Ok(());
            }
            let is_over = server.child.try_wait()?.is_some() || began.elapsed() > PATIENCE;
            ensure!(!is_over, "`{}` does not start:\n{printed}", server.line.command);
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// The output of the server so far.
    fn printed(&self) -> anyhow::Result<String> {
        let server = self.server.as_ref().context("no server is running")?;
        Ok(fs::read_to_string(&server.output)?)
    }

    /// Runs commands one after another in one shell, and compares the output of each.
    fn type_in(&self, lines: &[Line]) -> anyhow::Result<()> {
        let typed = |line: &Line| {
            if line.is_refused() {
                format!("if {}\nthen exit 1; fi", line.command)
            } else {
                line.command.clone()
            }
        };
        let commands = lines.iter().map(|line| format!("printf '{MARK}'\n{}\n", typed(line)));
        let script = format!("set -euo pipefail\nexec 2>&1\n{}", commands.collect::<String>());
        let ran = self.bash(&script)?.output()?;
        let printed = String::from_utf8_lossy(&ran.stdout).replace(&self.address, ADDRESS);
        let mut answers = printed.split(MARK).skip(1);
        for line in lines {
            let Some(answer) = answers.next() else { bail!("not run: {}", line.command) };
            let is_last = answers.clone().next().is_none();
            ensure!(ran.status.success() || !is_last, "`{}` failed:\n{answer}", line.command);
            compare(line, answer)?;
        }
        Ok(())
    }

    /// Interrupts the server, if one is running, and returns its output.
    fn finish(&mut self) -> anyhow::Result<String> {
        let Some(mut server) = self.server.take() else { return Ok(String::new()) };
        let kill = format!("kill -s INT {}", server.child.id());
        Command::new("sh").arg("-c").arg(&kill).status()?;
        let began = Instant::now();
        let status = loop {
            if let Some(status) = server.child.try_wait()? {
                break status;
            }
            ensure!(began.elapsed() < PATIENCE, "`{}` did not exit", server.line.command);
            std::thread::sleep(Duration::from_millis(2));
        };
        ensure!(status.success(), "`{}` exited with {status}", server.line.command);
        let printed = fs::read_to_string(&server.output)?.replace(&self.address, ADDRESS);
        compare(&server.line, &printed)?;
        Ok(printed)
    }
}

fn compare(line: &Line, printed: &str) -> anyhow::Result<()> {
    let Some(shown) = &line.shown else { return Ok(()) };
    let trimmed = |text: &str| -> Vec<String> {
        text.trim_end().lines().map(|line| line.trim_end().to_owned()).collect()
    };
    let is_same = are_as_shown(&trimmed(shown), &trimmed(printed));
    ensure!(is_same, "`{}` printed\n{printed}\nexpected\n{shown}", line.command);
    Ok(())
}

fn are_as_shown(shown: &[String], printed: &[String]) -> bool {
    match shown.split_first() {
        None => printed.is_empty(),
        Some((any, rest)) if any == "…" => {
            (0..=printed.len()).any(|skipped| are_as_shown(rest, &printed[skipped..]))
        }
        Some((line, rest)) => printed
            .split_first()
            .is_some_and(|(first, others)| is_as_shown(line, first) && are_as_shown(rest, others)),
    }
}

fn is_as_shown(shown: &str, printed: &str) -> bool {
    let Some((start, rest)) = shown.split_once('…') else { return shown == printed };
    let Some(printed) = printed.strip_prefix(start) else { return false };
    let ends = printed.char_indices().map(|(at, _)| at).chain([printed.len()]);
    ends.into_iter().any(|at| is_as_shown(rest, &printed[at..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: &str) -> Vec<String> {
        text.lines().map(str::to_owned).collect()
    }

    #[test]
    fn only_console_blocks_are_typed() {
        let text = "```sh\n$ no\n```\n```console\n$ a \\\n> b\none\n\ntwo\n$ c\n```\n$ no\n";
        let line = |command: &str, shown: &str| Line {
            command: command.to_owned(),
            shown: Some(shown.to_owned()),
        };
        assert_eq!(blocks(text), [[line("a \\\nb", "one\n\ntwo\n"), line("c", "")]]);
    }

    #[test]
    fn what_is_left_out_may_be_anything_and_nothing_else_may() {
        for (shown, printed, is_same) in [
            ("m_… at 3", "m_abc at 3", true),
            ("m_… at 3", "m_abc at 4", false),
            ("m_… at 3", "m_abc at 3 at 3", true),
            ("a", "a…", false),
            ("…\nb", "x\ny\nb", true),
            ("a\n…", "a", true),
            ("a", "a\nb", false),
            ("", "a", false),
        ] {
            assert_eq!(are_as_shown(&lines(shown), &lines(printed)), is_same, "{shown} {printed}");
        }
    }

    #[test]
    fn a_tour_is_what_is_indented() {
        let tour = indented("listening\n\n  Q=1\n  curl $Q\n\nProduce again.\n");
        let commands: Vec<&str> = tour.iter().map(|line| line.command.as_str()).collect();
        assert_eq!(commands, ["Q=1", "curl $Q"]);
    }
}
