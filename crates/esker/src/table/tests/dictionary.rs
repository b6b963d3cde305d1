//! Tables with a compression dictionary: what they hold, when they have one, and damage to it.
#![cfg(feature = "zstd")]

use super::*;
use crate::table::dictionary_part::read_dictionary;
use crate::table::format::{FOOTER_BYTES, Footer, Handle};
use crate::table::reader::Meta;

/// Returns `count` lines of JSON with 200 to 500 bytes under ascending keys.
fn lines(count: u64) -> Vec<Entry> {
    let mut random = Random(5);
    let line = |n: u64| {
        let (name, city) = (random.bytes(8, 26), random.bytes(6, 26));
        let tags: Vec<String> =
            (0..random.below(6)).map(|_| format!("\"label-{}\"", random.below(900))).collect();
        let value = format!(
            "{{\"identifier\":{},\"customer_name\":\"{}\",\"delivery_address\":{{\"city\":\"{}\",\
             \"country\":\"Switzerland\",\"postal_code\":{}}},\"payment_method\":\"invoice\",\
             \"is_active\":{},\"order_total_cents\":{},\"labels\":[{}],\"created_at\":\"2026-11-{:02}T\
             10:{:02}:00Z\"}}",
            random.below(1 << 40),
            String::from_utf8_lossy(&name),
            String::from_utf8_lossy(&city),
            random.below(9999),
            random.below(2) == 0,
            random.below(1_000_000),
            tags.join(","),
            1 + random.below(28),
            random.below(60),
        );
        (format!("order/{n:08}").into_bytes(), 7, Kind::Put, value.into_bytes())
    };
    (0..count).map(line).collect()
}

fn with_dictionary(dictionary_max_bytes: usize) -> TableOptions {
    TableOptions {
        compression: Compression::Zstd,
        compression_level: 3,
        block_size_bytes: 4096,
        dictionary_max_bytes,
        ..TableOptions::default()
    }
}

/// Writes a table. Returns its bytes, and the place of its dictionary.
fn written(options: &TableOptions, list: &[Entry]) -> (Vec<u8>, Option<Handle>) {
    let files = Arc::new(Files::default());
    let info = write(&files, options, list, &[]).unwrap();
    let table =
        Table::open(source(&files, info.size_bytes), &config(&options.order, 1 << 20)).unwrap();
    let place = table.meta.properties.dictionary;
    assert_eq!(table.meta.dictionary.is_some(), place.is_some());
    (files.bytes(Path::new("t")), place)
}

#[test]
fn tables_with_a_dictionary_hold_what_was_written_and_are_smaller() {
    let list = lines(3000);
    let size_of = |options: &TableOptions| written(options, &list).0.len();
    let plain = size_of(&with_dictionary(0));
    let (bytes, place) = written(&with_dictionary(16 << 10), &list);
    let place = place.expect("a dictionary");
    assert!(place.payload_bytes > 1000 && place.payload_bytes <= 16 << 10, "{place:?}");
    assert!(bytes.len() * 5 < plain * 4, "{} bytes, {plain} without a dictionary", bytes.len());
    if Compression::Lz4.is_built_in() {
        let lz4 = TableOptions { compression: Compression::Lz4, ..with_dictionary(16 << 10) };
        assert!(bytes.len() * 3 < size_of(&lz4) * 2, "{} of {}", bytes.len(), size_of(&lz4));
        // Only Zstandard has dictionaries.
        assert_eq!(written(&lz4, &list).1, None);
    }
    let order = KeyOrder::Bytewise;
    for &layout in BlockLayout::ALL {
        for dictionary_max_bytes in [2048, 8192, 64 << 10] {
            let options = TableOptions { layout, ..with_dictionary(dictionary_max_bytes) };
            let table = table(&options, &config(&order, 1 << 20), &list, &[]);
            assert!(table.meta.dictionary.is_some(), "{layout:?}, {dictionary_max_bytes}");
            assert_eq!(table.check().unwrap(), *table.info());
            let plain = TableOptions { layout, ..with_dictionary(0) };
            let plain = super::table(&plain, &config(&order, 1 << 20), &list, &[]);
            assert_eq!(table.info().content_hash, plain.info().content_hash);
            assert!(table.memory_bytes() >= plain.memory_bytes() + 256);
            compare_all(&table, &order, &list);
        }
    }
}

#[test]
fn without_the_option_or_with_nothing_to_gain_there_is_no_dictionary() {
    let list = lines(2000);
    let default = TableOptions { compression: Compression::Zstd, ..TableOptions::default() };
    assert_eq!(default.dictionary_max_bytes, 0);
    assert_eq!(written(&default, &list).1, None);
    let options = with_dictionary(16 << 10);
    for count in [0, 1, 5, 40] {
        let (bytes, place) = written(&options, &list[..count]);
        assert_eq!(place, None, "{count} entries");
        assert_eq!(bytes, written(&with_dictionary(0), &list[..count]).0);
    }
    // Random bytes have nothing in common.
    let mut random = Random(9);
    let noise: Vec<Entry> = (0..2000u64)
        .map(|n| {
            let value = (0..300).map(|_| random.below(256) as u8).collect();
            (format!("{n:08}").into_bytes(), 1, Kind::Put, value)
        })
        .collect();
    assert_eq!(written(&options, &noise).1, None);
    // A large value behind the first blocks, before there are enough of them and after.
    for at in [3, 200, 1990] {
        let mut mixed = list.clone();
        mixed[at].3 = b"large ".repeat(300_000);
        let order = KeyOrder::Bytewise;
        let table = table(&options, &config(&order, 64 << 20), &mixed, &[]);
        assert_eq!(table.meta.dictionary.is_some(), at > 100, "a large value at {at}");
        assert_eq!(forward(&table, true).unwrap(), mixed);
        assert_eq!(table.check().unwrap(), *table.info());
    }
}

#[test]
fn damage_to_a_dictionary_is_detected() {
    let list = lines(1000);
    let options = with_dictionary(4096);
    let (good, place) = written(&options, &list);
    let place = place.expect("a dictionary");
    let files = Arc::new(Files::default());
    let (path, size_bytes) = (Path::new("t"), good.len() as u64);
    let open = |bytes: Vec<u8>| {
        files.put(path, bytes);
        Table::open(source(&files, size_bytes), &config(&options.order, 1 << 20))
    };
    let (start, end) = (place.offset_bytes as usize, place.end().unwrap() as usize);
    for at in start..end {
        for mask in [1u8, 0x80] {
            let mut bad = good.clone();
            bad[at] ^= mask;
            let error = open(bad).unwrap_err();
            assert!(error.is_corruption(), "{error}");
            assert_eq!(error.offset_bytes(), Some(place.offset_bytes), "{error}");
        }
    }
    // A table that is open finds the damage when it is checked.
    let table = open(good.clone()).unwrap();
    let mut bad = good.clone();
    bad[start + 9] ^= 4;
    files.put(path, bad);
    assert!(Table::open(table.source.clone(), &table.config).unwrap_err().is_corruption());
    assert!(Meta::read(&*files.open_read(path).unwrap(), &table.source, &table.config).is_err());
    // A place that is none, behind valid checksums.
    let footer_at = good.len() - FOOTER_BYTES;
    let footer = Footer::decode(good[footer_at..].try_into().unwrap(), footer_at as u64).unwrap();
    for (offset_bytes, payload_bytes) in [
        (place.offset_bytes + 1, place.payload_bytes),
        (place.offset_bytes, place.payload_bytes - 1),
        (0, u64::MAX),
        (u64::MAX, 1),
        (footer.filter.offset_bytes - 9, 0),
    ] {
        let source = source(&files, size_bytes);
        let file = files.open_read(path).unwrap();
        let handle = Handle { offset_bytes, payload_bytes };
        let found = read_dictionary(&*file, &source, handle, footer.filter.offset_bytes);
        assert!(found.is_err(), "{offset_bytes}, {payload_bytes}");
    }
}

#[test]
fn random_changes_of_a_table_with_a_dictionary_are_errors_or_change_nothing() {
    let list = lines(1000);
    let options = with_dictionary(4096);
    let (good, place) = written(&options, &list);
    assert!(place.is_some());
    let files = Arc::new(Files::default());
    let (path, mut random) = (Path::new("t"), Random(11));
    for _ in 0..200 {
        let mut bad = good.clone();
        for _ in 0..=random.below(3) {
            let at = random.below(bad.len() as u64) as usize;
            bad[at] = random.below(256) as u8;
        }
        let changed = bad != good;
        files.put(path, bad);
        let opened =
            Table::open(source(&files, good.len() as u64), &config(&options.order, 1 << 20));
        let found = opened.and_then(|table| forward(&Arc::new(table), false));
        match found {
            Ok(found) => assert_eq!(found, list),
            Err(error) => assert!(changed && error.is_corruption(), "{error}"),
        }
    }
}
