//! The reference equals the help of the binary. `UPDATE_EXPECT=1` rewrites it.

use std::process::Command;

use expect_test::{ExpectFile, expect_file};
use serde_json::Value;

fn driftq(arguments: &[&str]) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_driftq"));
    let done = command.args(arguments).env_clear().output().expect("the binary runs");
    let errors = String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success(), "{arguments:?}: {errors}");
    String::from_utf8(done.stdout).expect("help is text")
}

fn page(name: &str) -> ExpectFile {
    expect_file![format!("../../../../docs/reference/{name}.md")]
}

/// Every command, from the manual pages the binary writes.
fn commands() -> Vec<String> {
    let directory = tempfile::TempDir::new().expect("a directory");
    let to = directory.path().to_str().expect("a plain path");
    driftq(&["man", to]);
    let files = std::fs::read_dir(to).expect("pages were written");
    let name = |file: std::io::Result<std::fs::DirEntry>| {
        let name = file.expect("a page").file_name().into_string().expect("a plain name");
        let words = name.trim_end_matches(".1").replace('-', " ");
        // The only hyphenated commands.
        words
            .replace("mark restored", "mark-restored")
            .replace("copy to postgres", "copy-to-postgres")
    };
    let mut commands: Vec<String> = files.map(name).collect();
    commands.sort();
    commands
}

#[test]
fn the_command_line_reference_equals_the_help() {
    let mut text = "\
# The command line

The help text of every command. Data goes to standard output, messages to standard error. `-o json` prints
the server's response, `-o ndjson` one line per item. Exit codes and the options that every command takes are
at the end of the first block. The codes do not change within a major version. The configuration of a server
is in [configuration.md](configuration.md).
"
    .to_owned();
    let commands = commands();
    assert!(commands.len() > 30, "{commands:?}");
    for command in commands {
        let arguments: Vec<&str> = command.split(' ').skip(1).chain(["--help"]).collect();
        let help = driftq(&arguments);
        // Global options are printed once.
        let is_root = arguments.len() == 1;
        let end = help.find("\nGlobal options:").filter(|_| !is_root).unwrap_or(help.len());
        let lines: Vec<&str> = help[..end].lines().map(str::trim_end).collect();
        let help = lines.join("\n");
        text.push_str(&format!("\n## {command}\n\n```text\n{}\n```\n", help.trim_end()));
    }
    page("cli").assert_eq(&text);
}

#[test]
fn the_configuration_reference_equals_its_table() {
    let mut text = "\
# Configuration

A server takes its values from `driftq.toml` in the working directory (or the file that `--config` or
`DRIFTQ_CONFIG` names), from environment variables, and from flags. A flag overrides a variable, and a
variable overrides the file. All values are validated before the server starts. `driftq config` shows the
values that a server would start with and the source of each, or what is wrong, by file and line.

```toml
listen = \"0.0.0.0:8080\"
data = \"/var/lib/driftq\"
api_key_file = \"/etc/driftq/key\"

[limits]
value_bytes = 4_194_304
body_bytes = 16_777_216

[defaults]
lease_ms = 60_000
retry_policy = { max_attempts = 5 }
```

The variable of a key is `DRIFTQ_` and the key in capitals, with `_` instead of dots:
`DRIFTQ_LIMITS_VALUE_BYTES`. The flag is the key with dashes: `--limits-value-bytes`. Only the flag of
`defaults.profile` is shorter: `--profile`. A number without a unit has the unit that the name of the key ends in.
List items are separated by commas. `none` is a value only if the column *form* lists it. An empty variable counts
as not set. `insecure` is rejected in a `driftq.toml` that was found in the working directory and not given
with `--config` or `DRIFTQ_CONFIG`.

| key | form | default | meaning |
|---|---|---|---|
"
    .to_owned();
    let said: Value = serde_json::from_str(&driftq(&["config", "-o", "json"])).expect("JSON");
    let values = said["values"].as_array().expect("a list");
    assert!(values.len() > 30, "{said}");
    for value in values {
        let field = |name: &str| value[name].as_str().unwrap_or_default().replace('|', "\\|");
        let default = match &value["value"] {
            Value::Null | Value::Array(_) => "none".to_owned(),
            Value::String(text) => text.clone(),
            Value::Bool(_) | Value::Number(_) | Value::Object(_) => value["value"].to_string(),
        };
        text.push_str(&format!(
            "| `{}` | `{}` | `{default}` | {} |\n",
            field("key"),
            field("form"),
            field("help")
        ));
    }
    text.push_str(
        "\nThe API key is only in its file. It cannot be given as a flag or variable, and it is never shown.\n",
    );
    page("configuration").assert_eq(&text);
}

#[test]
fn every_shell_has_completions() {
    for shell in ["bash", "zsh", "fish"] {
        let script = driftq(&["completions", shell]);
        for verb in ["redrive", "explain", "allowed-origins"] {
            assert!(script.contains(verb), "the completions of {shell} lack {verb}");
        }
    }
}

#[test]
fn the_manual_has_examples_and_exit_codes() {
    let directory = tempfile::TempDir::new().expect("a directory");
    driftq(&["man", directory.path().to_str().expect("a plain path")]);
    let read = |name: &str| std::fs::read_to_string(directory.path().join(name)).expect("a page");
    assert!(read("driftq.1").contains("Exit codes:"), "{}", read("driftq.1"));
    assert!(read("driftq-topic-create.1").contains("unkeyed=spread"));
}
