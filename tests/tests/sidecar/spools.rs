//! Spools that cannot be saved or written: one recording's trouble is its own.

use crate::stand::{ALICE, Plan, Stand, caller};
use breakglass_tests::sidecar::call;
use std::path::{Path, PathBuf};
use std::process::Command;

fn spool_of(stand: &Stand, id: &str) -> PathBuf {
    let spools = stand.spools();
    let named = |path: &&PathBuf| {
        path.to_string_lossy()
            .ends_with(&format!("{id}.cast.spool"))
    };
    let found = spools.iter().find(named);
    found
        .unwrap_or_else(|| panic!("no spool of {id}: {spools:?}"))
        .clone()
}

#[tokio::test]
async fn qr5_a_damaged_spool_does_not_keep_a_good_one_from_being_saved() {
    let stand = Plan::new().start().await;
    let (bad, good) = (stand.open().await, stand.open().await);
    stand.attach(&bad.id).await.echo().await;
    let shown = stand.attach(&good.id).await.echo().await;
    let folder = stand.settings.recordings();
    let aside = folder.with_extension("aside");
    std::fs::rename(&folder, &aside).expect("the store is away");
    std::fs::write(&folder, "not a folder").expect("a file in its place");
    for open in [&bad, &good] {
        assert_eq!(stand.end(&open.id).await.0, 200);
        stand.ended(&open.id).await;
    }
    std::fs::write(spool_of(&stand, &bad.id), "{\"version\": 2\n").expect("damaged");
    std::fs::remove_file(&folder).expect("the file is gone");
    std::fs::rename(&aside, &folder).expect("the store is back");

    stand.sweep().await;
    let row = stand
        .row_when(&good.id, "the save", |row| row["cleanup_notes"].is_null())
        .await;
    assert!(stand.recording(&row).contains(&shown));
    let told = |row: &serde_json::Value| {
        let notes = row["cleanup_notes"].as_str().unwrap_or_default();
        notes.contains("recording damaged")
    };
    stand.row_when(&bad.id, "the note", told).await;
    // It is kept for a person, out of the way of further sweeps.
    stand.sweep().await;
    stand.assert_nothing_is_left().await;
    let names = stand.spools();
    let kept = |path: &PathBuf| path.to_string_lossy().contains(&bad.id);
    assert!(names.iter().any(kept), "{names:?}");
    assert!(
        !names
            .iter()
            .any(|path| path.ends_with(format!("shop%2fdev%2f{}.cast.spool", bad.id))),
        "{names:?}"
    );
}

#[tokio::test]
async fn qr2_fifty_damaged_spools_are_looked_at_once() {
    let stand = Plan::new().start().await;
    let open = stand.open().await;
    stand.attach(&open.id).await.echo().await;
    let one = spool_of(&stand, &open.id);
    assert_eq!(stand.end(&open.id).await.0, 200);
    stand.ended(&open.id).await;
    let client = stand.sql().await;
    for number in 0..50 {
        let id = format!("damaged{number:05}");
        client
            .execute(
                "INSERT INTO breakglass_sessions \
                 SELECT (jsonb_populate_record(row, jsonb_build_object('id', $1::text))).* \
                 FROM breakglass_sessions row WHERE id = $2",
                &[&id, &open.id],
            )
            .await
            .expect("another row");
        let name = one.to_string_lossy().replace(&open.id, &id);
        std::fs::write(name, "{\"version\": 2\n").expect("damaged");
    }

    stand.sweep().await;
    let aside = |path: &PathBuf| path.to_string_lossy().ends_with(".damaged");
    stand
        .until("all of them are aside", || {
            stand.spools().iter().filter(|path| aside(path)).count() == 50
        })
        .await;
    let seen = || -> Vec<_> {
        let times = |path: PathBuf| {
            let file = std::fs::metadata(&path).expect("a file");
            (path, file.accessed().ok(), file.modified().ok())
        };
        stand.spools().into_iter().map(times).collect()
    };
    let before = seen();
    assert_eq!(before.len(), 50, "nothing is left to look at: {before:?}");
    stand.sweep().await;
    assert_eq!(seen(), before);
}

/// A small disk at a folder's place, for as long as this lives.
struct SmallDisk(PathBuf);

impl SmallDisk {
    fn at(folder: &Path, kibibytes: u32) -> Self {
        std::fs::create_dir_all(folder).expect("the folder");
        let size = format!("size={kibibytes}k,mode=0700");
        let mounted = Command::new("mount")
            .args(["-t", "tmpfs", "-o", &size, "tmpfs"])
            .arg(folder)
            .status()
            .expect("mount runs");
        assert!(mounted.success(), "a disk of a test's own needs root");
        Self(folder.to_owned())
    }

    fn fill(&self) {
        let mut filling = std::fs::File::create(self.0.join("filling")).expect("a file");
        let block = [0_u8; 4096];
        while std::io::Write::write_all(&mut filling, &block).is_ok() {}
    }

    fn free(&self) {
        std::fs::remove_file(self.0.join("filling")).expect("space again");
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        // Lazily: the sidecar may still have a file open in it.
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

#[tokio::test]
async fn qr10_a_full_disk_refuses_new_sessions_ends_running_ones_and_answers_the_rest() {
    let stand = Plan::new().start().await;
    let disk = SmallDisk::at(&stand.settings.spool(), 512);
    let open = stand.open().await;
    let mut terminal = stand.attach(&open.id).await;
    terminal.echo().await;
    disk.fill();

    let (status, answer) = stand.post("/v1/sessions", Some(&stand.request())).await;
    assert_eq!(status, 503, "{answer}");
    assert!(
        answer.to_string().contains("recordings are unavailable"),
        "{answer}"
    );
    assert_eq!(stand.rows().await.len(), 1, "refused before it has a row");
    assert_eq!(stand.grants().len(), 1);

    // More than what may be left of the last block.
    let long = "x".repeat(8 * 1024);
    terminal.type_in(&format!("echo {long}\n")).await;
    assert_eq!(
        terminal.until_ended().await,
        "recording could not be written"
    );
    stand.ended(&open.id).await;
    stand.assert_nothing_is_left().await;
    let (status, listed) = stand.get(&format!("/v1/sessions/{}", open.id)).await;
    assert_eq!(status, 200, "{listed}");
    assert!(
        listed
            .to_string()
            .contains("recording could not be written"),
        "{listed}"
    );

    disk.free();
    let again = stand.open().await;
    stand.end(&again.id).await;
    stand.ended(&again.id).await;
}

#[tokio::test]
async fn qr13_an_admins_end_saves_the_recording_as_the_users_own_does() {
    let stand = Plan::new().start().await;
    let open = stand.open().await;
    let shown = stand.attach(&open.id).await.echo().await;
    let mut admin = caller("user:default/carol", "shop");
    admin["allowed"] = serde_json::json!(["terminate"]);
    let path = format!("/v1/sessions/{}/end", open.id);
    let ended = call(&stand.socket(), "POST", &path, Some(&admin), None).await;
    let (status, body) = ended.expect("an answer");
    assert_eq!(status, 200, "{body}");
    let row = stand.ended(&open.id).await;
    assert_ne!(row["end_reason"], "ended by user");
    assert_ne!(row["ended_by"], ALICE);
    assert!(stand.recording(&row).contains(&shown));
    stand.assert_nothing_is_left().await;
}
