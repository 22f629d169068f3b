use super::*;
use crate::fakes::cluster_contract::{CannotBeTold, World};
use crate::ports::ClusterError;
use crate::ports::cluster::{Cluster, ShellEvent, ShellInput};
use async_trait::async_trait;
use decisions::session::SessionId;
use std::future::poll_fn;
use std::time::Duration;

const NAMESPACE: &str = "shop";

struct FakeWorld {
    fake: FakeCluster,
    pod: PodRef,
}

async fn world() -> FakeWorld {
    let fake = FakeCluster::new("ground", "tests");
    fake.set_namespace(NAMESPACE, &[(names::APP, "shop")]);
    let pod = fake.add_pod(NAMESPACE, "web-1", Some("web"));
    fake.add_pod(NAMESPACE, "web-2", Some("web"));
    FakeWorld { fake, pod }
}

#[async_trait]
impl World for FakeWorld {
    fn cluster(&self) -> Arc<dyn Cluster> {
        Arc::new(self.fake.clone())
    }

    fn installation(&self) -> String {
        "tests".to_owned()
    }

    fn namespace(&self) -> String {
        NAMESPACE.to_owned()
    }

    async fn pod(&self) -> PodRef {
        self.pod.clone()
    }

    fn debug_container(&self, name: &str) -> Value {
        json!({ "name": name, "image": "debug", "stdin": true, "tty": true })
    }

    async fn break_the_image(&self) {
        let fails = Start::Fails("ErrImagePull".to_owned(), "no such image".to_owned());
        self.fake.next_start(fails);
    }

    async fn replace(&self, pod: &PodRef) -> PodRef {
        self.fake.replace_pod(pod)
    }

    async fn make_binding(&self, binding: Value) -> String {
        self.fake.put_binding(binding)
    }

    async fn has_binding(&self, name: &str) -> bool {
        self.fake.has_binding(NAMESPACE, name)
    }

    async fn refuse_by_policy(&self, words: &str) -> Result<(), CannotBeTold> {
        let refusal = Refusal::Policy(words.to_owned());
        self.fake
            .fail_next(Step::AddDebugContainer, Fault::Refused(refusal));
        Ok(())
    }

    async fn lose_the_answer(&self) -> Result<(), CannotBeTold> {
        self.fake.fail_next(Step::CreateGrant, Fault::AnswerLost);
        Ok(())
    }
}

crate::cluster_contract!(world());

const ID: &str = "abcdefghijkl";
const CONTAINER: &str = "debug-abcdefghijkl";

fn id() -> SessionId {
    SessionId::parse(ID).expect("an id")
}

fn binding(role: &str) -> Value {
    json!({
        "metadata": {
            "namespace": NAMESPACE, "name": names::grant_name(&id()),
            "labels": names::our_labels("tests", &id()),
        },
        "roleRef": { "kind": "ClusterRole", "name": role },
    })
}

async fn with_shell() -> FakeWorld {
    let world = world().await;
    let fake = &world.fake;
    let live = binding(names::DEBUG_LIVE_ROLE);
    fake.create_grant(&id(), &live).await.expect("granted");
    let container = world.debug_container(CONTAINER);
    fake.add_debug_container(&world.pod, &container)
        .await
        .expect("added");
    world
}

#[tokio::test]
async fn every_step_fails_on_command_and_only_as_often_as_told() {
    let fake = world().await.fake;
    fake.fail_next(Step::Username, Fault::Refused(Refusal::Unauthorized));
    assert!(matches!(
        fake.username().await,
        Err(ClusterError::Unauthorized { .. })
    ));
    assert!(fake.username().await.is_ok());
    fake.fail_always(Step::Leftovers, Some(Fault::Unreachable));
    assert!(fake.leftovers().await.is_err());
    assert!(fake.leftovers().await.is_err());
    fake.fail_always(Step::Leftovers, None);
    assert!(fake.leftovers().await.is_ok());
    fake.set_away(true);
    assert!(matches!(
        fake.username().await,
        Err(ClusterError::Away { .. })
    ));
}

#[tokio::test]
async fn a_late_call_lands_when_it_is_let() {
    let fake = world().await.fake;
    fake.fail_next(Step::CreateGrant, Fault::LandsLate);
    let live = binding(names::DEBUG_LIVE_ROLE);
    assert!(fake.create_grant(&id(), &live).await.is_err());
    assert_eq!(fake.grants(), Vec::<String>::new());
    assert_eq!(fake.effects(), []);
    fake.land_late_calls();
    assert_eq!(fake.grants(), [names::grant_name(&id())]);
    let done = Effect {
        step: Step::CreateGrant,
        name: names::grant_name(&id()),
    };
    assert_eq!(fake.effects(), [done]);
}

#[tokio::test(start_paused = true)]
async fn a_container_that_waits_runs_when_it_is_let() {
    let world = world().await;
    let fake = world.fake.clone();
    fake.create_grant(&id(), &binding(names::DEBUG_LIVE_ROLE))
        .await
        .expect("granted");
    fake.next_start(Start::Waits);
    let container = world.debug_container(CONTAINER);
    fake.add_debug_container(&world.pod, &container)
        .await
        .expect("added");
    let minute = Duration::from_secs(60);
    let late = fake.await_running(&world.pod, CONTAINER, minute).await;
    assert!(
        matches!(late, Err(ClusterError::CannotStart { .. })),
        "{late:?}"
    );
    let (waited, ()) = tokio::join!(fake.await_running(&world.pod, CONTAINER, minute), async {
        tokio::task::yield_now().await;
        fake.run_container(&world.pod, CONTAINER);
    });
    waited.expect("it runs");
}

#[tokio::test]
async fn a_lost_pod_ends_its_streams_and_is_replaced() {
    let world = with_shell().await;
    let mut shell = world
        .fake
        .attach(&world.pod, CONTAINER)
        .await
        .expect("attached");
    assert_eq!(world.fake.open_streams(), 1);
    world.fake.write(&world.pod, CONTAINER, "hello");
    world.fake.lose_pod(&world.pod);
    let first = poll_fn(|cx| shell.poll_event(cx))
        .await
        .expect("an event")
        .expect("no error");
    assert_eq!(first, ShellEvent::Output(Bytes::from_static(b"hello")));
    assert!(poll_fn(|cx| shell.poll_event(cx)).await.is_none());
    assert_eq!(world.fake.open_streams(), 0);
    assert_eq!(world.fake.pods(NAMESPACE).len(), 2);
    assert!(world.fake.pod(NAMESPACE, "web-1").is_none());
}

#[tokio::test]
async fn input_and_size_are_seen_and_a_stuck_shell_takes_none() {
    let world = with_shell().await;
    let mut shell = world
        .fake
        .attach(&world.pod, CONTAINER)
        .await
        .expect("attached");
    poll_fn(|cx| shell.poll_ready(cx)).await.expect("ready");
    shell
        .start_send(ShellInput::Stdin(Bytes::from_static(b"ls\r")))
        .expect("taken");
    shell
        .start_send(ShellInput::Resize { cols: 80, rows: 24 })
        .expect("taken");
    assert_eq!(world.fake.input(&world.pod, CONTAINER), b"ls\r");
    assert_eq!(world.fake.size(&world.pod, CONTAINER), Some((80, 24)));
    world.fake.set_stuck(true);
    let ready = poll_fn(|cx| std::task::Poll::Ready(shell.poll_ready(cx).is_ready())).await;
    assert!(!ready);
    world.fake.set_stuck(false);
    poll_fn(|cx| shell.poll_ready(cx))
        .await
        .expect("ready again");
}

#[tokio::test]
async fn a_copy_pod_is_made_under_its_own_grant_and_found_among_the_leftovers() {
    let fake = world().await.fake;
    let mut labels = names::our_labels("tests", &id());
    labels.insert(names::COPY.to_owned(), names::TRUE.to_owned());
    let copy = json!({
        "metadata": { "namespace": NAMESPACE, "name": "web-copy", "labels": labels },
        "spec": { "containers": [{ "name": CONTAINER }] },
    });
    fake.create_grant(&id(), &binding(names::DEBUG_LIVE_ROLE))
        .await
        .expect("granted");
    let refused = fake.create_copy_pod(&id(), &copy).await;
    assert!(
        matches!(refused, Err(ClusterError::Forbidden { .. })),
        "{refused:?}"
    );
    let live = fake.find_grants(NAMESPACE, &id()).await.expect("found");
    fake.delete_grant(&live[0]).await.expect("deleted");
    fake.create_grant(&id(), &binding(names::DEBUG_COPY_ROLE))
        .await
        .expect("granted");
    let made = fake.create_copy_pod(&id(), &copy).await.expect("made");
    assert_eq!(
        fake.create_copy_pod(&id(), &copy).await.expect("adopted"),
        made
    );
    let left = fake.leftovers().await.expect("looked for");
    assert!(left.iter().any(|left| left.object == made), "{left:?}");
}

#[tokio::test]
async fn budgets_that_cannot_be_read_are_not_known() {
    let world = with_shell().await;
    world.fake.add_budget(NAMESPACE, &[("app", "web")], 0);
    let pod = world.fake.pod(NAMESPACE, "web-1").expect("the pod");
    let facts = world.fake.controller_facts(&pod).await.expect("facts");
    assert_eq!(facts.disruptions_allowed, Some(0));
    world.fake.set_budgets_readable(false);
    let facts = world.fake.controller_facts(&pod).await.expect("facts");
    assert_eq!(facts.disruptions_allowed, None);
}
