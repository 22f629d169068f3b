//! `breakglass`: the sidecar (`serve`) and the command line, one binary.

use std::process::ExitCode;

fn main() -> ExitCode {
    breakglass::cli::run()
}
