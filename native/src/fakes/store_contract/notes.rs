//! Notes: what opening, recording and ending leave on a row, and the objects in the clusters.

use super::{World, claim, end, minute, object, opened, owner, requested, row, saved, stored};
use crate::http::error::chain;
use crate::ports::Store;
use crate::ports::cluster::ObjectKind;
use crate::ports::store::{HeldObject, OpenedFacts, Outcome};
use decisions::session::{MountedVolume, Session, SessionId, State};

fn volume(name: &str) -> MountedVolume {
    MountedVolume {
        name: name.to_owned(),
        mount_path: format!("/volumes/{name}"),
        app_path: format!("/var/lib/{name}"),
        note: Some("ß \"quoted\" \\".to_owned()),
    }
}

async fn ended(store: &dyn Store, session: &Session) -> Session {
    let over = end(session, State::Active, "user:default/bob", minute(10));
    claim(store, &over.into()).await.expect("the store answers");
    let left = row(store, session).await;
    assert_eq!(left.state, State::Ended);
    left
}

/// Each fact is added; `None` leaves a column as it is; a row that is not active takes nothing.
pub async fn what_opening_learned_is_added_while_the_row_is_active(world: &dyn World) {
    let store = owner(world).await;
    let mut model = stored(&*store, opened()).await;
    let steps = [
        OpenedFacts {
            role_binding: Some("grant".to_owned()),
            ..OpenedFacts::default()
        },
        OpenedFacts {
            sensitive: Some(true),
            ..OpenedFacts::default()
        },
        OpenedFacts {
            volumes: Some(vec![volume("a"), volume("b")]),
            ..OpenedFacts::default()
        },
        OpenedFacts {
            debug_container: Some("debug-1".to_owned()),
            ..OpenedFacts::default()
        },
        OpenedFacts {
            copy_pod: Some("copy-1".to_owned()),
            ..OpenedFacts::default()
        },
        OpenedFacts {
            volumes: Some(Vec::new()),
            ..OpenedFacts::default()
        },
        OpenedFacts::default(),
    ];
    for facts in steps {
        let noted = store.note_opened(&model.id, &facts).await;
        assert!(noted.expect("the store answers"), "the row is active");
        model.volumes = facts.volumes.unwrap_or(model.volumes);
        model.sensitive = facts.sensitive.unwrap_or(model.sensitive);
        model.role_binding = facts.role_binding.or(model.role_binding);
        model.debug_container = facts.debug_container.or(model.debug_container);
        model.copy_pod = facts.copy_pod.or(model.copy_pod);
        assert_eq!(row(&*store, &model).await, model);
    }

    let late = OpenedFacts {
        volumes: Some(vec![volume("late")]),
        sensitive: Some(false),
        role_binding: Some("late".to_owned()),
        debug_container: Some("late".to_owned()),
        copy_pod: Some("late".to_owned()),
    };
    let waiting = stored(&*store, requested()).await;
    let noted = store.note_opened(&waiting.id, &late).await;
    assert!(!noted.expect("the store answers"), "not active yet");
    assert_eq!(row(&*store, &waiting).await, waiting);
    let over = ended(&*store, &model).await;
    let noted = store.note_opened(&over.id, &late).await;
    assert!(!noted.expect("the store answers"), "ended");
    let noted = store.note_opened(&requested().id, &late).await;
    assert!(!noted.expect("the store answers"), "never stored");
    assert_eq!(row(&*store, &over).await, over);
}

fn with_recording(row: &Session, bytes: u64) -> Session {
    let saved = saved(row, bytes);
    Session {
        recording_key: Some(saved.key),
        recording_bucket: Some(saved.bucket),
        recording_version: Some(saved.version),
        recording_sha256: Some(saved.sha256),
        recording_bytes: i64::try_from(bytes).ok(),
        ..row.clone()
    }
}

/// a recording only grows, so a checkpoint that comes late names an older version; it does
/// not replace a newer one, and never the final one.
pub async fn a_smaller_checkpoint_never_replaces_a_larger_one(world: &dyn World) {
    let store = owner(world).await;
    let model = stored(&*store, opened()).await;
    let three_gib = 3 << 30;
    for (bytes, stands) in [
        (100, 100),
        (200, 200),
        (150, 200),
        (three_gib, three_gib),
        (1, three_gib),
    ] {
        store
            .note_checkpoint(&model.id, &saved(&model, bytes))
            .await
            .expect("an answer");
        assert_eq!(row(&*store, &model).await, with_recording(&model, stands));
    }
    let over = ended(&*store, &model).await;
    let outcome = Outcome {
        recording: Some(saved(&model, 4 << 30)),
        ..Outcome::default()
    };
    store
        .note_outcome(&model.id, &outcome)
        .await
        .expect("the store answers");
    store
        .note_checkpoint(&model.id, &saved(&model, three_gib))
        .await
        .expect("an answer");
    assert_eq!(row(&*store, &model).await, with_recording(&over, 4 << 30));
}

/// C-20, R-6: notes are replaced, the recording only by a newer one, and all of it only where the
/// session has ended.
pub async fn what_the_end_leaves_goes_on_an_ended_row_alone(world: &dyn World) {
    let store = owner(world).await;
    let active = stored(&*store, opened()).await;
    let outcome = Outcome {
        recycled: Some(true),
        recording: Some(saved(&active, 200)),
        notes: Some("copy pod not deleted".to_owned()),
    };
    store
        .note_outcome(&active.id, &outcome)
        .await
        .expect("the store answers");
    assert_eq!(
        row(&*store, &active).await,
        active,
        "not ended, so nothing is written"
    );

    let mut model = ended(&*store, &active).await;
    store
        .note_outcome(&active.id, &outcome)
        .await
        .expect("the store answers");
    model = Session {
        recycled: Some(true),
        cleanup_notes: Some("copy pod not deleted".to_owned()),
        ..with_recording(&model, 200)
    };
    assert_eq!(row(&*store, &model).await, model);

    // A second pass settles the notes and leaves the rest: a pod that was recycled stays so, also
    // where whoever looks later only sees that it is gone.
    let later = Outcome {
        recycled: Some(false),
        ..Outcome::default()
    };
    store
        .note_outcome(&active.id, &later)
        .await
        .expect("the store answers");
    model.cleanup_notes = None;
    assert_eq!(row(&*store, &model).await, model);

    // The final version is what was sealed, even where a repair made it shorter.
    let repaired = Outcome {
        recording: Some(saved(&active, 150)),
        ..Outcome::default()
    };
    store
        .note_outcome(&active.id, &repaired)
        .await
        .expect("the store answers");
    assert_eq!(row(&*store, &model).await, with_recording(&model, 150));
}

fn uid(of: &Session, which: &str) -> String {
    format!("uid-{which}-{}", of.id)
}

async fn held(store: &dyn Store, of: &Session) -> Vec<HeldObject> {
    store.objects(&of.id).await.expect("the store answers")
}

/// C-26: repeating a note is harmless; a live pod can be two sessions', and what one's end says of
/// it leaves the other's record as it is.
pub async fn objects_are_held_until_they_are_forgotten(world: &dyn World) {
    let store = owner(world).await;
    let first = stored(&*store, opened()).await;
    let second = stored(&*store, opened()).await;
    let grant = object(&first, ObjectKind::RoleBinding, &uid(&first, "grant"));
    let copy = object(&first, ObjectKind::CopyPod, &uid(&first, "copy"));
    let pod = uid(&first, "pod");
    let touched = object(&first, ObjectKind::LivePod, &pod);
    let touched_too = object(&second, ObjectKind::LivePod, &pod);
    for one in [&grant, &copy, &touched, &grant, &touched_too, &copy] {
        store.note_object(one).await.expect("the store answers");
    }
    let of = |objects: &[HeldObject]| -> Vec<_> {
        objects
            .iter()
            .map(|it| (it.object.clone(), it.kept.clone()))
            .collect()
    };
    let all = [(grant, None), (copy.clone(), None), (touched.clone(), None)];
    assert_eq!(
        of(&held(&*store, &first).await),
        all,
        "in the order that they were made"
    );
    assert_eq!(
        of(&held(&*store, &second).await),
        [(touched_too.clone(), None)]
    );

    for uid in [&all[0].0.uid, "uid-of-nothing"] {
        let forgotten = store.forget_object(&first.id, uid).await;
        forgotten.expect("the store answers");
    }
    assert_eq!(
        of(&held(&*store, &first).await),
        [(copy.clone(), None), (touched, None)]
    );
    let why = "the second one stays".to_owned();
    let kept = store.keep_object(&second.id, &pod, &why).await;
    kept.expect("the store answers");
    assert_eq!(
        of(&held(&*store, &first).await)[1].1,
        None,
        "kept for the other one alone"
    );
    let forgotten = store.forget_object(&first.id, &pod).await;
    forgotten.expect("the store answers");
    assert_eq!(of(&held(&*store, &first).await), [(copy, None)]);
    assert_eq!(
        of(&held(&*store, &second).await),
        [(touched_too, Some(why))],
        "the other session settles its own record"
    );

    let nobodys = object(&requested(), ObjectKind::LivePod, "uid-of-nobody");
    let Err(refused) = store.note_object(&nobodys).await else {
        panic!("an object of no session was taken");
    };
    let said = format!("{} {refused:?}", chain(&refused));
    assert!(
        !said.contains(nobodys.session.as_str()),
        "an error quotes nothing of a row: {said}"
    );
}

/// C-17, C-25: what is left in place on purpose is watched until it is gone.
pub async fn a_kept_object_stays_held_and_says_why(world: &dyn World) {
    let store = owner(world).await;
    let session = stored(&*store, opened()).await;
    let pod = object(&session, ObjectKind::LivePod, &uid(&session, "pod"));
    store.note_object(&pod).await.expect("the store answers");
    store
        .keep_object(&session.id, &pod.uid, "the approver kept it")
        .await
        .expect("the store answers");
    store.note_object(&pod).await.expect("the store answers");
    let kept = Some("the approver kept it".to_owned());
    assert_eq!(
        held(&*store, &session).await,
        [HeldObject {
            object: pod.clone(),
            kept
        }]
    );

    ended(&*store, &session).await;
    assert!(
        unsettled(&*store, 1000).await.contains(&session.id),
        "it is still watched"
    );
    store
        .forget_object(&session.id, &pod.uid)
        .await
        .expect("the store answers");
    assert!(!unsettled(&*store, 1000).await.contains(&session.id));
}

async fn unsettled(store: &dyn Store, limit: u32) -> Vec<SessionId> {
    let found = store.unsettled(limit).await.expect("the store answers");
    found.into_iter().map(|row| row.id).collect()
}

/// C-23: each gets its turn, however many there are and however few a pass takes up; a row that is
/// not ended is not one of them.
pub async fn unsettled_rows_take_turns(world: &dyn World) {
    let store = owner(world).await;
    let active = stored(&*store, opened()).await;
    let still = object(&active, ObjectKind::RoleBinding, &uid(&active, "grant"));
    store.note_object(&still).await.expect("the store answers");
    let mut all = Vec::new();
    for _ in 0..5 {
        let session = stored(&*store, opened()).await;
        for (kind, which) in [
            (ObjectKind::RoleBinding, "grant"),
            (ObjectKind::LivePod, "pod"),
        ] {
            let made = object(&session, kind, &uid(&session, which));
            store.note_object(&made).await.expect("the store answers");
        }
        ended(&*store, &session).await;
        all.push(session.id);
    }
    all.sort();
    for _ in 0..2 {
        let mut seen = Vec::new();
        for expected in [2, 2, 1] {
            let turn = unsettled(&*store, expected).await;
            assert_eq!(turn.len(), expected as usize);
            seen.extend(turn);
        }
        seen.sort();
        assert_eq!(seen, all, "each once a round");
    }
    // Those that were looked at longest ago come first.
    let first = unsettled(&*store, 2).await;
    let then = unsettled(&*store, 5).await;
    assert_eq!(then[3..].iter().filter(|id| first.contains(id)).count(), 2);
    // One that comes to an end in between waits for nobody's second turn.
    ended(&*store, &active).await;
    assert_eq!(unsettled(&*store, 1).await, [active.id]);
}
