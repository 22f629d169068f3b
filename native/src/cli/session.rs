//! `breakglass session …`: the routes that Tower uses.

use super::client::Client;
use super::failure::Failure;
use super::{Backstage, attach, print, say};
use clap::{Args, Subcommand};
use http::Method;
use serde_json::{Value, json};

#[derive(Subcommand)]
pub(super) enum SessionCommand {
    /// Opens a session and attaches to its terminal
    Open(Open),
    /// Lists an environment's newest sessions
    List {
        /// The app
        #[arg(long)]
        app: String,
        /// Its environment
        #[arg(long)]
        env: String,
    },
    /// Shows one session
    Show {
        /// The session's id
        id: String,
    },
    /// Attaches to a session's terminal; `~.` at the start of a line leaves it
    Attach {
        /// The session's id
        id: String,
    },
    /// Ends a session
    End {
        /// The session's id
        id: String,
    },
}

#[derive(Args)]
pub(super) struct Open {
    /// The app
    #[arg(long)]
    app: String,
    /// Its environment
    #[arg(long)]
    env: String,
    /// The cluster, by the name that Backstage uses
    #[arg(long)]
    cluster: String,
    /// The namespace
    #[arg(long)]
    namespace: String,
    /// The pod
    #[arg(long)]
    pod: String,
    /// The container
    #[arg(long)]
    container: String,
    /// `live` (a debug container in the pod) or `copy` (a hardened copy of the pod)
    #[arg(long, default_value = "live")]
    mode: String,
    /// Minutes: 15, 30 or 60
    #[arg(long, default_value_t = 15)]
    duration: u32,
    /// Why; kept with the session
    #[arg(long)]
    reason: String,
    /// A ticket
    #[arg(long)]
    ticket_url: Option<String>,
    /// See the container's processes
    #[arg(long)]
    process_access: bool,
    /// See the container's volumes, read-only
    #[arg(long)]
    volume_access: bool,
    /// Replace the pod afterwards even if it is its controller's last ready one
    #[arg(long)]
    recycle_last_pod: bool,
    /// Open on Flight without a second person; a review is owed
    #[arg(long)]
    glass_broken: bool,
    /// Only open it; attach later
    #[arg(long)]
    no_attach: bool,
}

impl Open {
    fn body(&self) -> Value {
        json!({
            "app": self.app, "env": self.env, "cluster": self.cluster,
            "namespace": self.namespace, "pod": self.pod, "container": self.container,
            "mode": self.mode, "durationMinutes": self.duration, "reason": self.reason,
            "ticketUrl": self.ticket_url, "processAccess": self.process_access,
            "volumeAccess": self.volume_access, "recycleLastPod": self.recycle_last_pod,
            "glassBroken": self.glass_broken,
        })
    }
}

pub(super) async fn run(backstage: Backstage, command: SessionCommand) -> Result<(), Failure> {
    let client = Client::new(&backstage)?;
    let json = backstage.json;
    match command {
        SessionCommand::Open(open) => opened(&client, &open, json).await,
        SessionCommand::List { app, env } => {
            let mut url = client.url(&["sessions"]);
            url.query_pairs_mut()
                .append_pair("app", &app)
                .append_pair("env", &env);
            let answer = client.call(Method::GET, url, None).await?;
            if json {
                return print(&answer.to_string());
            }
            let sessions = answer["sessions"].as_array().cloned().unwrap_or_default();
            for session in &sessions {
                print(&line(session))?;
            }
            if sessions.is_empty() {
                say("no sessions");
            }
            Ok(())
        }
        SessionCommand::Show { id } => {
            let answer = client
                .call(Method::GET, client.url(&["sessions", &id]), None)
                .await?;
            if json {
                print(&answer.to_string())
            } else {
                print(&card(&answer["session"]))
            }
        }
        SessionCommand::Attach { id } => attach::attach(&client, &id, json).await,
        SessionCommand::End { id } => {
            let url = client.url(&["sessions", &id, "end"]);
            let session = client.call(Method::POST, url, None).await?;
            if json {
                print(&session.to_string())
            } else {
                print(&line(&session))
            }
        }
    }
}

async fn opened(client: &Client, open: &Open, json: bool) -> Result<(), Failure> {
    say("opening; a debug container is added to the pod, which takes a few seconds");
    let url = client.url(&["sessions"]);
    let session = client.call(Method::POST, url, Some(&open.body())).await?;
    if open.no_attach {
        return if json {
            print(&session.to_string())
        } else {
            print(&line(&session))
        };
    }
    say(&line(&session));
    let id = session["id"].as_str().unwrap_or_default().to_owned();
    attach::attach(client, &id, json).await
}

/// A field for a person: no control characters, whatever the server sent.
fn text(value: &Value) -> String {
    let text = match value.as_str() {
        Some(text) => text.to_owned(),
        None if value.is_null() => String::new(),
        None => value.to_string(),
    };
    text.chars()
        .map(|c| if c.is_control() { ' ' } else { c })
        .collect()
}

fn line(session: &Value) -> String {
    let until = if session["endReason"].is_string() {
        text(&session["endReason"])
    } else {
        format!("until {}", text(&session["expiresAt"]))
    };
    format!(
        "{}  {}  {}  {}/{}  {}  {}",
        text(&session["id"]),
        text(&session["state"]),
        text(&session["tier"]),
        text(&session["namespace"]),
        text(&session["pod"]),
        text(&session["requester"]),
        until,
    )
}

fn card(session: &Value) -> String {
    let fields = session.as_object().into_iter().flatten();
    let shown: Vec<String> = fields
        .filter(|(_, value)| !value.is_null())
        .map(|(key, value)| format!("{key:<22}{}", text(value)))
        .collect();
    shown.join("\n")
}
