//! Blocks that no builder wrote: parsing refuses them or reads them within bounds.

use super::*;
use crate::base::key::{Kind, SEQNO_MAX, pack};

fn block(layout: BlockLayout, keys: &[&[u8]], seqno: SeqNo, value: &[u8]) -> Vec<u8> {
    let mut builder = BlockBuilder::new(layout, &KeyOrder::Bytewise, 4);
    for (i, key) in keys.iter().enumerate() {
        builder.add(key, pack(seqno, Kind::Put), &value[..value.len().saturating_sub(i % 3)]);
    }
    let mut out = Vec::new();
    builder.finish(&mut out);
    assert!(builder.is_empty());
    out
}

/// Reads everything in a parsed block.
fn read_everything(block: &Block) {
    let order = KeyOrder::Bytewise;
    let mut buf = KeyBuf::default();
    for i in 0..block.rows() {
        let row = if i == 0 { block.load(i, &mut buf) } else { block.step_forward(i, &mut buf) };
        assert!(block.value(row).len() <= u32::MAX as usize && row.seqno() <= SEQNO_MAX);
        let key = buf.key().to_vec();
        block.find(&order, &key, row.seqno());
        block.lower_bound(&order, &key, 0, &mut KeyBuf::default());
    }
    for i in (0..block.rows()).rev() {
        block.load(i, &mut buf);
        block.step_back(i, &mut buf);
    }
    let last = block.rows() - 1;
    for (first, last) in [(0, last), (last, 0)] {
        let range = RowRange { first, last, ahead: 0 };
        let mut shown = 0;
        block.load(first, &mut buf);
        let end = block.for_each_row(range, &mut buf, &mut |_, _| {
            shown += 1;
            true
        });
        assert_eq!((shown, end.at, end.more), (block.rows(), last, true));
        let row = block.load(last, &mut KeyBuf::default());
        assert_eq!(end.row, row);
    }
    block.find(&order, b"", 0);
    block.find(&order, b"\xff\xff", SEQNO_MAX);
}

fn samples() -> Vec<Vec<u8>> {
    let equal: [&[u8]; 5] = [b"key-0001", b"key-0002", b"key-0003", b"key-0004", b"key-0005"];
    let long: [&[u8]; 3] = [b"p-abcdefghijkl", b"p-abcdefghijkm", b"p-bbcdefghijkl"];
    let varied: [&[u8]; 6] = [b"", b"a", b"a\0", b"a\0\0\0\0\0\0\0\0", b"ab", b"abcdefghijklm"];
    let mut samples = Vec::new();
    for &layout in BlockLayout::ALL {
        for keys in [&equal[..], &long, &varied] {
            for seqno in [0, 77, SEQNO_MAX] {
                samples.push(block(layout, keys, seqno, b"value"));
                samples.push(block(layout, keys, seqno, b""));
            }
        }
    }
    samples
}

#[test]
fn for_each_row_matches_load() {
    for sample in samples() {
        let block = Block::copy_of(&sample).unwrap();
        let (mut buf, last) = (KeyBuf::default(), block.rows() - 1);
        for (first, last) in [(0, last), (last, 0), (last, last), (0, last / 2)] {
            block.load(first, &mut buf);
            let mut at = first;
            block.for_each_row(RowRange { first, last, ahead: 0 }, &mut buf, &mut |key, value| {
                let mut own = KeyBuf::default();
                let row = block.load(at, &mut own);
                assert_eq!((key, value), (own.key(), block.value(row)));
                at = if first < last { at + 1 } else { at.wrapping_sub(1) };
                true
            });
            assert_eq!(at, if first < last { last + 1 } else { last.wrapping_sub(1) });
        }
    }
}

#[test]
fn corrupt_block_is_refused_or_read_within_bounds() {
    for sample in samples() {
        read_everything(&Block::copy_of(&sample).unwrap());
        for cut in 0..sample.len() {
            if let Ok(block) = Block::copy_of(&sample[..cut]) {
                read_everything(&block);
            }
        }
        for at in 0..sample.len() {
            for value in 0..=255 {
                let mut changed = sample.clone();
                changed[at] = value;
                if let Ok(block) = Block::copy_of(&changed) {
                    read_everything(&block);
                }
            }
        }
    }
}

#[test]
fn claimed_row_count_allocates_nothing() {
    for tag in [TAG_COLUMNAR, TAG_DELTA] {
        let mut bytes = vec![0xff; 40];
        bytes[0] = tag;
        assert!(Block::copy_of(&bytes).is_err());
    }
    assert!(Block::copy_of(&[]).is_err());
    assert!(Block::copy_of(&[9; 40]).is_err());
}

#[test]
fn keys_with_equal_zero_padded_heads_are_distinct() {
    let keys: [&[u8]; 6] =
        [b"", b"\0", b"\0\0", b"\0\0\0\0\0\0\0\0", b"\0\0\0\0\0\0\0\0\0", b"\x01"];
    let order = KeyOrder::Bytewise;
    for &layout in BlockLayout::ALL {
        let block = Block::copy_of(&block(layout, &keys, 5, b"vvv")).unwrap();
        for (i, key) in keys.iter().enumerate() {
            let mut buf = KeyBuf::default();
            let row = block.load(i, &mut buf);
            assert_eq!(buf.key(), *key);
            assert_eq!(block.find(&order, key, 9), Lookup::Found(row));
            assert_eq!(block.lower_bound(&order, key, 9, &mut buf), i);
            assert_eq!(block.lower_bound(&order, key, 4, &mut buf), i + 1);
        }
        assert_eq!(block.find(&order, b"\0\0\0", 9), Lookup::Absent);
        assert_eq!(block.find(&order, b"\x02", 9), Lookup::PastEnd);
    }
}
