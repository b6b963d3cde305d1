//! Compares deferred seeks with a sorted list, and counts the blocks that they read.

use super::*;
use crate::iter::merge::MergeCursor;
use crate::iter::visible::VisibleCursor;

/// Makes the n-th key.
type KeyOf = dyn Fn(u64) -> Vec<u8>;

/// Makes a table of `list` with a sketch of each block.
fn table_with_sketches(
    order: &KeyOrder,
    block_size_bytes: usize,
    list: &[Entry],
) -> (Arc<Table>, ReadConfig) {
    let config = config(order, 64 << 20);
    let options = TableOptions { block_size_bytes, ..options(order) };
    let table = table(&options, &config, list, &[]);
    assert_eq!(table.check_and_keep(true).unwrap(), *table.info());
    (table, config)
}

/// Checks deferred seeks at and around keys. Returns the number of deferred seeks and the number of
/// seeks to absent keys.
fn compare_deferred(
    table: &Arc<Table>,
    order: &KeyOrder,
    list: &[Entry],
    keys: &[Vec<u8>],
) -> (u64, u64) {
    let mut random = Random(keys.len() as u64);
    let (mut deferred, mut absent) = (0, 0);
    let mut cursor = table.cursor(true);
    for key in keys {
        let seqno = [SEQNO_MAX, random.below(500), 0][random.below(3) as usize];
        let want = list.get(lower_bound(order, list, key, seqno));
        match random.below(3) {
            0 => cursor.prefetch_seek(key, PrefetchStep::Index, false),
            1 => cursor.prefetch_seek(key, PrefetchStep::Block, true),
            _ => {}
        }
        let is_deferred = cursor.seek_deferred(key, seqno, random.below(2) == 0).unwrap();
        absent += u64::from(!list.iter().any(|entry| entry.0 == *key));
        if is_deferred {
            deferred += 1;
            let (bound, want) = (cursor.key().to_vec(), want.expect("a bound of nothing"));
            assert!(cursor.valid() && bound > *key && bound <= want.0, "{bound:?}, {want:?}");
            assert!(!cursor.materialize(key, seqno).unwrap());
        }
        assert_eq!(here(&cursor).as_ref(), want, "{key:?} at {seqno}, deferred: {is_deferred}");
    }
    (deferred, absent)
}

#[test]
fn sketch_bound_lies_between_key_and_found_entry() {
    let mut all_deferred = 0;
    for seed in 0..30 {
        let order = &orders()[usize::from(seed % 6 == 5)];
        let list = entries(seed, 600, order);
        let mut random = Random(seed);
        let (table, _config) =
            table_with_sketches(order, [300, 4096, 64][seed as usize % 3], &list);
        let keys = (0..600).map(|at| {
            let mut key = list[random.below(list.len() as u64) as usize].0.clone();
            match at % 5 {
                0 => key.push(0),
                1 => drop(key.pop()),
                2 | 3 => {
                    let byte = random.below(key.len() as u64 + 1) as usize;
                    if let Some(byte) = key.get_mut(byte) {
                        *byte = random.below(256) as u8;
                    }
                }
                _ => {}
            }
            key
        });
        let keys: Vec<Vec<u8>> = keys.collect();
        let (deferred, _) = compare_deferred(&table, order, &list, &keys);
        assert!(order.has_heads() || deferred == 0);
        all_deferred += deferred;
    }
    assert!(all_deferred > 1_000, "{all_deferred} of 18,000 seeks were deferred");
}

#[test]
fn sketches_distinguish_keys_of_every_kind() {
    let order = &KeyOrder::Bytewise;
    fn hash(n: u64) -> u64 {
        n.wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(29)
    }
    let kinds: [(&str, &KeyOf); 4] = [
        ("digits", &|n| format!("{n:016}").into_bytes()),
        ("a prefix and digits", &|n| format!("account:{n:010}:name").into_bytes()),
        ("binary", &|n| n.to_be_bytes().to_vec()),
        ("hashes", &|n| hash(n).to_be_bytes().to_vec()),
    ];
    for (name, key) in kinds {
        // Every twentieth number has a key.
        let mut list: Vec<Entry> =
            (0..3_000).map(|n| (key(n * 20), 9, Kind::Put, vec![b'v'; 100])).collect();
        list.sort_by(|a, b| a.0.cmp(&b.0));
        let (table, _config) = table_with_sketches(order, 4096, &list);
        let keys: Vec<Vec<u8>> = (0..2_000).map(|n| key(hash(n) % 60_000)).collect();
        let (deferred, absent) = compare_deferred(&table, order, &list, &keys);
        // If the next key is the first of its block, the bound may be unknown.
        assert!(deferred * 100 >= absent * 97, "{name}: {deferred} of {absent}");
    }
}

/// Distributes entries over `tables` tables, each with its own cache, and merges them.
fn merge_of_tables(list: &[Entry], tables: usize) -> (MergeCursor, Vec<ReadConfig>) {
    let order = &KeyOrder::Bytewise;
    let mut parts = vec![Vec::new(); tables];
    for (at, entry) in list.iter().enumerate() {
        parts[(at * 7 + at / 5) % tables].push(entry.clone());
    }
    let (mut children, mut configs) = (Vec::new(), Vec::new());
    for part in &parts {
        let (table, config) = table_with_sketches(order, 512, part);
        // Empties the cache after the check, because the test counts reads.
        config.cache.set_capacity(0);
        config.cache.set_capacity(64 << 20);
        children.push(Box::new(table.cursor(true)) as Box<dyn Cursor + Send>);
        configs.push(config);
    }
    (MergeCursor::new(order.clone(), children), configs)
}

#[test]
fn merge_with_deferred_seeks_matches_list_and_reads_few_blocks() {
    let order = KeyOrder::Bytewise;
    let entry = |n: u64| (format!("{n:016}").into_bytes(), n + 1, Kind::Put, vec![b'v'; 50]);
    let list: Vec<Entry> = (0..4_000).map(|n| entry(n * 10)).collect();
    for (steps, most) in [(0, 2.2), (3, 5.2), (40, 15.0)] {
        let (merge, configs) = merge_of_tables(&list, 8);
        let mut cursor = VisibleCursor::new(merge, order.clone(), SEQNO_MAX, None);
        let mut random = Random(steps);
        let (seeks, mut reads) = (300, 0);
        let all_reads =
            || -> u64 { configs.iter().map(|config| config.cache.stats().insertions).sum() };
        for _ in 0..seeks {
            let before = all_reads();
            let key = format!("{:016}", random.below(40_500)).into_bytes();
            let mut at = lower_bound(&order, &list, &key, SEQNO_MAX);
            cursor.seek(&key).unwrap();
            for step in 0..=steps {
                let stands = cursor.valid().then(|| (cursor.key(), cursor.value()));
                let want = list.get(at).map(|entry| (entry.0.as_slice(), entry.3.as_slice()));
                assert_eq!(stands, want, "{step} steps after {key:?}");
                if stands.is_none() {
                    break;
                }
                cursor.next().unwrap();
                at += 1;
            }
            reads += all_reads() - before;
            // A change of direction moves all children to the position of the merge.
            if cursor.valid() {
                let back = at.checked_sub(1);
                cursor.prev().unwrap();
                let want = back.map(|at| list[at].0.as_slice());
                assert_eq!(cursor.valid().then(|| cursor.key()), want);
            }
            // Each seek starts with an empty cache.
            cursor.release();
            cursor.reset(SEQNO_MAX, None);
            for config in &configs {
                config.cache.set_capacity(0);
                config.cache.set_capacity(64 << 20);
            }
        }
        let each = reads as f64 / f64::from(seeks);
        assert!(each < most, "{steps} steps after a seek take {each} blocks of 8 tables");
    }
}

#[test]
fn sketches_are_charged_to_cache_or_not_built() {
    let order = &KeyOrder::Bytewise;
    let list: Vec<Entry> = (0..2_000)
        .map(|n| (format!("{n:08}").into_bytes(), 1, Kind::Put, vec![b'v'; 20]))
        .collect();
    let made = |cache_bytes: u64| {
        let config = config(order, cache_bytes);
        let table = table(&options(order), &config, &list, &[]);
        table.check_and_keep(true).unwrap();
        let mut cursor = table.cursor(true);
        let deferred = cursor.seek_deferred(b"00000100a", SEQNO_MAX, false).unwrap();
        let reserved = config.cache.reserved_bytes();
        drop((cursor, table));
        assert_eq!(config.cache.reserved_bytes(), 0, "a removed table kept its cache reservation");
        (deferred, reserved)
    };
    let (deferred, reserved) = made(1 << 20);
    assert!(deferred && (4_000..10_000).contains(&reserved), "{reserved} bytes");
    assert_eq!(made(4 * reserved - 1), (false, 0));
    assert_eq!(made(4 * reserved), (true, reserved));
}

#[test]
fn second_seek_builds_sketch_except_in_deepest_table() {
    let order = &KeyOrder::Bytewise;
    let list: Vec<Entry> =
        (0..500).map(|n| (format!("{n:08}").into_bytes(), 1, Kind::Put, vec![b'v'; 20])).collect();
    let config = config(order, 1 << 20);
    let table = table(&options(order), &config, &list, &[]);
    let mut cursor = table.cursor(true);
    let mut seek = |deepest| cursor.seek_deferred(b"00000100a", SEQNO_MAX, deepest).unwrap();
    // In the deepest table a sketch would be useless.
    assert!(!seek(true) && !seek(true));
    assert!(!seek(false) && seek(false));
}

#[test]
fn threads_build_each_sketch_once_and_see_it_whole() {
    let order = &KeyOrder::Bytewise;
    let list: Vec<Entry> = (0..2_000)
        .map(|n| (format!("{:08}", n * 9).into_bytes(), 1, Kind::Put, vec![b'v'; 20]))
        .collect();
    let config = config(order, 1 << 20);
    let table = table(&options(order), &config, &list, &[]);
    let deferred: u64 = std::thread::scope(|scope| {
        let seeker = |thread: u64| {
            let (table, list) = (&table, &list);
            scope.spawn(move || {
                let mut random = Random(thread);
                let keys = (0..4_000).map(|_| format!("{:08}", random.below(18_000)).into_bytes());
                compare_deferred(table, order, list, &keys.collect::<Vec<_>>()).0
            })
        };
        let seekers: Vec<_> = (0..4).map(seeker).collect();
        seekers.into_iter().map(|seeker| seeker.join().unwrap()).sum()
    });
    assert!(deferred > 8_000, "{deferred} of 16,000 seeks were deferred");
}
