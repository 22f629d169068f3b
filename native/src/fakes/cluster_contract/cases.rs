//! The cases of the contract.

use super::*;

/// C-1.
pub async fn who_we_are_is_the_clusters_word(world: &dyn World) {
    let cluster = world.cluster();
    let name = cluster.username().await.expect("who we are");
    assert!(!name.is_empty());
    assert_eq!(cluster.username().await.expect("who we still are"), name);
}

/// C-4, S-14.
pub async fn a_target_is_looked_at(world: &dyn World) {
    let pod = world.pod().await;
    let facts = world
        .cluster()
        .look_at(&pod.namespace, &pod.name)
        .await
        .expect("the facts");
    let labels = facts.namespace_labels.expect("labels");
    assert!(labels.contains_key(names::APP), "{labels:?}");
    let found = facts.pod.expect("the pod");
    assert_eq!(found["metadata"]["uid"].as_str(), pod.uid.as_deref());
    let read = world
        .cluster()
        .read_pod(&pod)
        .await
        .expect("an answer")
        .expect("the pod");
    assert_eq!(read["metadata"]["name"], pod.name.as_str());
}

/// S-14.
pub async fn what_is_not_there_is_not_an_error_to_look_at(world: &dyn World) {
    let cluster = world.cluster();
    let facts = cluster
        .look_at(&world.namespace(), "nothing-here")
        .await
        .expect("the facts");
    assert!(facts.namespace_labels.is_some());
    assert_eq!(facts.pod, None);
    let facts = cluster
        .look_at("no-such-namespace", "nothing-here")
        .await
        .expect("the facts");
    assert_eq!(facts.namespace_labels, None);
    assert_eq!(facts.pod, None);
    // Names that a request may have (S-5) and Kubernetes does not.
    for name in ["Web", "a_b", "a..b"] {
        let facts = cluster.look_at(&world.namespace(), name).await;
        let facts = facts.expect("the facts");
        assert!(facts.namespace_labels.is_some(), "{name}");
        assert_eq!(facts.pod, None, "{name}");
        let facts = cluster.look_at(name, name).await.expect("the facts");
        assert_eq!((facts.namespace_labels, facts.pod), (None, None), "{name}");
    }
}

/// C-7, C-10a, C-22, C-26.
pub async fn a_grant_is_made_once_and_deleted_once(world: &dyn World) {
    let cluster = world.cluster();
    let (id, made) = granted(world).await;
    assert_eq!(made.kind, ObjectKind::RoleBinding);
    assert_eq!(made.name, names::grant_name(&id));
    assert!(world.has_binding(&made.name).await);
    let binding = grant_for(world, &id, &world.installation()).await;
    let again = cluster.create_grant(&id, &binding).await.expect("adopted");
    assert_eq!(again, made);
    let found = cluster
        .find_grants(&world.namespace(), &id)
        .await
        .expect("looked for");
    assert_eq!(found, std::slice::from_ref(&made));
    assert_eq!(
        cluster.delete_grant(&made).await.expect("deleted"),
        Deleted::Gone
    );
    assert_eq!(
        cluster.delete_grant(&made).await.expect("deleted twice"),
        Deleted::Gone
    );
    assert!(!world.has_binding(&made.name).await);
    let found = cluster
        .find_grants(&world.namespace(), &id)
        .await
        .expect("looked for");
    assert_eq!(found, []);
}

/// C-10a.
pub async fn a_grant_whose_answer_was_lost_is_found_again(world: &dyn World) {
    if let Err(why) = world.lose_the_answer().await {
        return why.skip("a grant whose answer was lost is found again");
    }
    let id = new_session();
    let binding = grant_for(world, &id, &world.installation()).await;
    let cluster = world.cluster();
    let error = cluster
        .create_grant(&id, &binding)
        .await
        .expect_err("the answer is lost");
    assert!(matches!(error, ClusterError::Away { .. }), "{error}");
    let found = cluster
        .find_grants(&world.namespace(), &id)
        .await
        .expect("looked for");
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!(
        cluster.create_grant(&id, &binding).await.expect("adopted"),
        found[0]
    );
}

/// C-2c: two installations on one cluster.
pub async fn another_installations_binding_is_not_adopted(world: &dyn World) {
    let cluster = world.cluster();
    let id = new_session();
    let theirs = world
        .make_binding(grant_for(world, &id, "another").await)
        .await;
    let ours = grant_for(world, &id, &world.installation()).await;
    let error = cluster
        .create_grant(&id, &ours)
        .await
        .expect_err("not adopted");
    assert!(matches!(error, ClusterError::Conflict { .. }), "{error}");
    let found = cluster
        .find_grants(&world.namespace(), &id)
        .await
        .expect("looked for");
    assert!(found.iter().all(|grant| grant.uid != theirs), "{found:?}");
}

/// C-26.
pub async fn qc15_a_namesake_of_a_grant_is_left_alone(world: &dyn World) {
    let (_, made) = granted(world).await;
    let older = MadeObject {
        uid: "00000000-0000-4000-8000-000000000000".to_owned(),
        ..made
    };
    let deleted = world
        .cluster()
        .delete_grant(&older)
        .await
        .expect("an answer");
    assert_eq!(deleted, Deleted::Replaced);
    assert!(world.has_binding(&older.name).await);
}

/// C-2a.
pub async fn without_its_grant_no_step_works(world: &dyn World) {
    let cluster = world.cluster();
    let pod = world.pod().await;
    let name = names::debug_container_name(&new_session());
    let container = world.debug_container(&name);
    let (add, mark, delete) = tokio::join!(
        cluster.add_debug_container(&pod, &container),
        cluster.annotate_process_access(&pod, None),
        cluster.delete_pod(&pod, None),
    );
    assert!(
        matches!(add, Err(ClusterError::Forbidden { .. })),
        "{add:?}"
    );
    assert!(
        matches!(mark, Err(ClusterError::Forbidden { .. })),
        "{mark:?}"
    );
    assert!(
        matches!(delete, Err(ClusterError::Forbidden { .. })),
        "{delete:?}"
    );
}

/// C-8, C-9, T-6, qK32, qK52, qT4.
pub async fn qk32_a_live_session_runs_from_grant_to_exit(world: &dyn World) {
    let (pod, name) = running(world).await;
    let cluster = world.cluster();
    let mut shell = cluster.attach(&pod, &name).await.expect("attached");
    let mut seen = Vec::new();
    send(
        shell.as_mut(),
        ShellInput::Resize {
            cols: 132,
            rows: 43,
        },
    )
    .await;
    type_in(shell.as_mut(), "echo first\r").await;
    until(shell.as_mut(), &mut seen, says("first")).await;
    send(shell.as_mut(), ShellInput::Ping).await;
    until(shell.as_mut(), &mut seen, |_, event| {
        *event == Some(ShellEvent::Pong)
    })
    .await;

    // Dropping the stream leaves the shell (C-25): one can attach again.
    drop(shell);
    let mut shell = cluster.attach(&pod, &name).await.expect("attached again");
    seen.clear();
    type_in(shell.as_mut(), "echo second\r").await;
    until(shell.as_mut(), &mut seen, says("second")).await;
    type_in(shell.as_mut(), "exit\r").await;
    until(shell.as_mut(), &mut seen, |_, event| {
        matches!(event, None | Some(ShellEvent::Status(None)))
    })
    .await;

    // The kubelet reports the exit a moment later (T-5).
    let reported = async {
        while cluster.attach(&pod, &name).await.is_ok() {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(PROMPT, reported)
        .await
        .expect("the exit is reported");
    let error = cluster
        .attach(&pod, &name)
        .await
        .err()
        .expect("not attached");
    assert!(matches!(error, ClusterError::CannotStart { .. }), "{error}");
}

/// C-8.
pub async fn a_container_that_is_there_counts_as_added(world: &dyn World) {
    let (pod, name) = running(world).await;
    let cluster = world.cluster();
    let container = world.debug_container(&name);
    cluster
        .add_debug_container(&pod, &container)
        .await
        .expect("there already");
    let found = cluster
        .read_pod(&pod)
        .await
        .expect("an answer")
        .expect("the pod");
    let all = found["spec"]["ephemeralContainers"]
        .as_array()
        .expect("a list");
    assert_eq!(
        all.iter()
            .filter(|one| one["name"] == name.as_str())
            .count(),
        1
    );
}

/// C-8, S-11.
pub async fn a_policys_refusal_is_final_and_in_its_own_words(world: &dyn World) {
    let (id, _) = granted(world).await;
    let pod = world.pod().await;
    let words = "debug containers run as non-root";
    if let Err(why) = world.refuse_by_policy(words).await {
        return why.skip("a policy's refusal is final and in its own words");
    }
    let container = world.debug_container(&names::debug_container_name(&id));
    let error = world
        .cluster()
        .add_debug_container(&pod, &container)
        .await
        .expect_err("refused");
    assert!(
        matches!(error, ClusterError::RefusedByPolicy { .. }),
        "{error}"
    );
    assert!(error.to_string().contains(words), "{error}");
}

/// C-9, qK50, qT16.
pub async fn qk50_an_image_that_cannot_be_pulled_fails_with_the_kubelets_reason(world: &dyn World) {
    let (id, _) = granted(world).await;
    let pod = world.pod().await;
    world.break_the_image().await;
    let name = names::debug_container_name(&id);
    let cluster = world.cluster();
    let container = world.debug_container(&name);
    cluster
        .add_debug_container(&pod, &container)
        .await
        .expect("the container is added");
    let error = cluster
        .await_running(&pod, &name, PROMPT)
        .await
        .expect_err("it cannot start");
    assert!(
        matches!(&error, ClusterError::CannotStart { reason } if reason.contains("Image")
        || reason.contains("image")),
        "{error}"
    );
}

/// C-9.
pub async fn a_container_that_never_comes_is_waited_for_no_longer_than_the_bound(
    world: &dyn World,
) {
    granted(world).await;
    let pod = world.pod().await;
    let bound = Duration::from_millis(700);
    let cluster = world.cluster();
    let waiting = cluster.await_running(&pod, "debug-000000000000", bound);
    let waited = tokio::time::timeout(PROMPT, waiting)
        .await
        .expect("within the bound");
    assert!(
        matches!(waited, Err(ClusterError::CannotStart { .. })),
        "{waited:?}"
    );
}

/// C-24, C-26.
pub async fn another_pod_of_the_name_is_not_ours(world: &dyn World) {
    let (id, _) = granted(world).await;
    let old = world.pod().await;
    world.replace(&old).await;
    let cluster = world.cluster();
    let name = names::debug_container_name(&id);
    let container = world.debug_container(&name);
    let added = cluster.add_debug_container(&old, &container).await;
    assert!(
        matches!(added, Err(ClusterError::NotFound { .. })),
        "{added:?}"
    );
    assert_eq!(cluster.read_pod(&old).await.expect("an answer"), None);
    let marked = cluster.annotate_process_access(&old, Some(&id)).await;
    assert!(
        matches!(marked, Err(ClusterError::NotFound { .. })),
        "{marked:?}"
    );
    cluster
        .annotate_process_access(&old, None)
        .await
        .expect("nothing to take away");
    let ran = cluster.await_running(&old, &name, PROMPT).await;
    assert!(matches!(ran, Err(ClusterError::NotFound { .. })), "{ran:?}");
    let attached = cluster.attach(&old, &name).await.map(|_| ());
    assert!(
        matches!(attached, Err(ClusterError::NotFound { .. })),
        "{attached:?}"
    );
}

/// C-25, C-26.
pub async fn qc15_a_pods_replacement_is_left_alone(world: &dyn World) {
    granted(world).await;
    let old = world.pod().await;
    let new = world.replace(&old).await;
    let cluster = world.cluster();
    let deleted = cluster
        .delete_pod(&old, Some(Duration::ZERO))
        .await
        .expect("an answer");
    assert_eq!(deleted, Deleted::Replaced);
    assert_eq!(
        cluster.await_gone(&old, PROMPT).await.expect("an answer"),
        Deleted::Gone
    );
    assert!(cluster.read_pod(&new).await.expect("an answer").is_some());
}

/// C-16, C-25.
pub async fn a_pod_is_deleted_and_waited_for(world: &dyn World) {
    let (id, _) = granted(world).await;
    let pod = world.pod().await;
    let cluster = world.cluster();
    cluster
        .annotate_process_access(&pod, Some(&id))
        .await
        .expect("marked");
    let found = cluster
        .read_pod(&pod)
        .await
        .expect("an answer")
        .expect("the pod");
    assert_eq!(
        found["metadata"]["annotations"][names::PROCESS_ACCESS],
        id.as_str()
    );
    cluster
        .annotate_process_access(&pod, None)
        .await
        .expect("the mark is taken away");
    let found = cluster
        .read_pod(&pod)
        .await
        .expect("an answer")
        .expect("the pod");
    assert_eq!(
        found["metadata"]["annotations"].get(names::PROCESS_ACCESS),
        None
    );
    let still = cluster
        .await_gone(&pod, Duration::from_millis(300))
        .await
        .expect("an answer");
    assert_eq!(still, Deleted::Terminating);
    let deleted = cluster
        .delete_pod(&pod, Some(Duration::ZERO))
        .await
        .expect("deleted");
    assert!(
        matches!(deleted, Deleted::Gone | Deleted::Terminating),
        "{deleted:?}"
    );
    assert_eq!(
        cluster.await_gone(&pod, PROMPT).await.expect("an answer"),
        Deleted::Gone
    );
    assert_eq!(
        cluster.delete_pod(&pod, None).await.expect("deleted twice"),
        Deleted::Gone
    );
    assert_eq!(cluster.read_pod(&pod).await.expect("an answer"), None);
}

/// C-26.
pub async fn a_pod_without_a_known_uid_is_not_deleted(world: &dyn World) {
    granted(world).await;
    let pod = world.pod().await;
    let unknown = PodRef {
        uid: None,
        ..pod.clone()
    };
    let deleted = world.cluster().delete_pod(&unknown, None).await;
    assert!(
        matches!(deleted, Err(ClusterError::Invalid { .. })),
        "{deleted:?}"
    );
    assert!(
        world
            .cluster()
            .read_pod(&pod)
            .await
            .expect("an answer")
            .is_some()
    );
}

/// C-17.
pub async fn the_controllers_other_pods_are_counted(world: &dyn World) {
    let pod = world.pod().await;
    let cluster = world.cluster();
    let object = cluster
        .read_pod(&pod)
        .await
        .expect("an answer")
        .expect("the pod");
    // Pods are listed by a session's grant: without one that is an error, not an unknown number.
    let without = cluster.controller_facts(&object).await;
    assert!(
        matches!(without, Err(ClusterError::Forbidden { .. })),
        "{without:?}"
    );
    granted(world).await;
    // The grant lets us list; it may take a moment to.
    let counted = async {
        loop {
            match cluster.controller_facts(&object).await {
                Err(ClusterError::Forbidden { .. }) => tokio::task::yield_now().await,
                facts => return facts.expect("the facts").other_ready_pods,
            }
        }
    };
    let count = tokio::time::timeout(PROMPT, counted)
        .await
        .expect("the pods may be listed");
    assert_eq!(count, Some(1));
}

/// C-2c, C-23.
pub async fn leftovers_are_this_installations(world: &dyn World) {
    let (id, made) = granted(world).await;
    let another = new_session();
    world
        .make_binding(grant_for(world, &another, "another").await)
        .await;
    let found = world.cluster().leftovers().await.expect("looked for");
    let ours = found
        .iter()
        .find(|left| left.object.uid == made.uid)
        .expect("our grant");
    assert_eq!(ours.object, made);
    assert_eq!(ours.object.session, id);
    assert!(
        ours.expires_at.is_some_and(|at| at.as_second() > 0),
        "{ours:?}"
    );
    assert!(
        found.iter().all(|left| left.object.session != another),
        "{found:?}"
    );
}
