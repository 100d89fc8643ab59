//! The command `cudnn-doctor`. This file reads the command line; each subcommand has a module.

use std::process::ExitCode;

use clap::{Parser, Subcommand};

mod demo;
mod output;

/// Says what cuDNN is installed and uses it.
#[derive(Parser)]
#[command(version, arg_required_else_help = true)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Find a cuDNN, or fetch a real one, and use it: descriptors without a GPU, a convolution with one.
    #[command(after_help = "\
Examples:
  cudnn-doctor demo                                  with whatever is installed, else a fetched one
  cudnn-doctor demo --offline                        never fetch
  CUDNN_LOADER_DIR=/opt/cudnn/lib cudnn-doctor demo  with this one")]
    Demo(demo::Arguments),
}

fn main() -> ExitCode {
    let result = match Arguments::parse().command {
        Command::Demo(arguments) => demo::run(&arguments),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("\n{error}");
            ExitCode::FAILURE
        }
    }
}
