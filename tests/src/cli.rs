//! The command line, as a person runs it: the tests and the demo are its first users.

use crate::{StageError, root};
use serde_json::Value;
use std::path::PathBuf;
use std::process::Output;
use tokio::process::Command;

/// The built program: of the same profile as this one, or what `BREAKGLASS_BIN` names.
pub fn binary() -> Result<PathBuf, StageError> {
    if let Some(path) = std::env::var_os("BREAKGLASS_BIN") {
        return Ok(path.into());
    }
    let own = std::env::current_exe().map_err(|error| StageError::of("this program", error))?;
    let beside = own.ancestors().map(|folder| folder.join("breakglass"));
    let fallback = [root().join("target/debug/breakglass")];
    beside
        .chain(fallback)
        .find(|path| path.is_file())
        .ok_or_else(|| {
            StageError::new("`breakglass` is not built: run `cargo build -p breakglass`")
        })
}

/// One person at the command line.
#[derive(Clone)]
pub struct Person {
    /// Backstage's address.
    pub url: String,
    /// Their token.
    pub token: String,
}

impl Person {
    /// The program with these arguments, signed in as this person.
    pub fn command(&self, arguments: &[&str]) -> Result<Command, StageError> {
        let mut command = Command::new(binary()?);
        command
            .args(arguments)
            .env("BREAKGLASS_URL", &self.url)
            .env("BREAKGLASS_TOKEN", &self.token)
            .kill_on_drop(true);
        Ok(command)
    }

    /// Runs it to its end.
    pub async fn run(&self, arguments: &[&str]) -> Result<Output, StageError> {
        self.command(arguments)?
            .stdin(std::process::Stdio::null())
            .output()
            .await
            .map_err(|error| StageError::of("the command line cannot be started", error))
    }

    /// Runs it with `--json` and reads its answer; a failure is told with what it said.
    pub async fn json(&self, arguments: &[&str]) -> Result<Value, StageError> {
        let mut all = arguments.to_vec();
        all.push("--json");
        let output = self.run(&all).await?;
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            return Err(StageError::new(format!(
                "{}: {}",
                arguments.join(" "),
                said.trim()
            )));
        }
        serde_json::from_slice(&output.stdout)
            .map_err(|error| StageError::of(arguments.join(" "), error))
    }
}
