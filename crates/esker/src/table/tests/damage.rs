//! Damaged files: a read returns an error or the written data, never anything else.

use super::*;
use crate::base::checksum::{checksum, location_seed};
use crate::base::range_delete::RANGE_BYTES;
use crate::table::format::{FOOTER_BYTES, decode_range_deletes};
use crate::table::reader::TableIdentity;

/// Reads a damaged file in every way. Each read must return an error or the written data. Returns
/// the number of errors.
fn probe(files: &Arc<Files>, size_bytes: u64, order: &KeyOrder, list: &[Entry]) -> usize {
    let config = config(order, 1 << 20);
    let Ok(table) = Table::open(source(files, size_bytes), &config) else { return 1 };
    let table = Arc::new(table);
    let mut errors = 0;
    for result in [forward(&table, false), forward(&table, true)] {
        match result {
            Ok(found) => assert_eq!(found, list),
            Err(_) => errors += 1,
        }
    }
    match backward(&table) {
        Ok(mut found) => {
            found.reverse();
            assert_eq!(found, list);
        }
        Err(_) => errors += 1,
    }
    for (key, seqno, kind, value) in list {
        match table.get(key, key_hash(key), *seqno, false) {
            Ok(hit) => {
                let hit = hit.expect("an existing key");
                assert_eq!((hit.seqno, hit.kind, &*hit.value), (*seqno, *kind, &value[..]));
            }
            Err(_) => errors += 1,
        }
    }
    assert_eq!(table.check().is_err(), errors > 0, "a check sees what reads see");
    errors
}

fn small(layout: BlockLayout, compression: Compression) -> (TableOptions, Vec<Entry>) {
    let order = KeyOrder::Bytewise;
    let options = TableOptions { layout, compression, block_size_bytes: 128, ..options(&order) };
    (options, entries(2, 24, &order))
}

#[test]
fn flipped_bytes_are_detected() {
    for &layout in BlockLayout::ALL {
        for &compression in Compression::ALL {
            let (options, list) = small(layout, compression);
            let files = Arc::new(Files::default());
            let gone = RangeDelete { start: b"c".to_vec(), end: b"d".to_vec(), seqno: 4 };
            let info = write(&files, &options, &list, &[gone]).unwrap();
            let path = Path::new("t");
            let good = files.bytes(path);
            assert_eq!(probe(&files, info.size_bytes, &options.order, &list), 0);
            for at in 0..good.len() {
                for mask in [1u8, 0x80, 0xff] {
                    let mut bad = good.clone();
                    bad[at] ^= mask;
                    files.put(path, bad);
                    let errors = probe(&files, info.size_bytes, &options.order, &list);
                    assert!(errors > 0, "byte {at} of {} is under no checksum", good.len());
                }
            }
        }
    }
}

#[test]
fn truncated_or_extended_file_is_refused() {
    let (options, list) = small(BlockLayout::Columnar, Compression::None);
    let files = Arc::new(Files::default());
    let info = write(&files, &options, &list, &[]).unwrap();
    let path = Path::new("t");
    let good = files.bytes(path);
    let config = config(&options.order, 0);
    for len in 0..good.len() + 200 {
        if len == good.len() {
            continue;
        }
        let mut bad = good.clone();
        bad.resize(len, 0);
        files.put(path, bad);
        for size_bytes in [info.size_bytes, len as u64] {
            let error = Table::open(source(&files, size_bytes), &config).unwrap_err();
            assert!(error.is_corruption(), "{error}");
            assert!(error.path().is_some() && error.offset_bytes().is_some());
        }
        assert!(Table::identify(&*files, path).is_err());
    }
}

#[test]
fn wrong_table_id_order_or_version_is_refused() {
    let (options, list) = small(BlockLayout::Columnar, Compression::None);
    let files = Arc::new(Files::default());
    let info = write(&files, &options, &list, &[]).unwrap();
    let path = Path::new("t");
    let open = |source: TableSource, order: &KeyOrder| {
        Table::open(source, &config(order, 0)).unwrap_err().kind()
    };
    let identity = Table::identify(&*files, path).unwrap();
    assert_eq!(identity, TableIdentity { table_id: TABLE_ID, size_bytes: info.size_bytes });
    let source = source(&files, info.size_bytes);
    let other = TableSource { table_id: 1, ..source.clone() };
    assert_eq!(open(other, &KeyOrder::Bytewise), ErrorKind::Corruption);
    assert_eq!(open(source.clone(), &KeyOrder::Reverse), ErrorKind::Incompatible);
    let mut newer = files.bytes(path);
    let version_at = newer.len() - 24;
    newer[version_at] = 2;
    files.put(path, newer.clone());
    assert_eq!(open(source.clone(), &KeyOrder::Bytewise), ErrorKind::Corruption);
    let footer = newer.len() - FOOTER_BYTES;
    let body = &newer[footer..newer.len() - 8];
    let sum = checksum(body, location_seed(TABLE_ID, footer as u64));
    let sum_at = newer.len() - 8;
    newer[sum_at..].copy_from_slice(&sum.to_le_bytes());
    files.put(path, newer);
    assert_eq!(open(source.clone(), &KeyOrder::Bytewise), ErrorKind::Incompatible);
    let missing = TableSource { path: "gone".into(), ..source };
    assert_eq!(open(missing, &KeyOrder::Bytewise), ErrorKind::Io);
}

#[test]
fn swapped_blocks_are_refused() {
    let order = KeyOrder::Bytewise;
    let list: Vec<Entry> = (0..40u64)
        .map(|i| (format!("{i:08}").into_bytes(), 1, Kind::Put, vec![i as u8; 50]))
        .collect();
    let options = TableOptions { block_size_bytes: 200, ..options(&order) };
    let files = Arc::new(Files::default());
    let info = write(&files, &options, &list, &[]).unwrap();
    let path = Path::new("t");
    let table = Table::open(source(&files, info.size_bytes), &config(&order, 0)).unwrap();
    let [(a, b), (c, d)] = [1, 2].map(|block| {
        let place = table.meta.index.place(block);
        (place.start, place.end)
    });
    assert_eq!((b - a, b), (d - c, c), "two neighbours of one length");
    let mut bytes = files.bytes(path);
    bytes[a as usize..d as usize].rotate_left((b - a) as usize);
    files.put(path, bytes);
    let errors = probe(&files, info.size_bytes, &order, &list);
    assert!(errors > 3, "three scans and every key of both blocks fail");
}

#[test]
fn range_tombstone_memory_is_proportional_to_bytes_not_claimed_count() {
    let shown = |bytes: &[u8]| {
        let mut shown = 0;
        let read = decode_range_deletes(bytes, |_| shown += 1).is_some();
        (read, shown)
    };
    assert_eq!(shown(&[1, 1, b'a', 1, b'b', 7]), (true, 1));
    let claims_2_31 = [0x80, 0x80, 0x80, 0x80, 0x08, 1, b'a', 1, b'b', 7];
    let claims_2_31_less_1 = [0xff, 0xff, 0xff, 0xff, 0x07, 1, b'a', 1, b'b', 7];
    assert_eq!((shown(&claims_2_31), shown(&claims_2_31_less_1)), ((false, 0), (false, 1)));
    let too_long = [1, 0xff, 0xff, 0xff, 0x7f, b'b', 7];
    let number_too_great = [1, 0, 1, b'b', 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f];
    for bytes in [&[][..], &[0, 7], &too_long, &number_too_great] {
        assert_eq!(shown(bytes), (false, 0), "{bytes:?}");
    }
    // The maximum number of range tombstones for their bytes: each of the least length, all
    // overlapping.
    let order = KeyOrder::Bytewise;
    let count = 20_000;
    let all: Vec<_> = (0..count)
        .map(|n| RangeDelete { start: Vec::new(), end: vec![b'z'], seqno: n % 100 })
        .collect();
    let table = table(&options(&order), &config(&order, 0), &[], &all);
    let most = size_of::<Table>() as u64 + (RANGE_BYTES as u64 + 1) * count + 4096;
    assert!((table.memory_bytes() as u64) < most, "{} bytes", table.memory_bytes());
    assert_eq!(table.covering(b"m", 55), Some(55));
}
