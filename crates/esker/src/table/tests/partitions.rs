//! Tables that read their index and filter in partitions: the same answers as with both in memory,
//! little memory, and no answer from bytes that changed after the table was opened.

use super::*;
use crate::base::epoch::EpochGuard;

/// Returns a configuration under which no table has its index and filter in memory as a whole.
fn partitioned(order: &KeyOrder, cache_bytes: u64) -> ReadConfig {
    ReadConfig { index_budget: IndexBudget::new(0), ..config(order, cache_bytes) }
}

/// Returns the answer of a get without I/O; `None` if that is impossible.
fn get_without_io(
    table: &Table,
    (key, seqno): (&[u8], SeqNo),
    reading: &EpochGuard<'_>,
) -> Option<Option<(SeqNo, Vec<u8>)>> {
    match table.get_past_filter(key, seqno, true, Some(reading)).unwrap() {
        TableGet::Found(hit) => Some(Some((hit.row.seqno(), hit.value().to_vec()))),
        TableGet::Absent => Some(None),
        TableGet::NeedsIo | TableGet::Merge => None,
    }
}

/// Entries whose index has several partitions: one entry per block.
fn many(count: usize) -> (TableOptions, Vec<Entry>) {
    let order = KeyOrder::Bytewise;
    let options = TableOptions { block_size_bytes: 1, ..options(&order) };
    (options, entries(5, count, &order))
}

#[test]
fn partitioned_tables_of_many_shapes_match_sorted_list() {
    for seed in 0..60 {
        let order = &orders()[seed as usize % 3];
        let count = [0, 1, 2, 10, 300, 2000][seed as usize % 6];
        let list = if count == 0 { Vec::new() } else { entries(seed, count, order) };
        let filters = [
            FilterConfig::Bloom { bits_per_key: 10.0 },
            FilterConfig::None,
            FilterConfig::Custom(Arc::new(FirstByte)),
        ];
        let options = TableOptions {
            block_size_bytes: [1, 64, 300, 4096, 1 << 20][seed as usize % 5],
            layout: BlockLayout::ALL[seed as usize % 2],
            filter: filters[seed as usize / 2 % 3].clone(),
            ..options(order)
        };
        let cache_bytes = [0, 2 << 10, 1 << 20][seed as usize / 3 % 3];
        let read = ReadConfig {
            index_search: IndexSearch::ALL[seed as usize / 4 % 3],
            index_fanout: 2,
            keep_open: seed % 4 != 1,
            ..partitioned(order, cache_bytes)
        };
        let table = table(&options, &read, &list, &[]);
        assert!(table.partitions.is_some());
        compare_all(&table, order, &list);
    }
}

#[test]
fn gets_without_io_answer_what_is_cached_and_nothing_else() {
    let (options, list) = many(3000);
    let read = partitioned(&options.order, 64 << 20);
    let table = table(&options, &read, &list, &[]);
    let collector = read.cache.collector().clone();
    let absent = b"~absent".as_slice();
    {
        let reading = collector.pin();
        assert_eq!(get_without_io(&table, (&list[9].0, SEQNO_MAX), &reading), None);
        assert_eq!(get_without_io(&table, (absent, SEQNO_MAX), &reading), None);
    }
    for entry in &list {
        let key = (entry.0.as_slice(), entry.1);
        table.get(key.0, key_hash(key.0), key.1, true).unwrap();
        let reading = collector.pin();
        let want = Some((entry.1, entry.3.clone()));
        assert_eq!(get_without_io(&table, key, &reading), Some(want), "{key:?}");
    }
    let none = table.get(absent, key_hash(absent), SEQNO_MAX, true).unwrap();
    assert!(none.is_none());
    assert_eq!(get_without_io(&table, (absent, SEQNO_MAX), &collector.pin()), Some(None));
}

#[test]
fn partitioned_table_takes_little_memory_and_leaves_nothing_in_the_cache() {
    let order = KeyOrder::Bytewise;
    let list: Vec<Entry> = (0..60_000u64)
        .map(|i| (format!("{i:016}").into_bytes(), 1, Kind::Put, vec![b'v'; 8]))
        .collect();
    let options = options(&order);
    let whole = table(&options, &config(&order, 0), &list, &[]).memory_bytes();
    let read = partitioned(&order, 64 << 20);
    let table = table(&options, &read, &list, &[]);
    let parts = table.memory_bytes() - table.meta.properties.sample.len() - size_of::<Table>();
    assert!(parts * 20 < whole, "{parts} of {whole} bytes");
    // What plans ask needs no read: an offset is that of the partition.
    let offsets: Vec<u64> = list.iter().map(|e| table.approximate_offset(&e.0)).collect();
    assert!(offsets.is_sorted());
    let distinct = offsets.chunk_by(|a, b| a == b).count();
    assert_eq!(distinct, table.block_count().div_ceil(64));
    let middle = offsets[30_000];
    let divides = table.key_near(middle).unwrap();
    let before = list.partition_point(|entry| entry.0.as_slice() <= divides);
    assert_eq!(offsets[before], middle, "the rows from the offset on are after the key");
    assert!(offsets[before - 1] < middle);
    assert!(table.separator_after(&list[30_000].0).is_some_and(|key| key > &list[30_000].0[..]));
    assert_eq!(forward(&table, false).unwrap(), list);
    assert_eq!(read.cache.used_bytes(), 0, "a scan for no cache");
    assert_eq!(forward(&table, true).unwrap(), list);
    table.get(&list[7].0, key_hash(&list[7].0), 9, true).unwrap();
    assert!(read.cache.used_bytes() > 0);
    table.forget_blocks();
    assert_eq!(read.cache.used_bytes(), 0);
}

#[test]
fn partition_that_changed_after_the_opening_is_never_used() {
    let (options, list) = many(500);
    let files = Arc::new(Files::default());
    let info = write(&files, &options, &list, &[]).unwrap();
    let path = Path::new("t");
    let good = files.bytes(path);
    // Nothing stays in the cache, so that every read reads the file.
    let read = ReadConfig { keep_open: false, ..partitioned(&options.order, 0) };
    let table = Table::open(source(&files, info.size_bytes), &read).unwrap();
    let data = table.meta.index.data_bytes() as usize;
    let mut refused = 0;
    for at in (data..good.len()).step_by(41) {
        let mut bytes = good.clone();
        bytes[at] ^= 0x10;
        files.put(path, bytes);
        for entry in list.iter().step_by(7) {
            match table.get(&entry.0, key_hash(&entry.0), entry.1, false) {
                Ok(hit) => {
                    let hit = hit.expect("an existing key");
                    assert_eq!((hit.seqno, &*hit.value), (entry.1, &entry.3[..]));
                }
                Err(error) => {
                    assert!(error.is_corruption(), "{error}");
                    refused += 1;
                }
            }
        }
    }
    assert!(refused > 100, "{refused} refused reads");
    let (from, rest) = (data - 200, good.len() - data + 200);
    files.put(path, [&good[..from], &vec![0; rest]].concat());
    let error = table.get(&list[9].0, key_hash(&list[9].0), SEQNO_MAX, false).unwrap_err();
    assert!(error.to_string().contains("checked when the table was opened"), "{error}");
}

#[test]
fn table_has_partitions_only_where_its_index_does_not_fit() {
    let order = KeyOrder::Bytewise;
    let list = entries(3, 2000, &order);
    let open = |budget: &Arc<IndexBudget>, is_flushed, index_credit_bytes| {
        let index_budget = budget.clone();
        let read = ReadConfig { index_budget, is_flushed, index_credit_bytes, ..config(&order, 0) };
        table(&options(&order), &read, &list, &[])
    };
    let unlimited = IndexBudget::unlimited();
    let first = open(&unlimited, false, 0);
    let each = unlimited.used_bytes();
    assert!(first.partitions.is_none() && each > 0);
    assert_eq!(first.index_permit_bytes(), each);
    let budget = IndexBudget::new(2 * each);
    let whole = open(&budget, false, 0);
    assert!(whole.partitions.is_none());
    assert!(open(&budget, false, 0).partitions.is_some(), "the rest is for flushed tables");
    let upper = open(&budget, true, 0);
    assert!(upper.partitions.is_none());
    assert_eq!(budget.used_bytes(), 2 * each);
    // A compaction of the first table gives its memory back.
    let output = open(&budget, false, 2 * each);
    assert!(output.partitions.is_none());
    drop((whole, upper));
    assert_eq!(budget.used_bytes(), each);
    drop(output);
    assert!(open(&budget, false, 0).partitions.is_none());
}

#[test]
fn long_keys_do_not_make_long_partitions() {
    let order = KeyOrder::Bytewise;
    let entry = |i: u64| {
        let key = [format!("{i:05}").as_bytes(), &vec![b'k'; 3000][..]].concat();
        (key, 1, Kind::Put, vec![b'v'; 600])
    };
    let list: Vec<Entry> = (0..300).map(entry).collect();
    // Separators of an order without heads are whole keys.
    let options = TableOptions { layout: BlockLayout::Delta, ..options(&KeyOrder::Reverse) };
    let backwards: Vec<Entry> = list.iter().rev().cloned().collect();
    for (options, list) in [(self::options(&order), list), (options, backwards)] {
        let read = partitioned(&options.order, 1 << 20);
        let table = table(&options, &read, &list, &[]);
        assert_eq!(table.block_count(), 300);
        compare_all(&table, &options.order, &list);
    }
    let read = partitioned(&KeyOrder::Reverse, 0);
    let list: Vec<Entry> = (0..300).rev().map(entry).collect();
    let table = table(&self::options(&KeyOrder::Reverse), &read, &list, &[]);
    assert_eq!(table.meta.index.count(), 300_usize.div_ceil(8), "partitions of eight entries");
}
