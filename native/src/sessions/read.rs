//! Reading sessions and recordings.
//!
//! Invariants: an id of another app is not found (S-11); an answer after a deadline never says
//! that the session goes on; a recording is read by bucket and version.

use super::Sessions;
use crate::http::caller::Caller;
use crate::http::error::ApiError;
use crate::ports::recordings::{Location, Reading};
use decisions::access::{Capabilities, may_read_recording, may_see};
use decisions::session::{Permission, Session, SessionId, Tier, UserRef};
use decisions::settings::Preview;
use decisions::text::{NAME_MAX, is_plain_name};
use decisions::transition::as_seen;
use serde::Serialize;

/// How many of an environment's sessions a list has.
const NEWEST: u32 = 50;

/// What goes with every answer about sessions.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct About {
    user: UserRef,
    recordings_configured: bool,
    recording_retention_days: u32,
    #[serde(flatten)]
    capabilities: Capabilities,
}

/// `GET /sessions`.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Listed {
    sessions: Vec<Session>,
    #[serde(flatten)]
    about: About,
    preview: Preview,
}

/// `GET /sessions/:id`.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Shown {
    session: Session,
    #[serde(flatten)]
    about: About,
}

/// `GET /v1/sessions/{id}/app`: what the shim needs before it can ask for permissions.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
#[expect(missing_docs, reason = "the fields are the row's columns (spec 06)")]
pub struct AppFacts {
    pub app: String,
    pub env: String,
    pub requester: UserRef,
    pub approver: Option<UserRef>,
    pub sensitive: bool,
    pub tier: Tier,
    pub glass_broken: bool,
}

impl Sessions {
    /// The environment's newest sessions.
    pub async fn list(
        &self,
        caller: &Caller,
        app: &str,
        env: &str,
    ) -> Result<Listed, ApiError> {
        for (name, value) in [("app", app), ("env", env)] {
            if !is_plain_name(value, NAME_MAX) {
                return Err(ApiError::Malformed(format!("`{name}` is not a name")));
            }
        }
        if caller.actor.app != app {
            return Err(ApiError::NotFound(format!("app `{app}` has no sessions here")));
        }
        decisions::access::permitted(&caller.actor, Permission::Request)?;
        let rows = self.store.newest(app, env, NEWEST).await?;
        Ok(Listed {
            sessions: rows.into_iter().map(|row| self.seen(row)).collect(),
            about: self.about(caller),
            preview: self.settings.preview(caller.declared_tier),
        })
    }

    /// One session, past the list's window too.
    pub async fn show(&self, caller: &Caller, id: &SessionId) -> Result<Shown, ApiError> {
        let session = self.load(id).await?;
        may_see(&session, &caller.actor)?;
        Ok(Shown { session: self.seen(session), about: self.about(caller) })
    }

    /// Whose session it is.
    pub async fn app_of(&self, id: &SessionId) -> Result<AppFacts, ApiError> {
        let session = self.load(id).await?;
        Ok(AppFacts {
            app: session.app,
            env: session.env,
            requester: session.requester,
            approver: session.approver,
            sensitive: session.sensitive,
            tier: session.tier,
            glass_broken: session.glass_broken,
        })
    }

    /// The recording of a session, and its hash.
    pub async fn recording(
        &self,
        caller: &Caller,
        id: &SessionId,
    ) -> Result<(Reading, String), ApiError> {
        let session = self.load(id).await?;
        may_read_recording(&session, &caller.actor)?;
        let (Some(key), Some(sha256)) = (session.recording_key, session.recording_sha256) else {
            return Err(ApiError::NotFound("this session has no recording".to_owned()));
        };
        let (Some(bucket), Some(version)) = (session.recording_bucket, session.recording_version)
        else {
            return Err(ApiError::Gone(
                "this recording was made before versions; the store that holds it is not \
                 configured here"
                    .to_owned(),
            ));
        };
        let reading =
            self.recorder.open(&Location { key, bucket, version }, &sha256).await?;
        Ok((reading, sha256))
    }

    /// A row as it is at this moment: one past its deadline is over, sweep or no sweep (qA35).
    fn seen(&self, row: Session) -> Session {
        let runtime = self.runtimes.get(&row.id);
        let ages = runtime.map(|runtime| runtime.ages(self.clock.elapsed()));
        as_seen(row, ages, self.clock.wall())
    }

    fn about(&self, caller: &Caller) -> About {
        About {
            user: caller.actor.user.clone(),
            recordings_configured: true,
            recording_retention_days: self.retention_days,
            capabilities: Capabilities::of(&caller.actor),
        }
    }
}
