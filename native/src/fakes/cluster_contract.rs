//! What every adapter of the [`Cluster`] port does, whatever is behind it: run on the fake, on the
//! stand-in and on a real cluster by [`cluster_contract!`](crate::cluster_contract).
//!
//! Each case gets a world of its own, and asks for nothing but what the world's trait offers.
#![expect(
    clippy::expect_used,
    reason = "a case of the contract fails by panicking"
)]

use crate::ports::ClusterError;
use crate::ports::cluster::{
    Cluster, Deleted, MadeObject, ObjectKind, PodRef, Shell, ShellEvent, ShellInput,
};
use async_trait::async_trait;
use bytes::Bytes;
use decisions::grant::{GrantSpec, Sanction, Subject, grant};
use decisions::names;
use decisions::session::{Mode, SessionId, UserRef};
use jiff::{SignedDuration, Timestamp};
use serde_json::Value;
use std::future::poll_fn;
use std::io::Write as _;
use std::sync::Arc;
use std::time::Duration;

mod cases;
mod copies;
pub use cases::*;
pub use copies::*;

/// Longer than any adapter may take for what happens "at once" here.
pub const PROMPT: Duration = Duration::from_secs(30);

/// What a contract case needs of the other side of the port: somebody with an admin's rights.
#[async_trait]
pub trait World: Send + Sync {
    /// The adapter under test.
    fn cluster(&self) -> Arc<dyn Cluster>;
    /// The installation that it works for.
    fn installation(&self) -> String;
    /// A namespace with a label `hangar.io/app`.
    fn namespace(&self) -> String;
    /// A ready pod in it, of a controller that has one more, which is ready too.
    async fn pod(&self) -> PodRef;
    /// An ephemeral container of that name with an interactive shell, stdin and a TTY.
    fn debug_container(&self, name: &str) -> Value;
    /// From here on the next debug container's image cannot be pulled.
    async fn break_the_image(&self);
    /// The pod goes, and another of the same name comes; it is returned.
    async fn replace(&self, pod: &PodRef) -> PodRef;
    /// Makes a RoleBinding as somebody else; its UID.
    async fn make_binding(&self, binding: Value) -> String;
    /// Whether a RoleBinding of that name is there.
    async fn has_binding(&self, name: &str) -> bool;
    /// The next ephemeral container is refused by an admission policy with these words.
    async fn refuse_by_policy(&self, words: &str) -> Result<(), CannotBeTold>;
    /// The next RoleBinding is made, and the answer lost.
    async fn lose_the_answer(&self) -> Result<(), CannotBeTold>;
}

/// This world cannot be told to do so, and why: the case that asks is skipped.
pub struct CannotBeTold(pub &'static str);

impl CannotBeTold {
    fn skip(&self, case: &str) {
        let _ = writeln!(std::io::stderr(), "skipped: {case}: {}", self.0);
    }
}

/// A session's grant as the use cases make it.
async fn grant_for(world: &dyn World, id: &SessionId, installation: &str) -> Value {
    let username = world.cluster().username().await.expect("who we are");
    grant(&GrantSpec {
        id: id.clone(),
        namespace: world.namespace(),
        mode: Mode::Live,
        subject: Subject::from_username(&username),
        duration_minutes: 30,
        requester: UserRef::new("user:default/alice"),
        sanction: Sanction::Ground,
        expires_at: expiry(),
        installation: installation.to_owned(),
        second: false,
    })
}

/// A deadline that every policy takes: whole seconds, in the future of whoever runs this.
fn expiry() -> Timestamp {
    let since_1970 = std::time::UNIX_EPOCH.elapsed().unwrap_or_default();
    let now = Timestamp::from_second(i64::try_from(since_1970.as_secs()).unwrap_or(0));
    now.and_then(|now| now.checked_add(SignedDuration::from_mins(30)))
        .unwrap_or(Timestamp::MAX)
}

/// A session that nobody had before.
fn new_session() -> SessionId {
    loop {
        if let Some(id) = SessionId::from_random(rand::random()) {
            return id;
        }
    }
}

async fn granted(world: &dyn World) -> (SessionId, MadeObject) {
    let id = new_session();
    let binding = grant_for(world, &id, &world.installation()).await;
    let made = world
        .cluster()
        .create_grant(&id, &binding)
        .await
        .expect("the grant is made");
    (id, made)
}

/// A running shell in a pod, and its container's name.
async fn running(world: &dyn World) -> (PodRef, String) {
    let (id, _) = granted(world).await;
    let pod = world.pod().await;
    let name = names::debug_container_name(&id);
    let cluster = world.cluster();
    let container = world.debug_container(&name);
    cluster
        .add_debug_container(&pod, &container)
        .await
        .expect("the container is added");
    cluster
        .await_running(&pod, &name, PROMPT)
        .await
        .expect("the container runs");
    (pod, name)
}

async fn send(shell: &mut dyn Shell, input: ShellInput) {
    poll_fn(|cx| shell.poll_ready(cx))
        .await
        .expect("the stream takes input");
    shell.start_send(input).expect("the input is taken");
    poll_fn(|cx| shell.poll_flush(cx))
        .await
        .expect("the input is sent");
}

async fn type_in(shell: &mut dyn Shell, text: &'static str) {
    send(
        shell,
        ShellInput::Stdin(Bytes::from_static(text.as_bytes())),
    )
    .await;
}

/// Reads events until one is what is looked for; output is gathered into `seen`.
async fn until(
    shell: &mut dyn Shell,
    seen: &mut Vec<u8>,
    mut found: impl FnMut(&[u8], &Option<ShellEvent>) -> bool,
) {
    let reading = async {
        loop {
            let event = poll_fn(|cx| shell.poll_event(cx))
                .await
                .transpose()
                .expect("no break");
            if let Some(ShellEvent::Output(output)) = &event {
                seen.extend_from_slice(output);
            }
            if found(seen, &event) {
                return;
            }
            assert!(
                event.is_some(),
                "the stream ended; so far {}",
                String::from_utf8_lossy(seen)
            );
        }
    };
    tokio::time::timeout(PROMPT, reading)
        .await
        .expect("what is looked for comes in time");
}

fn says(text: &'static str) -> impl FnMut(&[u8], &Option<ShellEvent>) -> bool {
    move |seen, _| {
        seen.windows(text.len())
            .any(|window| window == text.as_bytes())
    }
}

/// Makes a `#[tokio::test]` of every case of the contract, each in a world of its own.
/// `$world` is an expression of a future that gives a `World`; after `maybe`, one that gives none
/// where there is nothing to run the case on.
#[macro_export]
macro_rules! cluster_contract {
    (maybe $world:expr) => {
        $crate::cluster_contract!(@cases $world,
            who_we_are_is_the_clusters_word
            a_target_is_looked_at
            what_is_not_there_is_not_an_error_to_look_at
            a_grant_is_made_once_and_deleted_once
            a_grant_whose_answer_was_lost_is_found_again
            another_installations_binding_is_not_adopted
            qc15_a_namesake_of_a_grant_is_left_alone
            without_its_grant_no_step_works
            qk32_a_live_session_runs_from_grant_to_exit
            a_container_that_is_there_counts_as_added
            a_policys_refusal_is_final_and_in_its_own_words
            qk50_an_image_that_cannot_be_pulled_fails_with_the_kubelets_reason
            a_container_that_never_comes_is_waited_for_no_longer_than_the_bound
            another_pod_of_the_name_is_not_ours
            qc15_a_pods_replacement_is_left_alone
            a_pod_is_deleted_and_waited_for
            a_pod_without_a_known_uid_is_not_deleted
            the_controllers_other_pods_are_counted
            leftovers_are_this_installations
            a_copy_pod_is_made_once_under_its_own_grant
        );
    };
    ($world:expr) => {
        $crate::cluster_contract!(maybe async { Some($world.await) });
    };
    (@cases $world:expr, $($case:ident)+) => {
        $(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $case() {
                if let Some(world) = $world.await {
                    $crate::fakes::cluster_contract::$case(&world).await;
                }
            }
        )+
    };
}
