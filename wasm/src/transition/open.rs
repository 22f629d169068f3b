//! The row of a new session, before anything else knows of it.

use super::{Refusal, claim::Open, minutes};
use crate::access;
use crate::request::SessionRequest;
use crate::session::{Actor, Permission, ReviewState, Session, SessionId, State, Tier};
use crate::settings::{APPROVAL_WINDOW, later, stored};
use alloc::string::String;
use alloc::vec::Vec;
use jiff::Timestamp;

/// What is decided about a request before its row is made: by `tier_for`, and from the pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Admission {
    /// The tier (S-9).
    pub tier: Tier,
    /// The session could read Secrets (C-13).
    pub sensitive: bool,
    /// The target container's image (C-4).
    pub pod_image: Option<String>,
    /// Its digest, as the kubelet reports it (C-4).
    pub pod_image_id: Option<String>,
}

/// Makes the row of a new session: active on Ground and with glass broken, else requested. The
/// request's flags are those of the tier (`SessionRequest::for_tier`) whatever was passed in.
///
/// # Errors
/// `AnsweredForOtherApp` and `NotPermitted`; on Flight, breaking the glass needs the permission
/// `tower.breakglass.self`, everything else `tower.breakglass.request`.
pub fn open_session(
    request: SessionRequest,
    admission: Admission,
    actor: &Actor,
    now: Timestamp,
    id: SessionId,
) -> Result<Open, Refusal> {
    let request = request.for_tier(admission.tier);
    if request.app != actor.app {
        let (asked, answered) = (request.app, actor.app.clone());
        return Err(Refusal::AnsweredForOtherApp { asked, answered });
    }
    let needed = if request.glass_broken {
        Permission::SelfApprove
    } else {
        Permission::Request
    };
    access::permitted(actor, needed)?;

    let mut session = requested(request, admission, actor, stored(now), id);
    if session.tier == Tier::Ground || session.glass_broken {
        session.state = State::Active;
        session.started_at = Some(session.created_at);
        session.expires_at = later(session.created_at, minutes(session.duration_minutes));
    }
    Ok(Open { session })
}

fn requested(
    request: SessionRequest,
    admission: Admission,
    actor: &Actor,
    now: Timestamp,
    id: SessionId,
) -> Session {
    Session {
        id,
        app: request.app,
        env: request.env,
        cluster: request.cluster,
        namespace: request.namespace,
        pod: request.pod,
        container: request.container,
        mode: request.mode,
        process_access: request.process_access,
        volume_access: request.volume_access,
        volumes: Vec::new(),
        recycle_last_pod: request.recycle_last_pod,
        recycled: None,
        reason: request.reason,
        ticket_url: request.ticket_url,
        requester: actor.user.clone(),
        tier: admission.tier,
        duration_minutes: request.duration_minutes,
        approver: None,
        approved_at: None,
        decision_note: None,
        glass_broken: request.glass_broken,
        review_state: request.glass_broken.then_some(ReviewState::Due),
        reviewed_by: None,
        reviewed_at: None,
        review_note: None,
        created_at: now,
        started_at: None,
        extended_at: None,
        expires_at: later(now, APPROVAL_WINDOW),
        ended_at: None,
        end_reason: None,
        ended_by: None,
        role_binding: None,
        copy_pod: None,
        debug_container: None,
        recording_key: None,
        recording_sha256: None,
        recording_bytes: None,
        recording_bucket: None,
        recording_version: None,
        sensitive: admission.sensitive,
        hold_app: request.hold_app,
        pod_image: admission.pod_image,
        pod_image_id: admission.pod_image_id,
        recycle_waived_reason: None,
        review_reminded_at: None,
        review_escalated_at: None,
        recording_rekor_index: None,
        recording_rekor_uuid: None,
        anchor_attempted_at: None,
        anchor_error: None,
        cleanup_notes: None,
        state: State::Requested,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::{self, ALICE, actor, at};
    use crate::request::parse_session_request;
    use crate::transition::RefusalKind;
    use jiff::SignedDuration;
    use serde_json::json;

    fn requester() -> Actor {
        actor(ALICE, &[Permission::Request])
    }

    fn request(changes: &[(&str, serde_json::Value)]) -> SessionRequest {
        let mut body = json!({
            "app": "shop", "env": "production", "cluster": "prod", "namespace": "shop-production",
            "pod": "web-1", "container": "web", "mode": "live", "durationMinutes": 15,
            "reason": "orders hang",
        });
        for (field, value) in changes {
            body[*field] = value.clone();
        }
        parse_session_request(&body, None).unwrap()
    }

    fn open(
        tier: Tier,
        changes: &[(&str, serde_json::Value)],
        actor: &Actor,
    ) -> Result<Session, Refusal> {
        let admission = Admission {
            tier,
            sensitive: false,
            pod_image: None,
            pod_image_id: None,
        };
        let now = at("+0m") + SignedDuration::from_nanos(1);
        open_session(request(changes), admission, actor, now, fixture::id())
            .map(|open| open.session)
    }

    #[test]
    fn ground_opens_at_once_and_flight_waits_for_a_second_person() {
        assert_eq!(
            open(Tier::Flight, &[], &requester()),
            Ok(fixture::requested())
        );
        let ground = open(Tier::Ground, &[("glassBroken", json!(true))], &requester()).unwrap();
        let expected = Session {
            state: State::Active,
            tier: Tier::Ground,
            started_at: Some(at("+0m")),
            expires_at: at("+15m"),
            ..fixture::requested()
        };
        assert_eq!(ground, expected, "Ground has no glass to break");
    }

    #[test]
    fn qa25_an_admin_who_breaks_the_glass_opens_at_once_and_owes_a_review() {
        let broken = [
            ("glassBroken", json!(true)),
            ("recycleLastPod", json!(true)),
        ];
        let admin = actor(ALICE, &[Permission::SelfApprove]);
        let session = open(Tier::Flight, &broken, &admin).unwrap();
        assert_eq!(
            (session.state, session.expires_at),
            (State::Active, at("+15m"))
        );
        assert_eq!(session.review_state, Some(ReviewState::Due));
        assert_eq!((session.approver, session.glass_broken), (None, true));
        assert!(
            !session.recycle_last_pod,
            "on Flight the last ready pod is never recycled"
        );
        let refusal = open(Tier::Flight, &broken, &requester()).unwrap_err();
        assert!(
            refusal.to_string().contains("`tower.breakglass.self`"),
            "{refusal}"
        );
    }

    #[test]
    fn a_session_is_not_opened_without_the_permission_for_its_own_app() {
        let nobody =
            open(Tier::Ground, &[], &actor(ALICE, &[Permission::SelfApprove])).unwrap_err();
        assert_eq!(nobody.kind(), RefusalKind::NotAllowed);
        let other = open(Tier::Ground, &[("app", json!("bank"))], &requester()).unwrap_err();
        assert_eq!(other.kind(), RefusalKind::Invalid);
    }
}
