//! `driftq`: the server and everything around it, in one binary.
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "this is a program for people")]

mod dev;
mod serve;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// What the server will have.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// A durable queue in which a side effect happens once.
#[derive(Parser)]
#[command(version, about, propagate_version = true, arg_required_else_help = true)]
struct Cli {
    #[command(subcommand)]
    command: Cmd,
}

#[derive(Subcommand)]
enum Cmd {
    Serve(serve::Serve),
    Dev(dev::Dev),
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return failed(&error.into()),
    };
    let done = runtime.block_on(async {
        match cli.command {
            Cmd::Serve(serve) => serve.run().await,
            Cmd::Dev(dev) => dev.run().await,
        }
    });
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => failed(&error),
    }
}

fn failed(error: &anyhow::Error) -> ExitCode {
    eprintln!("error: {error:#}");
    ExitCode::FAILURE
}
