use super::*;
use crate::recording::CastEncoder;
use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

const KEY: &str = "payments/prod/abcdefghijkl.cast";

fn header() -> Header {
    Header {
        cols: 80,
        rows: 24,
        timestamp: 1_800_000_000,
        title: "a title".to_owned(),
        term: "xterm".to_owned(),
        shell: None,
    }
}

/// A spool with a header and `count` events, a second apart; closed.
fn spooled(dir: &Path, count: u64) -> Prefix {
    let mut spool = Spool::create(dir, KEY, &header().line()).unwrap();
    let mut encoder = CastEncoder::new();
    for second in 1..=count {
        let mut lines = Vec::new();
        encoder.output(Duration::from_secs(second), b"output\r\n", &mut lines);
        spool.append(&lines).unwrap();
    }
    spool.prefix()
}

fn path(dir: &Path) -> PathBuf {
    dir.join(file_name(KEY))
}

#[test]
fn what_people_typed_is_readable_by_us_alone() {
    let dir = tempfile::tempdir().unwrap();
    let spools = dir.path().join("spools");
    spooled(&spools, 1);
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&spools), 0o700);
    assert_eq!(mode(&path(&spools)), 0o600);
}

#[test]
fn a_prefix_is_the_file_as_it_is() {
    let dir = tempfile::tempdir().unwrap();
    let prefix = spooled(dir.path(), 3);
    let bytes = std::fs::read(path(dir.path())).unwrap();
    assert_eq!(prefix.len, bytes.len() as u64);
    assert_eq!(prefix.sha256, hex(&Sha256::digest(&bytes)));
}

#[test]
fn a_spool_is_read_back_whole() {
    let dir = tempfile::tempdir().unwrap();
    let prefix = spooled(dir.path(), 3);
    let recovered = Spool::recover(dir.path(), KEY).unwrap();
    assert_eq!(recovered.spool.prefix(), prefix);
    assert_eq!(recovered.header, header());
    assert_eq!((recovered.last_micros, recovered.cut), (3_000_000, 0));
}

#[test]
fn a_torn_last_line_is_cut_wherever_it_was_torn() {
    let dir = tempfile::tempdir().unwrap();
    let two = spooled(dir.path(), 2);
    std::fs::remove_file(path(dir.path())).unwrap();
    let three = spooled(dir.path(), 3);
    let whole = std::fs::read(path(dir.path())).unwrap();
    for len in two.len..three.len {
        std::fs::write(path(dir.path()), &whole[..len as usize]).unwrap();
        let recovered = Spool::recover(dir.path(), KEY).unwrap();
        assert_eq!(recovered.spool.prefix(), two);
        assert_eq!(
            (recovered.last_micros, recovered.cut),
            (2_000_000, len - two.len)
        );
        drop(recovered);
        assert_eq!(std::fs::metadata(path(dir.path())).unwrap().len(), two.len);
    }
}

#[test]
fn what_was_recovered_goes_on() {
    let dir = tempfile::tempdir().unwrap();
    spooled(dir.path(), 1);
    let mut recovered = Spool::recover(dir.path(), KEY).unwrap();
    recovered
        .spool
        .append(b"[2.000000, \"m\", \"gap\"]\n")
        .unwrap();
    let prefix = recovered.spool.prefix();
    drop(recovered);
    assert_eq!(
        Spool::recover(dir.path(), KEY).unwrap().spool.prefix(),
        prefix
    );
}

#[test]
fn two_never_write_the_same_spool() {
    let dir = tempfile::tempdir().unwrap();
    spooled(dir.path(), 1);
    let first = Spool::recover(dir.path(), KEY).unwrap();
    assert!(matches!(
        Spool::recover(dir.path(), KEY),
        Err(SpoolError::Busy)
    ));
    assert!(matches!(
        Spool::create(dir.path(), KEY, b"{}\n"),
        Err(SpoolError::Busy)
    ));
    drop(first);
    Spool::recover(dir.path(), KEY).unwrap();
}

#[test]
fn a_spool_that_is_not_there_is_missing() {
    let dir = tempfile::tempdir().unwrap();
    assert!(matches!(
        Spool::recover(dir.path(), KEY),
        Err(SpoolError::Missing)
    ));
    assert_eq!(
        keys(&dir.path().join("nowhere")).unwrap(),
        Vec::<String>::new()
    );
}

#[test]
fn qr1_a_damaged_spool_is_refused_as_it_is_and_moved_aside_once() {
    let dir = tempfile::tempdir().unwrap();
    for damaged in [
        &b""[..],
        b"\n",
        b"no header\n",
        b"{\"version\":2}\n",
        &[0; 3000],
    ] {
        std::fs::write(path(dir.path()), damaged).unwrap();
        let refused = Spool::recover(dir.path(), KEY);
        assert!(
            matches!(refused, Err(SpoolError::Damaged { .. })),
            "{refused:?}"
        );
        assert_eq!(std::fs::read(path(dir.path())).unwrap(), damaged);
    }
    let mut file = header().line();
    file.extend_from_slice(b"[1.0, \"o\", \"x\"]\nnot an event\n");
    std::fs::write(path(dir.path()), &file).unwrap();
    assert!(matches!(
        Spool::recover(dir.path(), KEY),
        Err(SpoolError::Damaged { .. })
    ));
    let aside = move_aside(dir.path(), KEY).unwrap();
    assert_eq!(std::fs::read(aside).unwrap(), file);
    assert!(matches!(
        Spool::recover(dir.path(), KEY),
        Err(SpoolError::Missing)
    ));
    assert_eq!(keys(dir.path()).unwrap(), Vec::<String>::new());
}

#[test]
fn a_file_without_a_line_end_does_not_fill_the_memory() {
    let dir = tempfile::tempdir().unwrap();
    let mut file = header().line();
    file.resize(5 << 20, b'x');
    std::fs::write(path(dir.path()), &file).unwrap();
    let recovered = Spool::recover(dir.path(), KEY).unwrap();
    assert_eq!(recovered.cut, (5 << 20) - header().line().len() as u64);
}

#[test]
fn a_deleted_spool_takes_nothing_more() {
    let dir = tempfile::tempdir().unwrap();
    let mut spool = Spool::create(dir.path(), KEY, &header().line()).unwrap();
    std::fs::remove_file(path(dir.path())).unwrap();
    let before = spool.prefix();
    assert!(matches!(
        spool.append(b"[]\n"),
        Err(SpoolError::Write { .. })
    ));
    assert!(matches!(spool.append(b"[]\n"), Err(SpoolError::Failed)));
    assert_eq!(spool.prefix(), before);
}

#[test]
fn a_key_is_found_again_in_its_files_name() {
    for key in [
        KEY,
        "a/../b",
        "..",
        ".hidden",
        "%2f/%",
        "\u{e4}pp/env/x.cast",
        "a b/c",
    ] {
        let name = file_name(key);
        assert!(!name.contains('/') && !name.starts_with('.'), "{name}");
        assert_eq!(key_of(&name).as_deref(), Some(key));
    }
    assert_eq!(key_of("something.else"), None);
}

#[test]
fn every_key_of_valid_names_has_a_spool_that_is_found_again() {
    let dir = tempfile::tempdir().unwrap();
    let mut keys_made = Vec::new();
    for (length, first) in [
        (1, "a"),
        (100, "a"),
        (118, "a"),
        (253, "a"),
        (253, "b"),
        (252, "."),
    ] {
        let app = format!("{first}{}", "n".repeat(length - 1));
        let key = format!("{app}/{app}/abcdefghijkl.cast");
        let made = Spool::create(dir.path(), &key, &header().line()).expect(&key);
        drop(made);
        keys_made.push(key);
    }
    keys_made.sort();
    assert_eq!(keys(dir.path()).unwrap(), keys_made);
    for key in &keys_made {
        let recovered = Spool::recover(dir.path(), key).expect(key);
        recovered.spool.remove().unwrap();
    }
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
}

proptest::proptest! {
    #[test]
    fn a_spools_name_is_a_files_name_and_its_keys_alone(
        app in "[A-Za-z0-9._-]{1,253}",
        env in "[A-Za-z0-9._-]{1,253}",
    ) {
        let key = format!("{app}/{env}/abcdefghijkl.cast");
        let name = file_name(&key);
        proptest::prop_assert!(name.len() + ".damaged".len() <= 255, "{}", name);
        proptest::prop_assert!(!name.contains('/') && !name.starts_with('.'));
        if !name.contains(HASHED) {
            proptest::prop_assert_eq!(key_of(&name), Some(key));
        }
    }
}

#[test]
fn a_folder_is_probed_without_a_trace() {
    let dir = tempfile::tempdir().unwrap();
    let spools = dir.path().join("spools");
    check(&spools).unwrap();
    assert_eq!(std::fs::read_dir(&spools).unwrap().count(), 0);
    std::fs::write(dir.path().join("file"), "x").unwrap();
    assert!(check(&dir.path().join("file")).is_err());
}
