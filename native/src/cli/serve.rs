//! `breakglass serve` and `breakglass config`.

use super::failure::Failure;
use crate::app::App;
use crate::config::{Config, read};
use crate::http::error::chain;
use crate::logs;
use std::future::Future;
use std::path::Path;
use tokio::signal::unix::{SignalKind, signal};

/// Reads the configuration and says everything that is wrong with it.
pub(super) fn configuration(path: &Path) -> Result<Config, Failure> {
    let env = |name: &str| std::env::var(name).ok();
    read(path, &env).map_err(|error| Failure::Usage(chain(&error)))
}

/// Says everything that is wrong with a file, or that it is fine.
pub(super) fn check(path: &Path) -> Result<(), Failure> {
    configuration(path)?;
    super::print("the configuration is usable")
}

/// Runs the sidecar until SIGTERM or SIGINT.
pub(super) fn serve(path: &Path) -> Result<(), Failure> {
    let config = configuration(path)?;
    logging(&config)?;
    in_runtime(async move {
        let app = App::build(&config)
            .await
            .map_err(|error| Failure::Local(chain(&error)))?;
        let mut terminate = signal(SignalKind::terminate())?;
        let mut interrupt = signal(SignalKind::interrupt())?;
        let serving = app.serve(&config);
        tokio::pin!(serving);
        tokio::select! {
            served = &mut serving => {
                return served.map_err(|error| Failure::Local(chain(&error)));
            }
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
        tracing::info!("stopping");
        app.shut_down("the backend stops; the session ends with its restart")
            .await;
        serving.await.map_err(|error| Failure::Local(chain(&error)))
    })
}

/// Logs go to stderr.
fn logging(config: &Config) -> Result<(), Failure> {
    let subscriber = logs::subscriber(&config.logs, std::io::stderr)
        .map_err(|error| Failure::Usage(format!("`logs.filter`: {error}")))?;
    tracing::subscriber::set_global_default(subscriber)
        .map_err(|error| Failure::Local(chain(&error)))
}

/// Runs a future on the process's runtime.
pub(super) fn in_runtime(work: impl Future<Output = Result<(), Failure>>) -> Result<(), Failure> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::Local(format!("cannot start: {error}")))?;
    let outcome = runtime.block_on(work);
    // A blocked read of stdin must not keep the process.
    runtime.shutdown_timeout(std::time::Duration::from_millis(100));
    outcome
}
