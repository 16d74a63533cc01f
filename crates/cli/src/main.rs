//! `driftq`: the server, the client commands and the offline tools in one binary.

mod answer;
mod audit;
mod cli_error;
mod client;
mod clock;
mod config;
mod confirm;
mod conform;
mod copy;
mod dev;
mod dlq;
mod duration;
mod effect;
mod escape;
mod explain;
mod export;
mod group;
mod ledger_file;
mod log;
mod manual;
mod message;
mod node;
mod offline;
mod output;
mod relay;
mod route;
mod serve;
mod settle;
mod shard;
mod status;
mod top;
mod topic;
mod verify;
mod version;

use std::process::ExitCode;

use clap::{Arg, Command, CommandFactory as _, FromArgMatches as _, Parser, Subcommand};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Durable message queue that makes side effects safe to retry
#[derive(Parser)]
#[command(name = "driftq", version)]
#[command(after_help = "\
Quick start:
  driftq dev --topic orders                      start a server that keeps all data in memory
  driftq produce orders 'pay 12'                 in another terminal
  driftq consume orders biller --ack")]
struct Cli {
    #[command(flatten)]
    remote: client::Remote,
    #[command(subcommand)]
    command: Cmd,
}

#[derive(Subcommand)]
enum Cmd {
    Serve(serve::Serve),
    Dev(dev::Dev),
    Conform(conform::Conform),
    Config(config::Show),
    Status(status::Status),
    Top(top::Top),
    Topic(topic::Topic),
    Group(group::Group),
    Produce(message::Produce),
    Consume(message::Consume),
    Peek(message::Peek),
    Ack(settle::Ack),
    Nack(settle::Nack),
    Extend(settle::Extend),
    Dlq(dlq::Dlq),
    Effect(effect::Effect),
    Explain(explain::Explain),
    Audit(audit::Audit),
    Export(export::Export),
    Relay(relay::Relay),
    Route(route::Route),
    Verify(verify::Verify),
    Check(offline::Check),
    Backup(offline::Backup),
    Node(node::Node),
    Shard(shard::Shard),
    Clock(clock::Clock),
    MarkRestored(copy::Restored),
    CopyToPostgres(copy::CopyTo),
    Version(version::Version),
    Completions(manual::Completions),
    Man(manual::Man),
}

/// Examples come first because most users look for them.
const TEMPLATE: &str = "{about}{after-help}\n\n{usage-heading} {usage}\n\n{all-args}";

/// Returns the command line with its help template applied to every subcommand.
fn command() -> Command {
    fn examples_first(command: Command) -> Command {
        let is_noun = command.has_subcommands();
        let command = command.help_template(TEMPLATE).max_term_width(100).mut_args(not_if_empty);
        command.arg_required_else_help(is_noun).mut_subcommands(examples_first)
    }
    let root = format!("{TEMPLATE}\n\n{}", cli_error::EXIT_CODES);
    examples_first(Cli::command()).help_template(root)
}

/// Treats an empty environment variable as unset.
fn not_if_empty(arg: Arg) -> Arg {
    let given = arg.get_env().and_then(std::env::var_os);
    match given {
        Some(text) if text.is_empty() => arg.env(None::<&'static str>),
        Some(_) | None => arg,
    }
}

fn main() -> ExitCode {
    let cli = Cli::from_arg_matches(&command().get_matches()).unwrap_or_else(|error| error.exit());
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return failed(&error.into()),
    };
    match runtime.block_on(run(cli)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => failed(&error),
    }
}

async fn run(cli: Cli) -> anyhow::Result<()> {
    let remote = &cli.remote;
    match cli.command {
        Cmd::Serve(serve) => serve.run().await,
        Cmd::Dev(dev) => dev.run().await,
        Cmd::Conform(conform) => conform.run(remote.output).await,
        Cmd::Config(show) => show.run(remote.output),
        Cmd::Status(status) => status.run(remote).await,
        Cmd::Top(top) => top.run(remote).await,
        Cmd::Topic(topic) => topic.run(remote).await,
        Cmd::Group(group) => group.run(remote).await,
        Cmd::Produce(produce) => produce.run(remote).await,
        Cmd::Consume(consume) => consume.run(remote).await,
        Cmd::Peek(peek) => peek.run(remote).await,
        Cmd::Ack(ack) => ack.run(remote).await,
        Cmd::Nack(nack) => nack.run(remote).await,
        Cmd::Extend(extend) => extend.run(remote).await,
        Cmd::Dlq(dlq) => dlq.run(remote).await,
        Cmd::Effect(effect) => effect.run(remote).await,
        Cmd::Explain(explain) => explain.run(remote).await,
        Cmd::Audit(audit) => audit.run(remote).await,
        Cmd::Export(export) => export.run(remote).await,
        Cmd::Relay(relay) => relay.run(remote).await,
        Cmd::Route(route) => route.run(remote).await,
        Cmd::Verify(verify) => verify.run(remote.output),
        Cmd::Check(check) => check.run(remote.output).await,
        Cmd::Backup(backup) => backup.run(remote.output).await,
        Cmd::Node(node) => node.run(remote).await,
        Cmd::Clock(clock) => clock.run(remote).await,
        Cmd::Shard(shard) => shard.run(remote).await,
        Cmd::MarkRestored(restored) => restored.run(remote.output).await,
        Cmd::CopyToPostgres(copy) => copy.run(remote.output).await,
        Cmd::Version(version) => version.run(remote).await,
        Cmd::Completions(completions) => {
            completions.run(command());
            Ok(())
        }
        Cmd::Man(man) => man.run(command()),
    }
}

/// Prints the error and its causes. A cause that is already part of the message is not repeated.
fn failed(error: &anyhow::Error) -> ExitCode {
    let mut message = String::new();
    for cause in error.chain().map(ToString::to_string) {
        if !message.contains(&cause) {
            let colon = if message.is_empty() { "" } else { ": " };
            message = format!("{message}{colon}{cause}");
        }
    }
    if log::is_json() {
        tracing::error!("{message}");
        return cli_error::exit_code(error);
    }
    for line in message.lines() {
        output::talk(format_args!("error: {line}"));
    }
    cli_error::exit_code(error)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Calls `each` for every command with its path.
    fn walk(path: &str, command: &Command, each: &mut dyn FnMut(&str, &Command)) {
        each(path, command);
        for below in command.get_subcommands() {
            walk(&format!("{path} {}", below.get_name()), below, each);
        }
    }

    /// Splits a line as a shell does: at spaces, except between single quotes.
    fn words(line: &str) -> Vec<String> {
        let mut words = vec![String::new()];
        let mut is_quoted = false;
        for c in line.trim().chars() {
            match c {
                '\'' => is_quoted = !is_quoted,
                ' ' if !is_quoted => words.push(String::new()),
                c => words.last_mut().expect("never empty").push(c),
            }
        }
        words.retain(|word| !word.is_empty());
        words
    }

    #[test]
    fn the_command_line_makes_sense() {
        command().debug_assert();
    }

    #[test]
    fn every_command_shows_examples_and_every_example_can_be_typed() {
        let mut examples = 0;
        walk("driftq", &command(), &mut |path, command| {
            let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
            assert!(help.contains("  driftq "), "{path} has no example");
            for line in help.lines().filter(|line| line.starts_with("  ")) {
                // Three spaces separate an example from its explanation.
                let typed = line.trim().split("   ").next().unwrap_or_default();
                for typed in typed.split(" && ").filter(|typed| typed.contains("driftq ")) {
                    let from = typed.find("driftq ").expect("the filter checked it");
                    let typed = typed[from..].split(" > ").next().unwrap_or_default();
                    let parsed = super::command().try_get_matches_from(words(typed));
                    assert!(parsed.is_ok(), "{path}: `{typed}` {}", parsed.unwrap_err());
                    examples += 1;
                }
            }
        });
        assert!(examples > 50, "only {examples} examples were found");
    }
}
