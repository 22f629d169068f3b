//! The project's own commands.

mod bindings;

use clap::{Parser, Subcommand};
use std::error::Error;
use std::path::{Path, PathBuf};

#[derive(Parser)]
#[command(name = "cargo xtask", about = "The project's own commands")]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Build the decisions for browsers and Node, and write their types.
    Bindings {
        /// Compare what is committed and write nothing that is.
        #[arg(long)]
        check: bool,
        /// Also lay out the npm packages of the addon in this folder.
        #[arg(long, value_name = "FOLDER")]
        pack: Option<PathBuf>,
    },
}

fn main() -> Result<(), Box<dyn Error>> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../..")
        .canonicalize()?;
    match Arguments::parse().command {
        Command::Bindings { check, pack } => bindings(&root, check, pack.as_deref()),
    }
}

#[expect(
    clippy::print_stdout,
    reason = "what was built is this command's answer"
)]
fn bindings(root: &Path, check: bool, pack: Option<&Path>) -> Result<(), Box<dyn Error>> {
    let report = if check {
        bindings::check(root)?
    } else {
        bindings::build(root)?
    };
    println!("{report}");
    if let Some(out) = pack {
        for folder in bindings::pack(root, out)? {
            println!("{}", folder.display());
        }
    }
    Ok(())
}
