//! Plays transcripts: lines that begin with `$` are typed into a shell, and the following lines are
//! the output. `!` is standard error, `[3]` an exit code other than 0.
//!
//! Output that differs between runs has a name. Ids and tokens are `m_1`, `lt_1`, `n_1` in order of
//! appearance and can be typed by that name. `TIME`, `VERSION`, `DIR` and `URL` stand for their
//! values. Several spaces become two, because column widths vary with their content.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use expect_test::Expect;
use tempfile::TempDir;

const BINARY: &str = env!("CARGO_BIN_EXE_driftq");

/// A directory, and the server that commands are sent to.
pub(crate) struct Stage {
    directory: TempDir,
    url: String,
    /// The environment of the commands.
    environment: Vec<(&'static str, String)>,
    /// Ids and tokens in order of appearance.
    names: Vec<(String, String)>,
}

impl Stage {
    /// A stage without a server: commands are sent to a port without a listener.
    pub(crate) fn alone() -> Stage {
        let directory = TempDir::new().expect("a directory");
        // The discard port serves no HTTP.
        let url = "http://127.0.0.1:9".to_owned();
        Stage { directory, url, environment: Vec::new(), names: Vec::new() }
    }

    /// The same with its own database.
    pub(crate) fn with_database() -> Stage {
        let server = std::env::var("DRIFTQ_TEST_POSTGRES").expect(
            "no PostgreSQL to test with: run this by `just test`, or under e2e/with-postgres",
        );
        // Tests may run in one process.
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("cli{}_{number}", std::process::id());
        let create = format!("CREATE DATABASE {name}");
        let psql = Command::new("psql").args([&server, "-qc", &create]).status();
        assert!(psql.expect("psql is installed").success());
        let mut stage = Stage::alone();
        let url = server.replace("dbname=postgres", &format!("dbname={name}"));
        stage.environment.push(("DRIFTQ_DATABASE_URL", url));
        stage
    }

    pub(crate) fn path(&self) -> &Path {
        self.directory.path()
    }

    /// Starts `driftq` with these arguments and sends commands to it from now on.
    pub(crate) fn start(&mut self, arguments: &[&str]) -> Running {
        self.start_with(arguments, Stdio::inherit())
    }

    /// The same, with its log in the file `log` of the directory.
    pub(crate) fn start_with_log(&mut self, arguments: &[&str]) -> Running {
        let log = std::fs::File::create(self.path().join("log")).expect("a file");
        self.start_with(arguments, log.into())
    }

    fn start_with(&mut self, arguments: &[&str], log: Stdio) -> Running {
        let mut child = self
            .command(BINARY)
            .args(arguments)
            .args(["--listen", "127.0.0.1:0"])
            .stdout(Stdio::piped())
            .stderr(log)
            .spawn()
            .expect("the binary runs");
        let mut out = BufReader::new(child.stdout.take().expect("it is piped"));
        let mut line = String::new();
        out.read_line(&mut line).expect("the server prints its address");
        // As text, or in a line of JSON.
        let url = line.split("listening on ").nth(1).expect("the server prints its address");
        self.url = url.split(['"', '\n']).next().expect("a split has a first part").to_owned();
        Running { child, out }
    }

    /// Posts JSON that the server must accept. For worker requests, which this program has no
    /// command for.
    pub(crate) fn post(&self, path: &str, body: &str) -> serde_json::Value {
        let said = self.ask(&format!("POST {path}"), body);
        serde_json::from_str(&said).expect("JSON")
    }

    /// Returns the response of the server byte for byte.
    pub(crate) fn get(&self, path: &str) -> String {
        self.ask(&format!("GET {path}"), "")
    }

    fn ask(&self, what: &str, body: &str) -> String {
        let host = self.url.trim_start_matches("http://");
        let mut stream = TcpStream::connect(host).expect("it listens");
        let length = body.len();
        let head = format!("host: {host}\r\nconnection: close\r\ncontent-length: {length}");
        write!(stream, "{what} HTTP/1.1\r\n{head}\r\n\r\n{body}").expect("it reads");
        let mut said = String::new();
        stream.read_to_string(&mut said).expect("it answers");
        assert!(said.starts_with("HTTP/1.1 200"), "{what} {body}: {said}");
        said.split_once("\r\n\r\n").expect("a body").1.to_owned()
    }

    /// Plays a transcript.
    #[track_caller]
    pub(crate) fn check(&mut self, transcript: &Expect) {
        transcript.assert_eq(&self.play(transcript.data()));
    }

    fn play(&mut self, transcript: &str) -> String {
        let mut played = String::new();
        // The indentation is that of the source file.
        for typed in transcript.lines().filter_map(|line| line.trim_start().strip_prefix("$ ")) {
            let line = self.names.iter().fold(typed.to_owned(), |line, (real, name)| {
                let words = line.split(' ').map(|word| if word == name { real } else { word });
                words.collect::<Vec<_>>().join(" ")
            });
            let done = self.command("sh").args(["-c", &line]).output().expect("sh is installed");
            played.push_str(&format!("$ {typed}\n"));
            played.push_str(&self.named(&String::from_utf8_lossy(&done.stdout), ""));
            played.push_str(&self.named(&String::from_utf8_lossy(&done.stderr), "! "));
            match done.status.code() {
                Some(0) => {}
                Some(code) => played.push_str(&format!("[{code}]\n")),
                None => played.push_str("[killed]\n"),
            }
        }
        assert!(!played.is_empty(), "a transcript begins with a command");
        played
    }

    /// Sets only the environment variables that a command needs.
    fn command(&self, program: &str) -> Command {
        let binaries = Path::new(BINARY).parent().expect("a binary is in a directory");
        let mut command = Command::new(program);
        command
            .current_dir(self.path())
            .env_clear()
            .env("PATH", format!("{}:/usr/local/bin:/usr/bin:/bin", binaries.display()))
            .env("DRIFTQ_URL", &self.url)
            .envs(self.environment.iter().map(|(name, value)| (name, value)));
        command
    }

    /// Replaces values that differ between runs by their names.
    fn named(&mut self, said: &str, mark: &str) -> String {
        let directory = self.path().display().to_string();
        let said = said.replace(&directory, "DIR").replace(&self.url, "URL");
        let said = said.replace(env!("CARGO_PKG_VERSION"), "VERSION");
        let mut lines = String::new();
        for line in said.lines() {
            let line = self.names_in(&times(line));
            let mut pieces = line.split("  ").filter(|piece| !piece.is_empty());
            let first = pieces.next().unwrap_or_default();
            let margin = &line[..line.len() - line.trim_start().len()];
            let rest = pieces.map(|piece| format!("  {}", piece.trim()));
            let line = format!("{margin}{}{}", first.trim_start(), rest.collect::<String>());
            lines.push_str(format!("{mark}{line}").trim_end());
            lines.push('\n');
        }
        lines
    }

    fn names_in(&mut self, line: &str) -> String {
        let is_inner = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
        let mut named = String::new();
        let mut rest = line;
        while !rest.is_empty() {
            let end = rest.find(|c| !is_inner(c)).unwrap_or(rest.len());
            let (word, after) = rest.split_at(end);
            named.push_str(&self.name_of(word));
            let gap = after.find(is_inner).unwrap_or(after.len());
            named.push_str(&after[..gap]);
            rest = &after[gap..];
        }
        named
    }

    fn name_of(&mut self, word: &str) -> String {
        let kind = ["m", "lt", "n"].into_iter().find(|kind| {
            word.strip_prefix(kind)
                .and_then(|rest| rest.strip_prefix('_'))
                .is_some_and(|id| id.len() >= 8)
        });
        let Some(kind) = kind else { return word.to_owned() };
        if let Some((_, name)) = self.names.iter().find(|(real, _)| real == word) {
            return name.clone();
        }
        let prefix = format!("{kind}_");
        let before = self.names.iter().filter(|(_, name)| name.starts_with(&prefix)).count();
        let name = format!("{prefix}{}", before + 1);
        self.names.push((word.to_owned(), name.clone()));
        name
    }
}

/// A line with `TIME` for every time.
fn times(line: &str) -> String {
    let is_like = |text: &str, form: &str| {
        let alike = |(c, f): (char, char)| if f == '0' { c.is_ascii_digit() } else { c == f };
        text.len() >= form.len() && text.chars().zip(form.chars()).all(alike)
    };
    let mut named = String::new();
    let mut rest = line;
    while let Some(c) = rest.chars().next() {
        let form = ["0000-00-00T00:00:00.000Z", "0000-00-00T00:00:00Z", "00:00:00Z"];
        if let Some(form) = form.into_iter().find(|form| is_like(rest, form)) {
            named.push_str("TIME");
            rest = &rest[form.len()..];
        } else {
            named.push(c);
            rest = &rest[c.len_utf8()..];
        }
    }
    named
}

/// A server of this test. Dropping it ends the process.
pub(crate) struct Running {
    child: Child,
    out: BufReader<ChildStdout>,
}

impl Running {
    /// Stops the server like a supervisor. Returns its output until then.
    pub(crate) fn stop(mut self) -> String {
        let id = self.child.id().to_string();
        let told = Command::new("kill").args(["-TERM", &id]).status().expect("kill is installed");
        assert!(told.success());
        let mut said = String::new();
        self.out.read_to_string(&mut said).expect("the output is UTF-8");
        assert!(self.child.wait().expect("it ends").success());
        said
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // The process may have ended already.
        let _ended = self.child.kill();
        let _waited = self.child.wait();
    }
}
