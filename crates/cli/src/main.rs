//! `driftq`: the server and everything around it, in one binary.
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "this is a program for people")]

mod client;
mod dev;
mod dlq;
mod failure;
mod group;
mod message;
mod offline;
mod output;
mod serve;
mod settle;
mod topic;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// A durable queue in which a side effect happens once
#[derive(Parser)]
#[command(name = "driftq", version, propagate_version = true, arg_required_else_help = true)]
#[command(after_help = "\
A first minute:
  driftq dev --topic orders            a server in memory
  driftq produce orders 'pay 12'       in another terminal
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
    Topic(topic::Topic),
    Group(group::Group),
    Produce(message::Produce),
    Consume(message::Consume),
    Peek(message::Peek),
    Ack(settle::Ack),
    Nack(settle::Nack),
    Extend(settle::Extend),
    Dlq(dlq::Dlq),
    Check(offline::Check),
    Backup(offline::Backup),
}

fn main() -> ExitCode {
    let cli = Cli::parse();
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
        Cmd::Serve(serve) => serve.run(remote.api_key_file()).await,
        Cmd::Dev(dev) => dev.run().await,
        Cmd::Topic(topic) => topic.run(remote).await,
        Cmd::Group(group) => group.run(remote).await,
        Cmd::Produce(produce) => produce.run(remote).await,
        Cmd::Consume(consume) => consume.run(remote).await,
        Cmd::Peek(peek) => peek.run(remote).await,
        Cmd::Ack(ack) => ack.run(remote).await,
        Cmd::Nack(nack) => nack.run(remote).await,
        Cmd::Extend(extend) => extend.run(remote).await,
        Cmd::Dlq(dlq) => dlq.run(remote).await,
        Cmd::Check(check) => check.run().await,
        Cmd::Backup(backup) => backup.run(),
    }
}

fn failed(error: &anyhow::Error) -> ExitCode {
    eprintln!("error: {error:#}");
    failure::exit_code(error)
}
